"""Neighbours of queries in a pool, outside the graph: compiled on the CPU, torch elsewhere."""

from typing import NamedTuple

import torch
from torch import Tensor

from ccml import neighbors

_FOLDS = 16


class Pool(NamedTuple):
    """The rows among which neighbours are looked for."""

    embeddings: Tensor  # (P, d); gradients flow into it if it has any
    labels: Tensor  # (P,)
    rows: Tensor  # (B,): where each query stands in the pool (-1: it doesn't)

    @classmethod
    def of(cls, embeddings: Tensor, labels: Tensor, pool: "Pool | None") -> "Pool":
        """Return ``pool``, or by default the queries themselves."""
        if pool is not None:
            return pool
        return cls(embeddings, labels, torch.arange(len(labels), device=labels.device))


class Found(NamedTuple):
    """Rows of the pool, (B, groups, k). A group is a class, or else the own class and the rest."""

    rows: Tensor  # 0 where none exists
    exists: Tensor
    own_class: Tensor  # (B,): number of the query's class


@torch.no_grad()
def search_pool(queries: Tensor, labels: Tensor, pool: Pool, k: int, *, per_class: bool) -> Found:
    """Find the ``k`` nearest rows of every class, or of the own class and of all others."""
    queries, rows = queries.detach(), pool.embeddings.detach()
    classes, codes = torch.unique(torch.cat([labels, pool.labels]), return_inverse=True)
    own_class, pool_codes = codes[: len(labels)], codes[len(labels) :]
    # What has diverged has no neighbours; torch lets its NaN through to the loss.
    finite = bool(torch.isfinite(queries.sum() + rows.sum()))
    numpy_has_it = queries.device.type == "cpu" and queries.dtype in (torch.float32, torch.float64)
    if finite and numpy_has_it and neighbors.backend() == "numba":
        found = torch.from_numpy(
            neighbors.search_batch(
                queries.numpy(),
                rows.numpy(),
                pool_codes.numpy(),
                pool.rows.numpy(),
                len(classes),
                k,
                query_codes=None if per_class else own_class.numpy(),
            )
        )
        return Found(found.clamp_min(0), found >= 0, own_class)
    order = torch.argsort(pool_codes, stable=True)  # sorted, a class is a slice
    scores = _scores(queries, rows[order])
    place = torch.argsort(order)
    present = pool.rows >= 0
    scores[present.nonzero().squeeze(1), place[pool.rows[present]]] = torch.inf
    counts = torch.bincount(pool_codes, minlength=len(classes))
    if per_class:
        parts = [k_smallest(part, k) for part in scores.split(counts.cpu().tolist(), dim=1)]
        starts = counts.cumsum(0) - counts
    else:
        same = pool_codes[order] == own_class[:, None]
        parts = [k_smallest(scores.masked_fill(hidden, torch.inf), k) for hidden in (~same, same)]
        starts = torch.zeros(2, dtype=torch.long, device=rows.device)
    values, columns = (torch.stack(part, 1) for part in zip(*parts, strict=True))
    exists = values.isfinite()
    columns = torch.where(exists, columns + starts[:, None], 0)
    return Found(order[columns], exists, own_class)


def _scores(queries: Tensor, rows: Tensor) -> Tensor:
    """Squared distances less the query's norm, (B, P)."""
    centre = rows.mean(0)  # ||x||^2 - 2qx cancels far from the origin
    rows = rows - centre
    return torch.addmm(rows.square().sum(1)[None], queries - centre, rows.T, alpha=-2)


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
