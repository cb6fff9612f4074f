"""Neighbours within a batch: rows that move with every step, so that no index pays."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccml._validation import check_count
from ccml.neighbors._slots import GROUP, LEAF

_SIZE = GROUP * LEAF
_QUERIES = 512  # that a thread multiplies at a time


def search_batch(
    queries: NDArray[Any],
    rows: NDArray[Any],
    codes: NDArray[np.intp],
    own: NDArray[np.intp],
    n_classes: int,
    k: int,
    *,
    query_codes: NDArray[np.intp] | None = None,
) -> NDArray[np.intp]:
    """Find the ``k`` nearest rows of every class, or of the query's own and of all others.

    Exact, as `ClassIndex` is, but only compiled: where `backend` is "numba".

    Parameters
    ----------
    queries, rows : arrays of shape (n, d) and (m, d)
        Finite numbers.
    codes : array of shape (m,)
        The classes of the rows, from 0 to ``n_classes`` - 1.
    own : array of shape (n,)
        The row that each query is itself, which isn't its neighbour; -1 for none.
    n_classes, k : int
    query_codes : array of shape (n,), optional
        The classes of the queries, where only own and other are to be told apart.

    Returns
    -------
    array of shape (n, n_classes, k), or (n, 2, k)
        Indices of rows, -1 where there are fewer.
    """
    k = check_count("search_batch", "k", k)
    codes_of = [codes] if query_codes is None else [codes, query_codes]
    if not (
        len(codes) == len(rows) > 0
        and all(len(side) == len(queries) for side in [own, *codes_of[1:]])
        and all(((part >= 0) & (part < n_classes)).all() for part in codes_of)
        and ((own >= -1) & (own < len(rows))).all()
    ):
        raise ValueError(
            "search_batch needs a code from 0 to n_classes - 1 for every row, and of every query "
            "which row it is itself, or -1."
        )
    # numba takes half a second to import
    from ccml.neighbors._products import Left, Right, Runs, sift
    from ccml.neighbors._threads import Threads

    order = np.argsort(codes, kind="stable")
    padding = -len(rows) % _SIZE
    row = np.pad(order, (0, padding), constant_values=-1)
    numbers = np.pad(codes[order], (0, padding), constant_values=-1)
    rows = rows[order]
    slot_of = np.append(np.argsort(order), -1)  # -1 stays -1
    centre = rows.mean(axis=0)
    right = np.zeros((rows.shape[1], len(row)), dtype=np.float32)
    around, left = rows - centre, queries - centre
    # Products of lengths up to one can't overflow.
    longest = max(float(np.abs(around).max()), float(np.abs(left).max(initial=0)))
    scale = min(1 / (longest * np.sqrt(len(right))), 1e150) if longest > 0 else 1.0
    right[:, : len(rows)] = (around * scale).T
    left = (left * scale).astype(np.float32)
    points = queries.astype(np.float64)
    n_ranges = n_classes if query_codes is None else 2
    distances = np.full((len(queries), n_ranges, k), np.inf)
    indices = np.full(distances.shape, -1, dtype=np.intp)
    groups = [slice(first, first + _SIZE) for first in range(0, len(row), _SIZE)]
    rights = [Right.of_columns(here.start, right[:, here], row[here]) for here in groups]
    runs = [Runs.of(numbers[here]) for here in groups]

    def task(part: slice) -> None:
        mine = Left.of_rows(left[part])
        splits = {} if query_codes is None else {"splits": query_codes[part]}
        for group, here in zip(rights, runs, strict=True):
            sift(
                mine, group, here, rows, row, points[part], slot_of[own[part]], scale,
                distances[part], indices[part], **splits,
            )  # fmt: skip

    with Threads() as threads:
        threads.run(task, len(queries), _QUERIES)
    return indices
