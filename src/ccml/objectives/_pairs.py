"""Losses over all pairs of a query and a row of the pool, in blocks of queries.

Autograd would keep several matrices of the size of queries x pool. Here they live only for a block:
its gradient is taken at once, and from then on is two small matrices.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ccml.objectives._search import Pool

_BLOCK_ELEMENTS = 2**19  # of the (queries, pool) arrays of a block: a few stay in the cache

# From squared distances (b, P) of the queries in a slice, inf from a query to itself, to their part
# of the loss, a scalar, and its derivatives by the distances, (b, P).
BlockLoss = Callable[[Tensor, slice], tuple[Tensor, Tensor]]


class _SumOverBlocks(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        queries: Tensor,
        rows: Tensor,
        own: Tensor,
        loss_of_block: BlockLoss,
        arrays: int,
    ) -> Tensor:
        centre = rows.mean(0)  # ||q||^2 + ||x||^2 - 2qx cancels far from the origin
        queries, rows = queries - centre, rows - centre
        norms = rows.square().sum(1)
        total = queries.new_zeros(())
        # d ||q - x||^2 = 2 (q - x)(dq - dx), summed over the pairs with weights W
        grad_queries, grad_rows = torch.empty_like(queries), torch.zeros_like(rows)
        weights = torch.zeros_like(norms)
        size = max(1, _BLOCK_ELEMENTS // (arrays * len(rows)))
        for begin in range(0, len(queries), size):
            block = slice(begin, min(begin + size, len(queries)))
            distances = _squared_distances(queries[block], rows, norms, own[block])
            loss, W = loss_of_block(distances, block)
            total += loss
            grad_queries[block] = 2 * (W.sum(1)[:, None] * queries[block] - W @ rows)
            grad_rows.addmm_(W.T, queries[block], alpha=-2)
            weights += W.sum(0)
        grad_rows.addcmul_(weights[:, None], rows, value=2)
        ctx.save_for_backward(grad_queries, grad_rows)
        return total

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        grad_queries, grad_rows = ctx.saved_tensors
        return grad * grad_queries, grad * grad_rows, None, None, None


def _squared_distances(queries: Tensor, rows: Tensor, norms: Tensor, own: Tensor) -> Tensor:
    """Squared distances, (b, P); inf from a query to itself."""
    distances = queries.square().sum(1)[:, None] + norms
    distances.addmm_(queries, rows.T, alpha=-2).clamp_min_(0)
    present = (own >= 0).nonzero().squeeze(1)
    distances[present, own[present]] = torch.inf
    return distances


def sum_over_blocks(
    loss_of_block: BlockLoss, queries: Tensor, pool: Pool, *, arrays: int = 1
) -> Tensor:
    """Sum a loss over blocks of queries and all rows of the pool; can be differentiated once.

    ``arrays`` tells how many of the size of its distances a block may need, about.
    """
    total: Tensor = _SumOverBlocks.apply(  # type: ignore[no-untyped-call]
        queries, pool.embeddings, pool.rows, loss_of_block, arrays
    )
    return total


def by_autograd(loss_of: Callable[[Tensor, slice], Tensor]) -> BlockLoss:
    """Let autograd differentiate what has no short closed form."""

    def loss_of_block(distances: Tensor, block: slice) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            loss = loss_of(distances.requires_grad_(), block)
        (gradient,) = torch.autograd.grad(loss, distances)
        return loss.detach(), gradient

    return loss_of_block


def class_sizes(labels: Tensor, pool: Pool) -> Tensor:
    """How many other rows of its class each query has in the pool, (B,)."""
    classes, counts = pool.labels.unique(return_counts=True)
    place = torch.searchsorted(classes, labels).clamp_max(len(classes) - 1)
    return torch.where(classes[place] == labels, counts[place], 0) - (pool.rows >= 0).long()
