"""A gallery or queries in dask collections: figures that are computed when they are asked for."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccml._dask import as_array, dask_array, is_dask, map_rows
from ccml._validation import check_count, check_same_kind_of_label
from ccml.evaluation._problem import Values, check_k, codes_of, n_relevant
from ccml.neighbors import ClassIndex, PartitionedIndex, mean_distances


class LazyProblem:
    """As `Problem`; its figures are dask numbers."""

    def __init__(self, gallery: Any, gallery_labels: Any, queries: Any, query_labels: Any) -> None:
        self.index: ClassIndex | PartitionedIndex
        if is_dask(gallery):
            self.index = PartitionedIndex(as_array(gallery), gallery_labels)
        else:
            self.index = ClassIndex(gallery, gallery_labels)
        self.leave_one_out = queries is None
        classes = self.index.classes
        if isinstance(self.index, PartitionedIndex) and self.leave_one_out:
            self.queries, self.truth = self.index.rows, self.index.codes
        else:
            self.queries, labels = _together(queries, query_labels)
            self.truth = labels.map_blocks(_truth, classes, dtype=np.intp)
        self.most_relevant = int(self.index.class_counts.max()) - self.leave_one_out

    def mean(self, values: Values, k: int) -> Any:
        """Average ``values`` of the ``k`` nearest rows' classes over the queries."""
        check_k(k, self.index.n_rows - self.leave_one_out)
        if isinstance(self.index, PartitionedIndex):
            codes = self.index.nearest(self.queries, k, exclude_self=self.leave_one_out)[2]
        else:
            codes = map_rows(_Search(self.index, k), "nearest_codes", self.queries)
        return self._mean(_valued, codes, "qk", values, self.index.class_counts, self.leave_one_out)

    def error(self, k: int) -> Any:
        """Fraction of the queries for which the sum rule chooses another class."""
        if isinstance(self.index, PartitionedIndex):
            k = min(check_count("evaluation", "k", k), int(self.index.class_counts.max()))
            lists: Any = self.index.search(self.queries, k, exclude_self=self.leave_one_out)[0]
            codes = lists.map_blocks(_nearest_class, drop_axis=[1, 2], dtype=np.intp)
        else:
            codes = map_rows(_Search(self.index, k), "chosen_codes", self.queries)
        return self._mean(_differing, codes, "q")

    def _mean(self, function: Any, codes: Any, axes: str, *constants: Any) -> Any:
        more = [part for constant in constants for part in (constant, None)]
        each = dask_array().blockwise(
            function, "q", codes, axes, self.truth, "q", *more,
            concatenate=True, align_arrays=False, dtype=np.float64,
        )  # fmt: skip
        return each.mean()


@dataclass(frozen=True)
class _Search:
    """A gallery in memory, for the blocks of queries."""

    index: ClassIndex
    k: int

    def nearest_codes(self, queries: NDArray[Any]) -> NDArray[np.intp]:
        codes = codes_of(self.index.labels, self.index.classes)
        return codes[self.index.nearest(queries, self.k).indices]

    def chosen_codes(self, queries: NDArray[Any]) -> NDArray[np.intp]:
        return codes_of(self.index.predict(queries, self.k), self.index.classes)


def _together(queries: Any, labels: Any) -> tuple[Any, Any]:
    """Make dask arrays of queries and labels, cut in the same places."""
    da = dask_array()
    Q, y = (
        as_array(side) if is_dask(side) else da.from_array(np.asarray(side), chunks=-1)
        for side in (queries, labels)
    )
    is_known = not np.isnan([*Q.chunks[0], *y.chunks[0]]).any()
    if y.ndim != 1 or (is_known and (len(y) != len(Q) or len(y) == 0)):
        raise ValueError(
            "Each query needs a label, and there has to be one; got queries of shape "
            f"{Q.shape} and labels of shape {y.shape}."
        )
    if is_known:
        return Q, y.rechunk(Q.chunks[:1])
    if Q.numblocks[0] != y.numblocks[0]:
        raise ValueError(
            f"queries come in {Q.numblocks[0]} blocks and query_labels in {y.numblocks[0]}, of "
            "unknown lengths. Take both from one dataframe, or call to_dask_array(lengths=True)."
        )
    return Q, y


def _truth(labels: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.intp]:
    check_same_kind_of_label("evaluation", labels, classes)
    return codes_of(labels, classes)


def _valued(
    codes: NDArray[np.intp],
    truth: NDArray[np.intp],
    values: Values,
    class_counts: NDArray[np.intp],
    leave_one_out: bool,
) -> NDArray[Any]:
    _check_lengths(codes, truth)
    return values(codes, truth, n_relevant(truth, class_counts, leave_one_out))


def _differing(codes: NDArray[np.intp], truth: NDArray[np.intp]) -> NDArray[np.bool_]:
    _check_lengths(codes, truth)
    return codes != truth


def _nearest_class(distances: NDArray[np.float64]) -> NDArray[np.intp]:
    return mean_distances(distances).argmin(axis=1)


def _check_lengths(codes: NDArray[np.intp], truth: NDArray[np.intp]) -> None:
    if len(codes) != len(truth):
        raise ValueError(
            f"A block has {len(codes)} queries and {len(truth)} labels. Cut both in the same "
            "places, or give them chunks of known sizes."
        )
