"""Neighbourhood components analysis: leave-one-out accuracy with a soft choice of one neighbour."""

import math

import torch
from torch import Tensor
from torch.nn.functional import threshold

from ccml._validation import check_option
from ccml.objectives._losses import LOSSES, loss_of, query_shares
from ccml.objectives._pairs import class_sizes, sum_over_blocks
from ccml.objectives._search import Pool

_NEGLIGIBLE = -60.0  # a log of a weight that makes no difference to a sum, not even in float64


def nca(
    embeddings: Tensor,
    labels: Tensor,
    *,
    loss: str = "expected-accuracy",
    sample_weight: Tensor | None = None,
    pool: Pool | None = None,
) -> Tensor:
    """Loss of NCA: a query chooses one row with probability ∝ exp(-squared distance).

    Its own class has the probability p_i = sum of exp(-d_ij) over the others of its class, over
    the sum over all others. The parameters are those of `local`. A query that has no other of its
    class in the pool doesn't count.

    Examples
    --------
    >>> import torch
    >>> from ccml import objectives
    >>> z = torch.tensor([[0.0], [1.0], [4.0], [5.0]])
    >>> objectives.nca(z, torch.tensor([0, 0, 1, 1]))
    tensor(-0.9998)
    """
    check_option("objective", "loss", loss, LOSSES)
    pool = Pool.of(embeddings, labels, pool)
    shares = query_shares(class_sizes(labels, pool) > 0, sample_weight, embeddings.dtype)

    def loss_of_block(distances: Tensor, block: slice) -> tuple[Tensor, Tensor]:
        same = labels[block, None] == pool.labels
        others, to_others = _softmin(distances)
        mine, to_mine = _softmin(distances.masked_fill_(~same, torch.inf))
        share = shares[block]
        log_probability = torch.where(share > 0, to_others - to_mine, 0)
        # The derivatives of a soft minimum are its weights; those of -p have one more factor, p.
        factor = share * log_probability.exp() if loss == "expected-accuracy" else share
        gradient = mine.sub_(others).mul_(factor[:, None])
        return (loss_of(log_probability, loss) * share).sum(), gradient

    return sum_over_blocks(loss_of_block, embeddings, pool)


def _softmin(distances: Tensor) -> tuple[Tensor, Tensor]:
    """Weights exp(-d) / sum of exp(-d), (b, P), and -log of that sum, (b,); 0 and inf for none."""
    nearest = distances.amin(1)
    shift = torch.where(nearest.isfinite(), nearest, 0)
    # exp is slow where it's denormal or 0, and so is what is done with denormal numbers.
    weights = (shift[:, None] - distances).clamp_min_(_NEGLIGIBLE).exp_()
    threshold(weights, math.exp(_NEGLIGIBLE), 0, inplace=True)
    total = weights.sum(1)
    return weights.div_(total.clamp_min(1e-30)[:, None]), shift - total.log()
