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
    """Average the loss over the points that count as queries, by weight if there are any.

    ``"expected-accuracy"`` is minus the paper's Eq. `expectation`, per point;
    ``"log-likelihood"`` its log form.
    """
    check_option("objective", "loss", loss, LOSSES)
    weight = is_query.to(log_probability.dtype)
    if sample_weight is not None:
        weight = weight * sample_weight
    # Points that aren't queries may hold infinities; zero times those would be NaN.
    log_probability = torch.where(is_query, log_probability, 0)
    gain = log_probability.exp() if loss == "expected-accuracy" else log_probability
    mean = (gain * weight).sum() / weight.sum().clamp_min(torch.finfo(gain.dtype).tiny)
    # Nobody chooses a NaN as a neighbour, so it would go unseen.
    return torch.where(embeddings.isnan().any(), torch.nan, -mean)
