"""Naive-Bayes nearest neighbours: items that are sets of descriptors."""

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp
from sklearn.utils import Tags, check_array, check_consistent_length, column_or_1d
from sklearn.utils.validation import check_is_fitted, validate_data

from ccml._dask import is_dask, refuse_dask
from ccml._validation import check_count, check_number, check_option, check_same_kind_of_label
from ccml.classifiers._base import IndexClassifier, check_labels
from ccml.neighbors import ClassIndex

_VARIANTS = ("full", "local")
_N_POSITIONS = 2  # columns
_SAMPLE = 1000  # descriptors that the bandwidth is found from


class Descriptors(NamedTuple):
    """Descriptors of several items, one under the other."""

    rows: NDArray[Any]  # (n, d)
    items: NDArray[np.intp]  # (n,): whose descriptor it is, ascending
    n_items: int


class NBNNClassifier(IndexClassifier):
    """Classify items that are sets of descriptors by the distances of descriptors to classes.

    Naive-Bayes nearest neighbours [1]_ compares an item with classes, never with items. Each of
    its descriptors d_i is taken as an independent draw, and a class C has the log-likelihood::

        -sum_i ||d_i - NN_C(d_i)||^2 / (2 bandwidth^2)                          k = 1
        sum_i log 1/L_C sum_(j <= k) exp(-||d_i - NN_Cj(d_i)||^2 / (2 bandwidth^2))   k > 1

    where NN_Cj is the jth nearest of the L_C descriptors of all training items of the class. With
    one descriptor per item and k = 1 this is `CCKNNClassifier`.

    Local NBNN [2]_ looks for the k + 1 nearest descriptors of all classes together, once. Each
    class among the first k is credited with how much nearer its nearest one is than the last,
    which stands for the background. It is faster the more classes there are, and mostly better.

    Parameters
    ----------
    n_neighbors : int, optional
        k. By default 1, and 10 for local NBNN.
    variant : {"full", "local"}
    alpha : float, optional
        Weight of positions: the last two columns of a descriptor are where it is in its item, and
        are multiplied by this. By default there are none: all columns are alike.
    bandwidth : float, optional
        Of the Gaussian kernel. By default the root mean squared distance of descriptors to the
        nearest other one of their class.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    index_ : ClassIndex
        The descriptors, searchable.
    bandwidth_ : float

    References
    ----------
    .. [1] O. Boiman, E. Shechtman and M. Irani, "In defense of nearest-neighbor based image
       classification", CVPR 2008.
    .. [2] S. McCann and D. G. Lowe, "Local naive Bayes nearest neighbor for image
       classification", CVPR 2012.

    Examples
    --------
    Items may have different numbers of descriptors:

    >>> import numpy as np
    >>> from ccml import NBNNClassifier
    >>> X = [np.array([[0.0], [1.0]]), np.array([[1.0], [2.0], [9.0]]), np.array([[7.0], [9.0]])]
    >>> model = NBNNClassifier().fit(X, ["low", "low", "high"])
    >>> model.predict([np.array([[1.5], [2.5], [8.0]]), np.array([[6.0]])])
    array(['low', 'high'], dtype='<U4')
    """

    def __init__(
        self,
        n_neighbors: int | None = None,
        *,
        variant: Literal["full", "local"] = "full",
        alpha: float | None = None,
        bandwidth: float | None = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.variant = variant
        self.alpha = alpha
        self.bandwidth = bandwidth

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Remember the descriptors.

        Parameters
        ----------
        X : list of arrays of shape (n_descriptors, n_features), or array of shape (n_samples, \
n_descriptors, n_features) or, with one descriptor per item, (n_samples, n_features)
        y : array-like of shape (n_samples,)
            The class of each item.

        Returns
        -------
        self
        """
        self._check_parameters()
        descriptors, y = self._check_items(X, y, reset=True)
        self._check_two_classes(y)
        self._begin(X, descriptors, y[descriptors.items])
        return self

    def partial_fit(self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None) -> Self:
        """Add items, of known or new classes, to those that are there.

        ``classes`` is accepted for scikit-learn's sake and isn't needed. The bandwidth stays what
        it was after the first call.
        """
        self._check_parameters()
        first = not hasattr(self, "index_")
        descriptors, y = self._check_items(X, y, reset=first)
        labels = y[descriptors.items]
        if first:
            self._begin(X, descriptors, labels)
        else:
            check_same_kind_of_label("NBNNClassifier.partial_fit", y, self.classes_)
            self.index_.add(descriptors.rows, labels)
            self._keep(self.index_)
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the class of each item of ``X``; of equally near classes, the first."""
        if is_dask(X):
            return self._lazily("predict", X)
        best = self._scores(X).argmax(axis=1)
        return self.classes_[best]

    def _scores(self, X: ArrayLike) -> NDArray[np.float64]:
        check_is_fitted(self, "index_")
        self._check_parameters()
        descriptors = self._check_descriptors(X, reset=False)
        totals = np.zeros((descriptors.n_items, len(self.classes_)))
        blocks = self._local_blocks if self.variant == "local" else self._full_blocks
        done = 0
        for scores in blocks(descriptors.rows):  # (b, C), of descriptors
            np.add.at(totals, descriptors.items[done : done + len(scores)], scores)
            done += len(scores)
        return totals

    def _full_blocks(self, rows: NDArray[Any]) -> Iterator[NDArray[np.float64]]:
        """Yield the log-likelihood of every class, for each descriptor."""
        k = 1 if self.n_neighbors is None else self.n_neighbors
        found = min(k, int(self.index_.class_counts.max()))
        for distances, _ in self.index_.search_blocks(rows, found):
            exponents = -distances / (2 * self.bandwidth_**2)
            if k == 1:
                yield exponents[:, :, 0]
            else:
                yield logsumexp(exponents, axis=2) - np.log(self.index_.class_counts)

    def _local_blocks(self, rows: NDArray[Any]) -> Iterator[NDArray[np.float64]]:
        """Yield how much nearer each class is than the background, for each descriptor."""
        k = 10 if self.n_neighbors is None else self.n_neighbors
        k = min(k, self.index_.n_rows - 1)
        codes = np.searchsorted(self.classes_, self.index_.labels)
        for distances, nearest in self.index_.nearest_blocks(rows, k + 1):
            background = distances[:, k]
            scores = np.zeros((len(nearest), len(self.classes_)))
            for j in reversed(range(k)):  # so that the nearest of a class is written last
                credit = (background - distances[:, j]) / (2 * self.bandwidth_**2)
                scores[np.arange(len(nearest)), codes[nearest[:, j]]] = credit
            yield scores

    def _begin(self, X: ArrayLike, descriptors: Descriptors, labels: NDArray[Any]) -> None:
        self._keep(ClassIndex(descriptors.rows, labels))
        self.bandwidth_ = self._find_bandwidth(descriptors.rows)
        self._has_sets = _is_set_of_sets(X)

    def _find_bandwidth(self, rows: NDArray[Any]) -> float:
        if self.bandwidth is not None:
            return float(self.bandwidth)
        sample = np.linspace(0, len(rows) - 1, min(_SAMPLE, len(rows))).astype(np.intp)
        distances = self.index_.search(rows[sample], 2).distances[:, :, 1]  # 0 is itself
        codes = np.searchsorted(self.classes_, self.index_.labels[sample])
        own = distances[np.arange(len(sample)), codes]
        own = own[np.isfinite(own)]
        return float(np.sqrt(own.mean())) if own.any() else 1.0

    def _check_items(
        self, X: ArrayLike, y: ArrayLike, *, reset: bool
    ) -> tuple[Descriptors, NDArray[Any]]:
        refuse_dask("NBNNClassifier", X)
        if not _is_set_of_sets(X):
            X, y = self._check_rows(X, y, reset=reset)
            return self._weigh(Descriptors(X, np.arange(len(X)), len(X))), y
        y = column_or_1d(check_array(y, ensure_2d=False, dtype=None, input_name="y"), warn=True)
        check_consistent_length(X, y)
        return self._check_descriptors(X, reset=reset), check_labels(y)

    def _check_descriptors(self, X: ArrayLike, *, reset: bool) -> Descriptors:
        """Put all descriptors under each other, whichever way they come."""
        counts: NDArray[np.intp] | None = None
        if _is_set_of_sets(X):
            sets = [np.asarray(item) for item in X]  # type: ignore[union-attr]
            width = sets[0].shape[1:]
            for i, item in enumerate(sets):
                if item.ndim != 2 or len(item) == 0 or item.shape[1:] != width:
                    raise ValueError(
                        "NBNNClassifier needs for each item an array of shape (n_descriptors, "
                        "n_features) with at least one descriptor, and as many features in all; "
                        f"item {i} is of shape {item.shape}, item 0 of shape {sets[0].shape}."
                    )
            counts = np.array([len(item) for item in sets])
            X = np.concatenate(sets)
        elif not reset and self._has_sets:
            raise ValueError(
                "NBNNClassifier was fitted on items that are sets of descriptors; got a table of "
                f"shape {np.shape(X)}. Wrap a single item in a list."
            )
        rows = validate_data(self, X, dtype=[np.float64, np.float32], reset=reset)
        if counts is None:
            counts = np.ones(len(rows), dtype=np.intp)
        items = np.repeat(np.arange(len(counts)), counts)
        return self._weigh(Descriptors(rows, items, len(counts)))

    def _weigh(self, descriptors: Descriptors) -> Descriptors:
        """Multiply the columns of the position by their weight."""
        if self.alpha is None:
            return descriptors
        if descriptors.rows.shape[1] <= _N_POSITIONS:
            raise ValueError(
                f"NBNNClassifier(alpha={self.alpha}) takes the last {_N_POSITIONS} columns of a "
                f"descriptor for its position; there are only {descriptors.rows.shape[1]} columns."
            )
        rows = descriptors.rows.copy()
        rows[:, -_N_POSITIONS:] *= self.alpha
        return descriptors._replace(rows=rows)

    def _check_parameters(self) -> None:
        check_option("NBNNClassifier", "variant", self.variant, _VARIANTS)
        if self.n_neighbors is not None:
            check_count("NBNNClassifier", "n_neighbors", self.n_neighbors)
        if self.alpha is not None:
            check_number("NBNNClassifier", "alpha", self.alpha, minimum=0)
        if self.bandwidth is not None:
            check_number("NBNNClassifier", "bandwidth", self.bandwidth, above=0)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags


def _is_set_of_sets(X: Any) -> bool:
    """Tell items with descriptors from plain rows."""
    if isinstance(X, np.ndarray) and X.dtype != object:
        return X.ndim == 3 and len(X) > 0
    if isinstance(X, list | tuple) or (isinstance(X, np.ndarray) and X.ndim == 1):
        return len(X) > 0 and np.ndim(X[0]) == 2
    return False
