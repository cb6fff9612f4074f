"""The objective of LMNN: target neighbours near, and other classes a margin farther."""

import torch
from torch import Tensor

from ccml._validation import check_count, check_number
from ccml.objectives._losses import query_shares
from ccml.objectives._neighbors import squared_distances
from ccml.objectives._pairs import by_autograd, sum_over_blocks
from ccml.objectives._search import Pool, search_pool


def large_margin(
    embeddings: Tensor,
    labels: Tensor,
    n_neighbors: int,
    *,
    margin: float = 1.0,
    push: float = 0.9,
    sample_weight: Tensor | None = None,
    pool: Pool | None = None,
) -> Tensor:
    """Loss of LMNN: (1 - push) pull + push hinge, averaged over the queries.

    The targets of a query i are its ``n_neighbors`` nearest rows of its class. Pull is the mean of
    their squared distances d_ij. The hinge is the mean over the targets of the sum of
    max(0, margin + d_ij - d_il) over all rows l of other classes; those above 0 are impostors.
    Targets and impostors are those of the embeddings as they are now.

    Most queries soon have no impostor at all. The search for the nearest row of another class
    tells which, and only the others are compared with the whole pool. The other parameters are
    those of `local`; a query that has no other of its class in the pool doesn't count.

    Examples
    --------
    >>> import torch
    >>> from ccml import objectives
    >>> z = torch.tensor([[0.0], [1.0], [2.0], [3.0]])
    >>> labels = torch.tensor([0, 0, 1, 1])
    >>> objectives.large_margin(z, labels, 1, push=0.5)  # 1 / 2 + (0 + 1 + 1 + 0) / 4 / 2
    tensor(0.7500)
    """
    check_count("objective", "n_neighbors", n_neighbors)
    check_number("objective", "margin", margin, minimum=0)
    check_number("objective", "push", push, minimum=0, maximum=1)
    pool = Pool.of(embeddings, labels, pool)
    found = search_pool(embeddings, labels, pool, n_neighbors, per_class=False)
    targets, exists = found.rows[:, 0], found.exists[:, 0]
    shares = query_shares(exists[:, 0], sample_weight, embeddings.dtype)
    weights = exists * (shares / exists.sum(1).clamp_min(1))[:, None]  # (B, k), of each target
    to_targets = squared_distances(embeddings, pool.embeddings, targets)
    with torch.no_grad():
        to_other = squared_distances(embeddings, pool.embeddings, found.rows[:, 1, :1])
        reach = margin + torch.where(exists, to_targets, 0).amax(1)
        # A little wider: the distances of the blocks are rounded in another way.
        near = to_other.squeeze(1) < reach * (1 + 1e-3)
        crowded = (near & found.exists[:, 1, 0] & (shares > 0)).nonzero().squeeze(1)

    @by_autograd
    def hinge_of(distances: Tensor, block: slice) -> Tensor:
        mine = crowded[block]
        limits = margin + distances.gather(1, targets[mine])  # (b, k)
        limits = limits.masked_fill(~exists[mine], -torch.inf)
        other = labels[mine, None] != pool.labels
        query, row = (other & (distances < limits.amax(1, keepdim=True))).nonzero(as_tuple=True)
        hinges = (limits[query] - distances[query, row][:, None]).clamp_min(0)
        return (hinges * weights[mine][query]).sum()

    rest = Pool(pool.embeddings, pool.labels, pool.rows[crowded])
    hinge = sum_over_blocks(hinge_of, embeddings[crowded], rest, arrays=1 + n_neighbors // 2)
    total = (1 - push) * (weights * to_targets).sum() + push * hinge
    return torch.where(embeddings.isnan().any(), torch.nan, total)
