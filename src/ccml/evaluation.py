"""Arrays to numbers: error rates of the two rules, and the quality of retrieval.

Every function takes a gallery with labels and queries with labels, already embedded. Without
queries, each row of the gallery is a query against all the others (leave-one-out). Memory is
bounded: nothing of the size of queries x gallery is ever held.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ccml._validation import check_count, check_same_kind_of_label
from ccml.neighbors import ClassIndex

__all__ = ["ccknn_error", "knn_error", "map_at_r", "ndcg", "precision", "r_precision"]


def knn_error(
    gallery: ArrayLike,
    gallery_labels: ArrayLike,
    queries: ArrayLike | None = None,
    query_labels: ArrayLike | None = None,
    *,
    n_neighbors: int = 5,
) -> float:
    """Fraction of the queries whose ``n_neighbors`` nearest rows vote for another class.

    Of classes with equal votes the first in sorted order wins, as in scikit-learn.

    Examples
    --------
    >>> from ccml.evaluation import knn_error
    >>> knn_error([[0.0], [1.0], [5.0], [6.0]], [0, 0, 1, 1], [[2.0], [4.0]], [0, 0], n_neighbors=1)
    0.5
    """
    problem = _Problem(gallery, gallery_labels, queries, query_labels)
    n_classes = len(problem.index.classes)
    wrong = 0
    for codes, truth in problem.nearest_codes(n_neighbors):
        ballots = codes + n_classes * np.arange(len(codes))[:, None]  # one box a query and class
        votes = np.bincount(ballots.ravel(), minlength=n_classes * len(codes))
        wrong += int((votes.reshape(-1, n_classes).argmax(axis=1) != truth).sum())
    return wrong / problem.n_queries


def ccknn_error(
    gallery: ArrayLike,
    gallery_labels: ArrayLike,
    queries: ArrayLike | None = None,
    query_labels: ArrayLike | None = None,
    *,
    n_neighbors: int = 5,
) -> float:
    """Fraction of the queries for which Eq. `ccknn` chooses another class.

    Examples
    --------
    >>> from ccml.evaluation import ccknn_error
    >>> ccknn_error([[0.0], [1.0], [5.0], [6.0]], [0, 0, 1, 1])
    0.0
    """
    problem = _Problem(gallery, gallery_labels, queries, query_labels)
    chosen = problem.index.predict(problem.queries, n_neighbors, exclude_self=problem.leave_one_out)
    return float(np.mean(np.searchsorted(problem.index.classes, chosen) != problem.truth))


def ndcg(
    gallery: ArrayLike,
    gallery_labels: ArrayLike,
    queries: ArrayLike | None = None,
    query_labels: ArrayLike | None = None,
    *,
    k: int = 10,
) -> float:
    """Mean normalised discounted cumulative gain of the ``k`` nearest rows.

    A row is relevant (1) if it has the query's class, else not (0). DCG sums relevance /
    log2(rank + 1); the ideal has as many relevant rows on top as the gallery holds, at most k. A
    query of whose class the gallery has none scores 0.

    Examples
    --------
    >>> from ccml.evaluation import ndcg
    >>> ndcg([[0.0], [1.0], [2.0]], [1, 0, 1], [[0.2]], [1], k=3)  # 1, 0, 1: 1.5 of 1.63
    0.919...
    """
    problem = _Problem(gallery, gallery_labels, queries, query_labels)
    k = check_count("evaluation.ndcg", "k", k)
    discounts = 1 / np.log2(np.arange(2, k + 2))
    ideal = np.concatenate([[0.0], np.cumsum(discounts)])
    total = 0.0
    for relevant, n_relevant in problem.relevance(k):
        best = ideal[np.minimum(n_relevant, k)]
        total += float((relevant @ discounts / np.where(best > 0, best, 1)).sum())
    return total / problem.n_queries


def precision(
    gallery: ArrayLike,
    gallery_labels: ArrayLike,
    queries: ArrayLike | None = None,
    query_labels: ArrayLike | None = None,
    *,
    k: int = 10,
) -> float:
    """Mean fraction of the ``k`` nearest rows that have the query's class.

    Examples
    --------
    >>> from ccml.evaluation import precision
    >>> precision([[0.0], [1.0], [2.0]], [1, 0, 1], [[0.2]], [1], k=2)
    0.5
    """
    problem = _Problem(gallery, gallery_labels, queries, query_labels)
    k = check_count("evaluation.precision", "k", k)
    found = sum(int(relevant.sum()) for relevant, _ in problem.relevance(k))
    return found / (k * problem.n_queries)


def r_precision(
    gallery: ArrayLike,
    gallery_labels: ArrayLike,
    queries: ArrayLike | None = None,
    query_labels: ArrayLike | None = None,
) -> float:
    """Mean precision at R, where R is the number of rows of the query's class in the gallery.

    A query of whose class the gallery has none scores 0.

    Examples
    --------
    >>> from ccml.evaluation import r_precision
    >>> r_precision([[0.0], [1.0], [2.0]], [1, 0, 1], [[0.2]], [1])
    0.5
    """
    problem = _Problem(gallery, gallery_labels, queries, query_labels)
    total = 0.0
    for relevant, n_relevant in problem.relevance(max(problem.most_relevant, 1)):
        within = relevant & (np.arange(relevant.shape[1]) < n_relevant[:, None])
        total += float((within.sum(axis=1) / np.maximum(n_relevant, 1)).sum())
    return total / problem.n_queries


def map_at_r(
    gallery: ArrayLike,
    gallery_labels: ArrayLike,
    queries: ArrayLike | None = None,
    query_labels: ArrayLike | None = None,
) -> float:
    """Mean average precision at R: precision at each relevant rank up to R, divided by R.

    A query of whose class the gallery has none scores 0.

    Examples
    --------
    >>> from ccml.evaluation import map_at_r
    >>> map_at_r([[0.0], [1.0], [2.0]], [0, 1, 1], [[0.2]], [1])  # 0, 1 within R = 2
    0.25
    """
    problem = _Problem(gallery, gallery_labels, queries, query_labels)
    total = 0.0
    for relevant, n_relevant in problem.relevance(max(problem.most_relevant, 1)):
        ranks = np.arange(1, relevant.shape[1] + 1)
        precisions = np.cumsum(relevant, axis=1) / ranks
        within = relevant & (ranks <= n_relevant[:, None])
        gains = (precisions * within).sum(axis=1)
        total += float((gains / np.maximum(n_relevant, 1)).sum())
    return total / problem.n_queries


class _Problem:
    """A gallery and queries, checked, with labels as codes of the gallery's classes."""

    def __init__(
        self,
        gallery: ArrayLike,
        gallery_labels: ArrayLike,
        queries: ArrayLike | None,
        query_labels: ArrayLike | None,
    ) -> None:
        if (queries is None) != (query_labels is None):
            raise ValueError("Give queries and query_labels, or neither for leave-one-out.")
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
        self.codes = self._code(self.index.labels)
        self.truth = self._code(labels)  # -1: the gallery doesn't have this class
        counts = np.append(self.index.class_counts, 0)[self.truth]
        self.n_relevant = counts - 1 if self.leave_one_out else counts
        self.most_relevant = int(self.n_relevant.max())

    def nearest_codes(self, k: int) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """Yield the classes of the ``k`` nearest rows, (block, k), and the queries' own."""
        check_count("evaluation", "k", k)
        n_others = self.index.n_rows - self.leave_one_out
        if k > n_others:
            raise ValueError(f"k={k} is more than the {n_others} rows there are to find.")
        done = 0
        for _, rows in self.index.nearest_blocks(self.queries, k, exclude_self=self.leave_one_out):
            yield self.codes[rows], self.truth[done : done + len(rows)]
            done += len(rows)

    def relevance(self, k: int) -> Iterator[tuple[NDArray[np.bool_], NDArray[np.intp]]]:
        """Yield which of the ``k`` nearest rows are relevant, and how many the gallery has."""
        done = 0
        for codes, truth in self.nearest_codes(k):
            yield codes == truth[:, None], self.n_relevant[done : done + len(codes)]
            done += len(codes)

    def _code(self, labels: NDArray[np.generic]) -> NDArray[np.intp]:
        classes = self.index.classes
        codes = np.searchsorted(classes, labels).clip(max=len(classes) - 1)
        return np.where(classes[codes] == labels, codes, -1)
