"""Error rates of the two rules, and the quality of retrieval."""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ccml._dask import is_dask
from ccml._validation import check_count
from ccml.evaluation._lazy import LazyProblem
from ccml.evaluation._problem import Problem


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
    problem = _problem(gallery, gallery_labels, queries, query_labels)
    return problem.mean(partial(_outvoted, n_classes=len(problem.index.classes)), n_neighbors)


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
    return _problem(gallery, gallery_labels, queries, query_labels).error(n_neighbors)


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
    k = check_count("evaluation.ndcg", "k", k)
    return _problem(gallery, gallery_labels, queries, query_labels).mean(_gains, k)


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
    k = check_count("evaluation.precision", "k", k)
    return _problem(gallery, gallery_labels, queries, query_labels).mean(_n_found, k) / k


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
    problem = _problem(gallery, gallery_labels, queries, query_labels)
    return problem.mean(_precisions_at_r, max(problem.most_relevant, 1))


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
    problem = _problem(gallery, gallery_labels, queries, query_labels)
    return problem.mean(_average_precisions_at_r, max(problem.most_relevant, 1))


def _problem(
    gallery: Any, gallery_labels: Any, queries: Any, query_labels: Any
) -> Problem | LazyProblem:
    if (queries is None) != (query_labels is None):
        raise ValueError("Give queries and query_labels, or neither for leave-one-out.")
    kind = LazyProblem if any(map(is_dask, (gallery, queries, query_labels))) else Problem
    return kind(gallery, gallery_labels, queries, query_labels)


# A value for each query: from the classes of its nearest rows, (n, k), its own, (n,) or -1 where
# the gallery doesn't have it, and how many rows of that the gallery has, (n,).


def _outvoted(
    codes: NDArray[np.intp],
    truth: NDArray[np.intp],
    n_relevant: NDArray[np.intp],
    *,
    n_classes: int,
) -> NDArray[Any]:
    ballots = codes + n_classes * np.arange(len(codes))[:, None]  # one box a query and class
    votes = np.bincount(ballots.ravel(), minlength=n_classes * len(codes))
    return votes.reshape(-1, n_classes).argmax(axis=1) != truth


def _gains(
    codes: NDArray[np.intp], truth: NDArray[np.intp], n_relevant: NDArray[np.intp]
) -> NDArray[Any]:
    k = codes.shape[1]
    discounts = 1 / np.log2(np.arange(2, k + 2))
    best = np.concatenate([[0.0], np.cumsum(discounts)])[np.minimum(n_relevant, k)]
    return (codes == truth[:, None]) @ discounts / np.where(best > 0, best, 1)


def _n_found(
    codes: NDArray[np.intp], truth: NDArray[np.intp], n_relevant: NDArray[np.intp]
) -> NDArray[Any]:
    return (codes == truth[:, None]).sum(axis=1)


def _precisions_at_r(
    codes: NDArray[np.intp], truth: NDArray[np.intp], n_relevant: NDArray[np.intp]
) -> NDArray[Any]:
    within = (codes == truth[:, None]) & (np.arange(codes.shape[1]) < n_relevant[:, None])
    return within.sum(axis=1) / np.maximum(n_relevant, 1)


def _average_precisions_at_r(
    codes: NDArray[np.intp], truth: NDArray[np.intp], n_relevant: NDArray[np.intp]
) -> NDArray[Any]:
    relevant, ranks = codes == truth[:, None], np.arange(1, codes.shape[1] + 1)
    precisions = np.cumsum(relevant, axis=1) / ranks
    within = relevant & (ranks <= n_relevant[:, None])
    return (precisions * within).sum(axis=1) / np.maximum(n_relevant, 1)
