"""The nearest class mean."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight

from ccml._dask import is_dask
from ccml._validation import check_count, check_same_kind_of_label
from ccml.centroids import class_centroids
from ccml.classifiers._base import IndexClassifier
from ccml.neighbors import ClassIndex


class NearestMeanClassifier(IndexClassifier):
    """Give a query the class whose mean is nearest, or whose centroids are.

    Nearest class mean classification [1]_ keeps one mean per class, or several centroids by
    k-means, and takes p(c | x) ∝ sum over the centroids m of c of exp(-||x - m||^2 / 2), the
    probability that the metric `ccml.learners.NCMC` is trained for.

    Choose it where the gallery should be tiny, or where classes come and go: a new class needs
    only its mean (`partial_fit` with that one row).

    Parameters
    ----------
    n_centroids : int
        Centroids of each class; a class with fewer rows has as many as rows.
    random_state : int, RandomState or None
        For k-means.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    centroids_ : ndarray of shape (n_points, n_features)
    centroid_labels_ : ndarray of shape (n_points,)
        The class of each centroid.
    centroid_weights_ : ndarray of shape (n_points,)
        How many rows, or how much weight, each centroid is the mean of.
    index_ : ClassIndex
        The centroids, searchable.

    References
    ----------
    .. [1] T. Mensink, J. Verbeek, F. Perronnin and G. Csurka, "Distance-based image
       classification: generalizing to new classes at near-zero cost", TPAMI 35(11), 2013.

    Examples
    --------
    >>> from ccml import NearestMeanClassifier
    >>> model = NearestMeanClassifier().fit([[0.0], [1.0], [8.0]], ["low", "low", "high"])
    >>> model.predict([[2.0], [5.0]])
    array(['low', 'high'], dtype='<U4')
    >>> model.partial_fit([[20.0]], ["very high"]).predict([[18.0]])
    array(['very high'], dtype='<U9')
    """

    def __init__(self, n_centroids: int = 1, *, random_state: Any = None) -> None:
        self.n_centroids = n_centroids
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Find the centroids.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), optional
            How much each row counts in its centroid. A row of weight 0 is left out.

        Returns
        -------
        self
        """
        check_count("NearestMeanClassifier", "n_centroids", self.n_centroids)
        X, y, weight = self._check_weighted(X, y, sample_weight, reset=True)
        self._check_two_classes(y)
        self._publish(*self._centroids_of(X, y, weight))
        return self

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Add rows: a known class's nearest centroid moves towards each, a new class gets its own.

        ``classes`` is accepted for scikit-learn's sake and isn't needed: a class is known from
        its first row on.
        """
        check_count("NearestMeanClassifier", "n_centroids", self.n_centroids)
        first = not hasattr(self, "index_")
        X, y, weight = self._check_weighted(X, y, sample_weight, reset=first)
        if first:
            self._publish(*self._centroids_of(X, y, weight))
            return self
        check_same_kind_of_label("NearestMeanClassifier.partial_fit", y, self.classes_)
        points, labels = self.centroids_.copy(), self.centroid_labels_
        weights = self.centroid_weights_.copy()
        is_known = np.isin(y, self.classes_)
        for label in np.unique(y[is_known]):
            mine, rows = np.flatnonzero(labels == label), y == label
            nearest = ClassIndex(points[mine], mine).nearest(X[rows], 1).indices[:, 0]
            joined = mine[nearest]  # the centroid of each row
            np.add.at(weights, joined, weight[rows])
            steps = (weight[rows] / weights[joined])[:, None] * (X[rows] - points[joined])
            np.add.at(points, joined, steps)
        if not is_known.all():
            added = self._centroids_of(X[~is_known], y[~is_known], weight[~is_known])
            kept = (points, labels, weights)
            points, labels, weights = map(np.concatenate, zip(kept, added, strict=True))
        self._publish(points, labels, weights)
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the most probable class of each row of ``X``; of equal ones, the first."""
        if is_dask(X):
            return self._lazily("predict", X)
        X = self._check_queries(X)
        if self.index_.n_rows == len(self.classes_):  # one centroid each
            return self.index_.predict(X, 1)
        return self.classes_[self._scores(X).argmax(axis=1)]

    def _scores(self, X: ArrayLike) -> NDArray[np.float64]:
        X = self._check_queries(X)
        blocks = self.index_.search_blocks(X, int(self.index_.class_counts.max()))
        return np.concatenate([logsumexp(-found.distances / 2, axis=2) for found in blocks])

    def _check_weighted(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None, *, reset: bool
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.float64]]:
        X, y = self._check_rows(X, y, reset=reset)
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        return X[weight > 0], y[weight > 0], weight[weight > 0]

    def _centroids_of(
        self, X: NDArray[Any], y: NDArray[Any], weight: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[Any], NDArray[np.float64]]:
        classes, codes = np.unique(y, return_inverse=True)
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        found = class_centroids(X, codes, self.n_centroids, weight, rng)
        return found.points, classes[found.classes], found.weights

    def _publish(
        self, points: NDArray[np.float64], labels: NDArray[Any], weights: NDArray[np.float64]
    ) -> None:
        self.centroids_, self.centroid_labels_, self.centroid_weights_ = points, labels, weights
        self._keep(ClassIndex(points, labels))
