"""From the log-probability of each point's own class to one number to minimise."""

import torch
from torch import Tensor

from ccml._validation import check_option

LOSSES = ("expected-accuracy", "log-likelihood")


def reduce_log_probability(
    log_probability: Tensor,
    is_query: Tensor,
    loss: str,
    sample_weight: Tensor | None,
    embeddings: Tensor,
) -> Tensor:
    """Average the loss over the points that count as queries, by weight if there are any."""
    check_option("objective", "loss", loss, LOSSES)
    shares = query_shares(is_query, sample_weight, log_probability.dtype)
    # Points that aren't queries may hold infinities; zero times those would be NaN.
    mean = (loss_of(torch.where(is_query, log_probability, 0), loss) * shares).sum()
    # Nobody chooses a NaN as a neighbour, so it would go unseen.
    return torch.where(embeddings.isnan().any(), torch.nan, mean)


def loss_of(log_probability: Tensor, loss: str) -> Tensor:
    """``"expected-accuracy"`` is minus Eq. `expectation`, ``"log-likelihood"`` its log form."""
    return -log_probability.exp() if loss == "expected-accuracy" else -log_probability


def query_shares(is_query: Tensor, sample_weight: Tensor | None, dtype: torch.dtype) -> Tensor:
    """How much each point counts in the mean over the queries: shares that sum to one."""
    weight = is_query.to(dtype)
    if sample_weight is not None:
        weight = weight * sample_weight
    return weight / weight.sum().clamp_min(torch.finfo(dtype).tiny)
