"""The contrastive objective of DrLIM: same together, others a margin apart."""

import torch
from torch import Tensor

from ccml._validation import check_number
from ccml.objectives._losses import query_shares
from ccml.objectives._pairs import by_autograd, class_sizes, sum_over_blocks
from ccml.objectives._search import Pool


def contrastive(
    embeddings: Tensor,
    labels: Tensor,
    *,
    margin: float = 1.0,
    sample_weight: Tensor | None = None,
    pool: Pool | None = None,
) -> Tensor:
    """Loss of DrLIM over all pairs of a query and a row of the pool.

    A pair of one class costs d^2 / 2, a pair of two classes max(0, margin - d)^2 / 2, where d is
    the distance. Pairs of each kind are averaged for each query and the two averages added, so
    that many classes don't drown the pull within one. The parameters are those of `local`; a query
    that has no other of its class in the pool doesn't count.

    Examples
    --------
    >>> import torch
    >>> from ccml import objectives
    >>> z = torch.tensor([[0.0], [0.0], [4.0], [4.0]])
    >>> labels = torch.tensor([0, 0, 1, 1])
    >>> objectives.contrastive(z, labels, margin=4.0), objectives.contrastive(z, labels, margin=6.0)
    (tensor(0.), tensor(2.))
    """
    check_number("objective", "margin", margin, above=0)
    pool = Pool.of(embeddings, labels, pool)
    n_same = class_sizes(labels, pool)
    n_others = len(pool.labels) - (pool.rows >= 0).long() - n_same
    shares = query_shares(n_same > 0, sample_weight, embeddings.dtype)
    per_same, per_other = (shares / (2 * n.clamp_min(1)) for n in (n_same, n_others))

    @by_autograd
    def loss_of_block(distances: Tensor, block: slice) -> Tensor:
        same = labels[block, None] == pool.labels
        itself = torch.isinf(distances)
        pull = torch.where(same & ~itself, distances, 0).sum(1)
        # The root has no slope at 0, where a pair can't know in which direction to part.
        near = ~same & (distances < margin**2) & (distances > 0)
        apart = (margin - torch.where(near, distances, 1).sqrt()).square()
        coincide = ~same & (distances == 0)
        push = torch.where(near, apart, 0).sum(1) + margin**2 * coincide.sum(1)
        return (pull * per_same[block] + push * per_other[block]).sum()

    return sum_over_blocks(loss_of_block, embeddings, pool)
