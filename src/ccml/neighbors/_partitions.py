"""A gallery larger than memory: dask partitions, each searched by itself, and the best merged."""

from collections.abc import Iterator
from copy import copy
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ccml._dask import as_array, dask_array, is_dask
from ccml._validation import check_count, check_same_kind_of_label, plain_labels
from ccml.neighbors._class_index import Neighbors
from ccml.neighbors._lists import FOUND, merge, search_partition
from ccml.neighbors._selection import mean_distances

_LISTED = 2**20  # neighbours that are kept of a partition at a time, 24 MB
_MERGED = 4  # lists of neighbours that a task merges


class PartitionedIndex:
    """Rows with labels in a dask array, searched as `ClassIndex` searches those in memory.

    Nothing is held: a search loads a partition, lays it out, looks for the nearest rows there, and
    forgets it; of what the partitions gave the best are merged, a few at a time. So it pays to ask
    for many queries at once. Results are those of `ClassIndex`. Queries in memory are answered
    in memory, on the scheduler or cluster that is in use; those in dask collections lazily.

    The labels are read once, at the start, to find the classes.

    Parameters
    ----------
    X : dask array of shape (n_rows, n_features)
        A worker needs memory for about seven partitions of ``X``: the next one and layouts too.
    y : dask array or series, or array-like, of shape (n_rows,)

    Attributes
    ----------
    classes : ndarray of shape (n_classes,)
    class_counts : ndarray of shape (n_classes,)
        Rows of each class.
    rows : dask array of shape (n_rows, n_features)
    codes : dask array of shape (n_rows,)
        The place of each row's label in ``classes``.

    Examples
    --------
    >>> import dask.array as da
    >>> from ccml.neighbors import PartitionedIndex
    >>> X = da.from_array([[0.0], [1.0], [5.0], [7.0]], chunks=2)
    >>> index = PartitionedIndex(X, ["a", "a", "b", "b"])
    >>> index.predict([[2.0], [6.0]], k=2)
    array(['a', 'b'], dtype='<U1')
    """

    def __init__(self, X: Any, y: Any) -> None:
        da = dask_array()
        if not isinstance(X, da.Array) or X.ndim != 2:
            raise ValueError(
                "PartitionedIndex needs a dask array of rows and columns; got "
                f"{type(X).__name__} of shape {getattr(X, 'shape', ())}."
            )
        X, lengths = X.rechunk({1: -1}), X.chunks[0]
        codes: Any
        if is_dask(y):
            y = as_array(y)
            self.classes, self.class_counts, label_lengths = _count(y)
            if np.isnan(lengths).any() and len(lengths) == len(label_lengths):
                lengths = label_lengths
            y = _with_lengths(y, label_lengths)
            codes = y.map_blocks(_code, self.classes, dtype=np.intp)
        else:
            y = plain_labels(np.asarray(y))
            _refuse_missing(y)
            self.classes, codes, self.class_counts = np.unique(
                y, return_inverse=True, return_counts=True
            )
        if np.isnan(lengths).any():
            lengths = _lengths(X)
        self.rows = _with_lengths(X, lengths)
        if y.shape != (self.n_rows,) or self.n_rows == 0:
            raise ValueError(
                f"{self.n_rows} rows need as many labels, and there has to be one; got labels of "
                f"shape {y.shape}."
            )
        is_known = isinstance(codes, da.Array)
        self.codes = codes.rechunk((lengths,)) if is_known else da.from_array(codes, (lengths,))

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return int(self.rows.shape[0])

    @property
    def n_features(self) -> int:
        """How many columns a row has."""
        return int(self.rows.shape[1])

    def joined(self, other: "PartitionedIndex") -> "PartitionedIndex":
        """Return an index of these rows and, after them, those of another one."""
        da = dask_array()
        check_same_kind_of_label("PartitionedIndex.joined", other.classes, self.classes)
        if other.n_features != self.n_features:
            raise ValueError(
                f"PartitionedIndex.joined needs rows of {self.n_features} features, as in its "
                f"gallery; got {other.n_features}."
            )
        both = copy(self)
        both.classes = np.union1d(self.classes, other.classes)
        both.class_counts = np.zeros(len(both.classes), dtype=np.intp)
        codes = []
        for part in (self, other):
            new_code = np.searchsorted(both.classes, part.classes)
            both.class_counts[new_code] += part.class_counts
            codes.append(part.codes.map_blocks(_recode, new_code, dtype=np.intp))
        both.rows, both.codes = da.concatenate([self.rows, other.rows]), da.concatenate(codes)
        return both

    def search(self, queries: Any, k: int, *, exclude_self: bool = False) -> Neighbors:
        """Find the ``k`` nearest rows of every class: arrays of shape (n_queries, n_classes, k).

        As `ClassIndex.search`; lazy if the queries are a dask array.
        """
        found = self._search(queries, k, by_class=True, exclude_self=exclude_self)
        return Neighbors(found["distance"], found["row"])

    def nearest(self, queries: Any, k: int, *, exclude_self: bool = False) -> tuple[Any, Any, Any]:
        """Find the ``k`` nearest rows of all: distances, indices and codes, of shape (n, k)."""
        found = self._search(queries, k, by_class=False, exclude_self=exclude_self)[:, 0]
        return found["distance"], found["row"], found["code"]

    def predict(self, queries: ArrayLike, k: int) -> NDArray[Any]:
        """Give each query in memory the class whose ``k`` nearest rows are nearest on average."""
        k = min(check_count("PartitionedIndex", "k", k), int(self.class_counts.max()))
        blocks = self.search_blocks(queries, k)
        return self.classes[np.concatenate([mean_distances(b[0]).argmin(axis=1) for b in blocks])]

    def search_blocks(self, queries: ArrayLike, k: int) -> Iterator[Neighbors]:
        """Yield `search` of queries in memory by blocks; each is a pass through the gallery."""
        queries = np.asarray(queries)
        size = self._pass_size(k, by_class=True)
        for begin in range(0, max(len(queries), 1), size):
            yield self.search(queries[begin : begin + size], k)

    def _search(self, queries: Any, k: int, *, by_class: bool, exclude_self: bool) -> Any:
        da = dask_array()
        k = check_count("PartitionedIndex", "k", k)
        is_lazy = is_dask(queries)
        if not is_lazy:
            queries = np.asarray(queries)
        if queries.ndim != 2 or queries.shape[1] != self.n_features:
            raise ValueError(
                f"PartitionedIndex needs queries of {self.n_features} features, as in its gallery; "
                f"got shape {queries.shape}."
            )
        Q: Any = queries if is_lazy else da.from_array(queries, chunks=-1)
        given = Q.chunks[0]
        is_known = not np.isnan(given).any()
        if is_known:  # small chunks together: each pass reads and lays out the whole gallery
            Q = Q.rechunk((min(self._pass_size(k, by_class=by_class), max(len(Q), 1)), -1))
        if exclude_self and Q.shape[0] != self.n_rows:
            raise ValueError(
                f"exclude_self needs the gallery's own {self.n_rows} rows as queries; got "
                f"{Q.shape[0]}."
            )
        if exclude_self:
            own = da.arange(self.n_rows, chunks=Q.chunks[:1])
        else:
            own = Q.map_blocks(_nobody, drop_axis=1, dtype=np.intp)
        passes = [
            self._pass(number, Q.blocks[number], own.blocks[number], k, by_class=by_class)
            for number in range(Q.numblocks[0])
        ]
        found = da.concatenate(passes, allow_unknown_chunksizes=True)
        if not is_lazy:
            return found.compute()
        return found.rechunk({0: given}) if is_known else found

    def _pass(self, number: int, Q: Any, own: Any, k: int, *, by_class: bool) -> Any:
        """Search all partitions for a block of queries, and merge in a tree."""
        da = dask_array()
        rows, codes = self.rows, self.codes
        if number:  # load partitions anew: to keep them all meanwhile might take too much memory
            rows, codes = _anew(rows, number), _anew(codes, number)
        lengths = rows.chunks[0]
        begins = da.from_array(np.cumsum([0, *lengths[:-1]]), chunks=1)
        n_ranges = len(self.classes) if by_class else 1
        nothing = np.empty((0, 0, 0), dtype=FOUND)
        lists = da.blockwise(
            search_partition, "qcj", Q, "qf", own, "q", rows, "jf", codes, "j", begins, "j",
            k=k, n_ranges=n_ranges, by_class=by_class, new_axes={"c": n_ranges},
            adjust_chunks={"j": k}, concatenate=True, align_arrays=False, meta=nothing,
        )  # fmt: skip
        best = partial(merge, k=k)
        return da.reduction(
            lists, _as_it_is, best, combine=best, axis=2, keepdims=True, concatenate=False,
            split_every=_MERGED, output_size=k, dtype=FOUND, meta=nothing,
        )  # fmt: skip

    def _pass_size(self, k: int, *, by_class: bool) -> int:
        n_lists = len(self.classes) if by_class else 1
        return max(1, _LISTED // max(n_lists * k, self.n_features))


def _as_it_is(lists: NDArray[np.void], axis: Any, keepdims: bool) -> NDArray[np.void]:
    return lists


def _nobody(queries: NDArray[Any]) -> NDArray[np.intp]:
    return np.full(len(queries), -1)


def _count(y: Any) -> tuple[NDArray[Any], NDArray[np.intp], tuple[int, ...]]:
    """Read labels: the classes, how many rows each has, and how many labels each block."""
    from dask.base import compute
    from dask.delayed import delayed

    parts = compute([delayed(_counted)(block) for block in y.to_delayed()])[0]
    filled = [labels for labels, _ in parts if len(labels)] or [parts[0][0]]
    for labels in filled:
        check_same_kind_of_label("A partition of y", labels, filled[0])
    classes = np.unique(np.concatenate(filled))
    counts = np.zeros(len(classes), dtype=np.intp)
    for labels, count in parts:
        if len(labels):
            counts[np.searchsorted(classes, labels)] += count
    return classes, counts, tuple(int(count.sum()) for _, count in parts)


def _counted(y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
    y = plain_labels(np.asarray(y))
    _refuse_missing(y)
    labels, counts = np.unique(y, return_counts=True)
    return labels, counts


def _refuse_missing(y: NDArray[Any]) -> None:
    from pandas import isna  # which knows all ways to miss; half a second, so not above

    if isna(y).any():
        raise ValueError("y has a missing label (NaN or None); remove those rows.")


def _code(y: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.intp]:
    return np.searchsorted(classes, plain_labels(np.asarray(y)))


def _recode(codes: NDArray[np.intp], new_code: NDArray[np.intp]) -> NDArray[np.intp]:
    return new_code[codes]


def _lengths(X: Any) -> tuple[int, ...]:
    """Count the rows of each block, which takes computing them."""
    from dask.base import compute
    from dask.delayed import delayed

    blocks = X.to_delayed().ravel()
    return tuple(compute([delayed(len)(block) for block in blocks])[0])


def _with_lengths(array: Any, lengths: tuple[int, ...]) -> Any:
    """Give an array, whose blocks may be of unknown lengths, those that they have."""
    da = dask_array()
    return da.Array(array.dask, array.name, (lengths, *array.chunks[1:]), meta=array._meta)


def _anew(array: Any, number: int) -> Any:
    """Return an array under other names, so that its blocks are computed once more.

    `dask.graph_manipulation.clone` is meant for it, but (2026.8) it mixes up materialized layers.
    """
    from dask._task_spec import convert_legacy_graph

    def renamed(key: Any) -> Any:
        if isinstance(key, tuple):
            return (renamed(key[0]), *key[1:])
        return f"{key}-{number}" if isinstance(key, str) else key

    graph = convert_legacy_graph(dict(array.__dask_graph__()))
    names = {key: renamed(key) for key in graph}
    tasks = {names[key]: task.substitute(names, key=names[key]) for key, task in graph.items()}
    return dask_array().Array(tasks, renamed(array.name), array.chunks, meta=array._meta)
