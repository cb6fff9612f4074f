"""The local objective of CCML: nearest of one's own class against nearest of all others."""

import torch
from torch import Tensor

from ccml._validation import check_count
from ccml.objectives._losses import reduce_log_probability
from ccml.objectives._neighbors import mean_squared_distance
from ccml.objectives._search import Pool, search_pool


def local(
    embeddings: Tensor,
    labels: Tensor,
    n_neighbors: int,
    *,
    loss: str = "expected-accuracy",
    sample_weight: Tensor | None = None,
    pool: Pool | None = None,
) -> Tensor:
    """Loss of Eq. `new_cne`: a softmax over two mean squared distances.

    One is to the ``n_neighbors`` nearest points of the same class, the other to the
    ``n_neighbors`` nearest points of all other classes together. A point is never its own
    neighbour; one that has no other of its class in the pool doesn't count.

    Parameters
    ----------
    embeddings : Tensor of shape (B, d)
        The queries, float32 or float64, on any device.
    labels : Tensor of shape (B,)
        Integer labels.
    n_neighbors : int
        The k of the paper. A class with fewer is judged by the mean over those it has.
    loss : {"expected-accuracy", "log-likelihood"}
        Minus the mean probability of the own class (Eq. `expectation`), or minus its mean log.
    sample_weight : Tensor of shape (B,), optional
    pool : Pool, optional
        Where to look for neighbours; by default among the queries themselves.

    Returns
    -------
    Tensor
        A scalar to minimise.

    Examples
    --------
    >>> import torch
    >>> from ccml import objectives
    >>> z = torch.tensor([[0.0], [1.0], [4.0], [5.0]])
    >>> objectives.local(z, torch.tensor([0, 0, 1, 1]), n_neighbors=1)  # nearly all right
    tensor(-0.9998)
    """
    check_count("objective", "n_neighbors", n_neighbors)
    pool = Pool.of(embeddings, labels, pool)
    found = search_pool(embeddings, labels, pool, n_neighbors, per_class=False)
    to_same, to_other = mean_squared_distance(
        embeddings, pool.embeddings, found.rows, found.exists
    ).unbind(1)
    is_query = found.exists[:, 0, 0]
    log_probability = torch.nn.functional.logsigmoid(to_other - torch.where(is_query, to_same, 0))
    return reduce_log_probability(log_probability, is_query, loss, sample_weight, embeddings)
