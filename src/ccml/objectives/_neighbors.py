"""Neighbours first, gradient after: the search is outside the graph, the chosen pairs are in it.

The selection has zero gradient almost everywhere, so this is exact.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

_FOLDS = 16
_GATHERED = 2**22  # elements of the largest temporary in `_SquaredDistances`


class Pool(NamedTuple):
    """The rows among which neighbours are looked for."""

    embeddings: Tensor  # (P, d); gradients flow into it if it has any
    labels: Tensor  # (P,)
    rows: Tensor  # (B,): where each query stands in the pool (-1: it doesn't)


class Grouped(NamedTuple):
    """Scores of queries against a pool, both sorted by class, and the way back."""

    scores: Tensor  # (B, P): squared distance less the query's norm; inf for the query itself
    query_order: Tensor  # (B,)
    pool_order: Tensor  # (P,)
    query_starts: list[int]  # class c has the queries query_starts[c] to query_starts[c + 1]
    pool_starts: list[int]


@torch.no_grad()
def score_by_class(queries: Tensor, labels: Tensor, pool: Pool) -> Grouped:
    """Compare every query with the pool and put both in the order of their classes.

    Sorted, a class is a slice: nothing needs a mask of the size of the scores.
    """
    classes, codes = torch.unique(torch.cat([labels, pool.labels]), return_inverse=True)
    query_codes, pool_codes = codes[: len(labels)], codes[len(labels) :]
    query_order = torch.argsort(query_codes, stable=True)
    pool_order = torch.argsort(pool_codes, stable=True)
    centre = pool.embeddings.mean(0)  # ||x||^2 - 2qx cancels far from the origin
    rows = pool.embeddings[pool_order] - centre
    scores = torch.addmm(
        rows.square().sum(1)[None], queries[query_order] - centre, rows.T, alpha=-2
    )
    place = torch.empty_like(pool_order)
    place[pool_order] = torch.arange(len(place), device=place.device)
    own = pool.rows[query_order]
    present = own >= 0
    scores[present.nonzero().squeeze(1), place[own[present]]] = torch.inf
    return Grouped(
        scores,
        query_order,
        pool_order,
        _starts(query_codes, len(classes)),
        _starts(pool_codes, len(classes)),
    )


def _starts(codes: Tensor, n_classes: int) -> list[int]:
    starts: list[int] = torch.bincount(codes, minlength=n_classes).cumsum(0).tolist()
    return [0, *starts]


def k_smallest(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the ``k`` smallest of every row and their columns; inf and 0 where there are fewer.

    Wide rows are folded first: their k smallest entries lie in at most k columns of the folded
    minima, which are several times cheaper to select from.
    """
    n_rows, n_columns = scores.shape
    if n_columns < k:
        values, columns = k_smallest(scores, n_columns) if n_columns else (scores, scores.long())
        padding = (0, k - n_columns)
        return (
            torch.nn.functional.pad(values, padding, value=torch.inf),
            torch.nn.functional.pad(columns, padding),
        )
    if n_columns < 4 * _FOLDS * k:
        found = scores.topk(k, largest=False)
        return found.values, found.indices
    width = n_columns // _FOLDS
    minima = scores[:, : _FOLDS * width].unflatten(1, (_FOLDS, width)).amin(1)
    folded = minima.topk(k, largest=False, sorted=False).indices  # (n_rows, k)
    fold_starts = width * torch.arange(_FOLDS, device=scores.device)
    left_over = torch.arange(_FOLDS * width, n_columns, device=scores.device)
    candidates = torch.cat(
        [(folded[:, None] + fold_starts[:, None]).flatten(1), left_over.expand(n_rows, -1)], 1
    )
    found = scores.gather(1, candidates).topk(k, largest=False)
    return found.values, candidates.gather(1, found.indices)


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


def mean_squared_distance(queries: Tensor, pool: Tensor, chosen: Tensor, exists: Tensor) -> Tensor:
    """Mean over the last axis of ``chosen``, over those that exist; inf where none does.

    ``chosen`` and ``exists`` are (B, ..., k); the result is (B, ...).
    """
    distances: Tensor = _SquaredDistances.apply(queries, pool, chosen.flatten(1))  # type: ignore[no-untyped-call]
    distances = distances.view(chosen.shape)
    count = exists.sum(-1)
    mean = torch.where(exists, distances, 0).sum(-1) / count.clamp_min(1)
    return torch.where(count > 0, mean, torch.inf)
