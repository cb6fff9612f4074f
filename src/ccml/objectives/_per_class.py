"""The per-class objective of CCML: a softmax over the classes by their nearest members."""

import torch
from torch import Tensor

from ccml._validation import check_count
from ccml.objectives._losses import reduce_log_probability
from ccml.objectives._neighbors import mean_squared_distance
from ccml.objectives._search import Pool, search_pool


def per_class(
    embeddings: Tensor,
    labels: Tensor,
    n_neighbors: int,
    *,
    loss: str = "expected-accuracy",
    sample_weight: Tensor | None = None,
    pool: Pool | None = None,
) -> Tensor:
    """Loss of Eq. `org_cne`: a softmax over each class's mean squared distance.

    The mean is over the ``n_neighbors`` points of the class that are nearest to the query. The
    parameters are those of `local`, and so are the rules for small classes. A class with a single
    member in the pool repels others; its own member doesn't count as a query.

    Examples
    --------
    >>> import torch
    >>> from ccml import objectives
    >>> z = torch.tensor([[0.0], [1.0], [4.0], [5.0]])
    >>> objectives.per_class(z, torch.tensor([0, 0, 1, 1]), 1, loss="log-likelihood")
    tensor(0.0002)
    """
    check_count("objective", "n_neighbors", n_neighbors)
    pool = Pool.of(embeddings, labels, pool)
    found = search_pool(embeddings, labels, pool, n_neighbors, per_class=True)
    logits = -mean_squared_distance(embeddings, pool.embeddings, found.rows, found.exists)  # (B, C)
    own = logits.gather(1, found.own_class[:, None]).squeeze(1)
    is_query = own.isfinite()
    log_probability = torch.where(is_query, own, 0) - torch.logsumexp(
        torch.where(is_query[:, None], logits, 0), 1
    )
    return reduce_log_probability(log_probability, is_query, loss, sample_weight, embeddings)
