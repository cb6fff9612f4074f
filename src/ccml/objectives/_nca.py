"""Neighbourhood components analysis: leave-one-out accuracy with a soft choice of one neighbour."""

import torch
from torch import Tensor

from ccml._validation import check_option
from ccml.objectives._losses import LOSSES, loss_of, query_shares
from ccml.objectives._pairs import class_sizes, sum_over_blocks
from ccml.objectives._search import Pool


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

    def value_of(distances: Tensor, block: slice) -> Tensor:
        # A query that doesn't count sees all rows as its own: a sum of none has no gradient.
        hidden = (labels[block, None] != pool.labels) & (shares[block, None] > 0)
        to_all = torch.logsumexp(-distances, 1)
        to_same = torch.logsumexp((-distances).masked_fill(hidden, -torch.inf), 1)
        return (loss_of(to_same - to_all, loss) * shares[block]).sum()

    return sum_over_blocks(value_of, embeddings, pool)
