"""Squared distances of chosen pairs, in the graph.

The search is outside of it: the selection has zero gradient almost everywhere, so this is exact.
"""

from typing import Any

import torch
from torch import Tensor

_GATHERED = 2**22  # elements of the largest temporary in `_SquaredDistances`


class _SquaredDistances(torch.autograd.Function):
    """Squared distances of each query to its chosen rows of the pool, (B, K), in bounded memory.

    Autograd would keep the (B, K, d) differences; K is classes x neighbours. Here they live only
    in blocks of the forward pass, and the backward pass is two products with a (sparse) matrix.
    """

    @staticmethod
    def forward(ctx: Any, queries: Tensor, pool: Tensor, chosen: Tensor) -> Tensor:
        ctx.save_for_backward(queries, pool, chosen)
        block = max(1, _GATHERED // max(1, chosen.shape[1] * queries.shape[1]))
        return torch.cat(
            [
                (query[:, None] - pool[rows]).square().sum(2)
                for query, rows in zip(queries.split(block), chosen.split(block), strict=True)
            ]
        )

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        queries, pool, chosen = ctx.saved_tensors
        centre = pool.mean(0)  # the differences below would cancel far from the origin
        queries, pool = queries - centre, pool - centre
        # d ||q - x||^2 = 2 (q - x)(dq - dx), summed over the pairs with weights W
        W = _pair_weights(2 * grad, chosen, len(pool))
        summed = W.T @ torch.cat([torch.ones_like(queries[:, :1]), queries], 1)  # (P, 1 + d)
        grad_queries = 2 * grad.sum(1)[:, None] * queries - W @ pool
        return grad_queries, summed[:, :1] * pool - summed[:, 1:], None


def _pair_weights(weights: Tensor, chosen: Tensor, n_pool: int) -> Tensor:
    """Matrix (B, P) with ``weights`` at the chosen pairs; sparse where that is faster."""
    n_queries, n_chosen = chosen.shape
    if 50 * n_chosen > n_pool:
        return weights.new_zeros(n_queries, n_pool).scatter_add_(1, chosen, weights)
    rows = torch.arange(n_queries, device=chosen.device).repeat_interleave(n_chosen)
    places = torch.stack([rows, chosen.flatten()])
    return torch.sparse_coo_tensor(
        places, weights.flatten(), (n_queries, n_pool), check_invariants=False
    )


def squared_distances(queries: Tensor, pool: Tensor, chosen: Tensor) -> Tensor:
    """Squared distances of each query to its chosen rows of the pool, both (B, K)."""
    distances: Tensor = _SquaredDistances.apply(queries, pool, chosen)  # type: ignore[no-untyped-call]
    return distances


def mean_squared_distance(queries: Tensor, pool: Tensor, chosen: Tensor, exists: Tensor) -> Tensor:
    """Mean over the last axis of ``chosen``, over those that exist; inf where none does.

    ``chosen`` and ``exists`` are (B, ..., k); the result is (B, ...).
    """
    distances = squared_distances(queries, pool, chosen.flatten(1)).view(chosen.shape)
    count = exists.sum(-1)
    mean = torch.where(exists, distances, 0).sum(-1) / count.clamp_min(1)
    return torch.where(count > 0, mean, torch.inf)
