"""Lists of nearest rows: of one partition of a gallery, and the best of several lists."""

from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccml._dask import in_task
from ccml.neighbors._class_index import ClassIndex

FOUND = np.dtype([("distance", np.float64), ("row", np.int64), ("code", np.int64)])
_NOTHING = np.array((np.inf, -1, -1), dtype=FOUND)


def search_partition(
    queries: NDArray[Any],
    own: NDArray[np.intp],
    rows: NDArray[Any],
    codes: NDArray[np.intp],
    begin: NDArray[np.intp],
    *,
    k: int,
    n_ranges: int,
    by_class: bool,
) -> NDArray[np.void]:
    """Find the nearest rows of one partition, whose first has the number ``begin``."""
    if len(rows) != len(codes):
        raise ValueError(
            f"A partition has {len(rows)} rows and {len(codes)} labels. X and y have to be cut "
            "into the same partitions, or have chunks of known sizes."
        )
    found = np.full((len(queries), n_ranges, k), _NOTHING)
    if len(rows) == 0 or len(queries) == 0:
        return found
    excluding = bool((own >= 0).any())
    with in_task():
        index = ClassIndex(rows, codes)
        search = index.search if by_class else index.nearest
        distances, indices = search(queries, k + excluding)
    if not by_class:
        distances, indices = distances[:, None], indices[:, None]
    exists = indices >= 0
    here = np.full(distances.shape, _NOTHING)
    here["distance"] = distances
    here["row"] = np.where(exists, indices + begin[0], -1)
    here["code"] = np.where(exists, codes[indices], -1)
    if excluding:
        here[here["row"] == own[:, None, None]] = _NOTHING
        here = _best(here, k)
    found[:, index.classes if by_class else [0]] = here
    return found


def merge(lists: Any, axis: Any, keepdims: bool, *, k: int) -> NDArray[np.void]:
    """Keep the best of several lists, those of earlier rows first."""
    lists = lists if isinstance(lists, list) else [lists]
    return reduce(lambda left, right: _best(np.concatenate([left, right], axis=2), k), lists)


def _best(lists: NDArray[np.void], k: int) -> NDArray[np.void]:
    """Take the ``k`` nearest; of equally near ones the first, which has the lower index."""
    order = np.argsort(lists["distance"], axis=2, kind="stable")[:, :, :k]
    return np.take_along_axis(lists, order, axis=2)
