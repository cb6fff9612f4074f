"""A gallery and queries in memory."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ccml._validation import check_count, check_same_kind_of_label
from ccml.neighbors import ClassIndex

# Of queries: the classes of their nearest rows, their own, and how many rows have that.
Values = Callable[[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]], NDArray[Any]]


class Problem:
    """A gallery and queries, checked, with labels as codes of the gallery's classes."""

    def __init__(
        self,
        gallery: ArrayLike,
        gallery_labels: ArrayLike,
        queries: ArrayLike | None,
        query_labels: ArrayLike | None,
    ) -> None:
        self.index = ClassIndex(gallery, gallery_labels)
        self.leave_one_out = queries is None
        self.queries = np.asarray(gallery if queries is None else queries)
        labels = np.asarray(gallery_labels if query_labels is None else query_labels)
        self.n_queries = len(labels)
        if self.n_queries == 0 or labels.shape != self.queries.shape[:1]:
            raise ValueError(
                "Each query needs a label, and there has to be one; got queries of shape "
                f"{self.queries.shape} and labels of shape {labels.shape}."
            )
        check_same_kind_of_label("evaluation", labels, self.index.labels)
        self.truth = codes_of(labels, self.index.classes)
        self.n_relevant = n_relevant(self.truth, self.index.class_counts, self.leave_one_out)
        self.most_relevant = int(self.n_relevant.max())

    def mean(self, values: Values, k: int) -> float:
        """Average ``values`` of the ``k`` nearest rows' classes over the queries."""
        check_k(k, self.index.n_rows - self.leave_one_out)
        codes = codes_of(self.index.labels, self.index.classes)
        done, total = 0, 0.0
        for _, rows in self.index.nearest_blocks(self.queries, k, exclude_self=self.leave_one_out):
            mine = slice(done, done + len(rows))
            total += float(values(codes[rows], self.truth[mine], self.n_relevant[mine]).sum())
            done += len(rows)
        return total / self.n_queries

    def error(self, k: int) -> float:
        """Fraction of the queries for which the sum rule chooses another class."""
        chosen = self.index.predict(self.queries, k, exclude_self=self.leave_one_out)
        return float(np.mean(codes_of(chosen, self.index.classes) != self.truth))


def check_k(k: int, n_others: int) -> None:
    """Refuse to look for more rows than there are."""
    if check_count("evaluation", "k", k) > n_others:
        raise ValueError(f"k={k} is more than the {n_others} rows there are to find.")


def codes_of(labels: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.intp]:
    """Return the places of labels among the classes; -1: the gallery doesn't have this class."""
    codes = np.searchsorted(classes, labels).clip(max=len(classes) - 1)
    return np.where(classes[codes] == labels, codes, -1)


def n_relevant(
    truth: NDArray[np.intp], class_counts: NDArray[np.intp], leave_one_out: bool
) -> NDArray[np.intp]:
    """Count the other rows of each query's class."""
    return np.append(class_counts, 0)[truth] - int(leave_one_out)
