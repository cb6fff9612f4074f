"""The objective of NCMC: a softmax over the classes by their centroids."""

import torch
from torch import Tensor

from ccml._validation import check_option
from ccml.objectives._losses import LOSSES, loss_of, query_shares


def nearest_mean(
    embeddings: Tensor,
    labels: Tensor,
    centroids: Tensor,
    centroid_labels: Tensor,
    *,
    loss: str = "log-likelihood",
    sample_weight: Tensor | None = None,
) -> Tensor:
    """Loss of NCMC: p(c | x) ∝ sum over the centroids m of class c of exp(-||x - m||^2 / 2).

    Parameters
    ----------
    embeddings : Tensor of shape (B, d)
    labels : Tensor of shape (B,)
        A query without a centroid of its class doesn't count.
    centroids : Tensor of shape (M, d)
        Embedded like the queries; gradients flow into them.
    centroid_labels : Tensor of shape (M,)
    loss : {"log-likelihood", "expected-accuracy"}
    sample_weight : Tensor of shape (B,), optional

    Examples
    --------
    >>> import torch
    >>> from ccml import objectives
    >>> z, means = torch.tensor([[0.0], [3.0]]), torch.tensor([[0.0], [4.0]])
    >>> objectives.nearest_mean(z, torch.tensor([0, 1]), means, torch.tensor([0, 1]))
    tensor(0.0092)
    """
    check_option("objective", "loss", loss, LOSSES)
    # The query's norm is the same for all; the rest cancels far from the origin.
    centre = centroids.mean(0)
    queries, means = embeddings - centre, centroids - centre
    logits = queries @ means.T - means.square().sum(1) / 2  # (B, M)
    same = labels[:, None] == centroid_labels
    is_query = same.any(1)
    own = torch.logsumexp(logits.masked_fill(~same, -torch.inf)[is_query], 1)
    log_probability = own - torch.logsumexp(logits[is_query], 1)
    weight = None if sample_weight is None else sample_weight[is_query]
    shares = query_shares(is_query[is_query], weight, logits.dtype)
    return (loss_of(log_probability, loss) * shares).sum()
