"""The class-conditional nearest-neighbour rule."""

from collections.abc import Iterator
from copy import copy
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted, validate_data

from ccml._dask import dask_array, is_dask, map_rows, sample_row
from ccml._validation import (
    check_count,
    check_number,
    check_option,
    check_same_kind_of_label,
)
from ccml.classifiers._base import IndexClassifier, check_labels
from ccml.classifiers._decision import Decision
from ccml.neighbors import ClassIndex, PartitionedIndex

_RULES = ("sum", "gaussian")


class Explanation(NamedTuple):
    """What decisions rest on; the classes of each query are sorted, the winning one first.

    Attributes
    ----------
    classes : ndarray of shape (n_samples, n_classes)
    scores : ndarray of shape (n_samples, n_classes)
        As of `CCKNNClassifier.decision_function`: log-probabilities up to a constant.
    margins : ndarray of shape (n_samples,)
        By how much the winner's score is above the runner-up's; 0 is a tie.
    distances : ndarray of shape (n_samples, n_classes, k)
        Squared distances to the nearest rows of each class, ascending; ``inf`` where it has fewer.
    rows : ndarray of shape (n_samples, n_classes, k)
        The rows' places in the order they were given to `fit` and `partial_fit`; else -1. Of a
        `ccml.Gallery` the items' ids; else None.
    """

    classes: NDArray[Any]
    scores: NDArray[np.float64]
    margins: NDArray[np.float64]
    distances: NDArray[np.float64]
    rows: NDArray[Any]

    @classmethod
    def ranked(
        cls,
        classes: NDArray[Any],
        scores: NDArray[np.float64],
        distances: NDArray[np.float64],
        rows: NDArray[Any],
    ) -> Self:
        """Sort what is known of each class; of equal scores, the first class is first."""
        order = np.argsort(-scores, axis=1, kind="stable")
        ranked = np.take_along_axis(scores, order, axis=1)
        margins = ranked[:, 0] - ranked[:, 1] if scores.shape[1] > 1 else np.zeros(len(scores))
        return cls(
            classes[order],
            ranked,
            margins,
            np.take_along_axis(distances, order[:, :, None], axis=1),
            np.take_along_axis(rows, order[:, :, None], axis=1),
        )


class CCKNNClassifier(IndexClassifier):
    """Give a query the class whose k nearest members are nearest to it on average.

    Where KNN takes the k nearest rows and lets them vote, CCKNN [1]_ takes the k nearest rows *of
    every class* and compares their distances, so a frequent class has no more votes than a rare
    one. A class with fewer than k rows is judged by those it has.

    Parameters
    ----------
    n_neighbors : int
        Rows per class that count.
    rule : {"sum", "gaussian"}
        "sum" compares the sums of squared distances (Eq. `ccknn`); its probabilities are those of
        Eq. `org_cne`. "gaussian" takes each distance as a draw from a Gaussian whose variance is
        that of all the query's distances, and weighs in the class priors (Algorithm 2).
    priors : None, "uniform" or array of shape (n_classes,)
        Class priors of the Gaussian rule; None means the classes' frequencies. The sum rule has
        none.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    index_ : ClassIndex or PartitionedIndex
        The rows, searchable; the latter if `fit` was given a dask collection.

    References
    ----------
    .. [1] D. J. Im and G. W. Taylor, "Learning a metric for class-conditional KNN",
       arXiv:1607.03050, 2016.

    Examples
    --------
    >>> from ccml import CCKNNClassifier
    >>> X, y = [[0.0], [1.0], [2.0], [9.0]], ["low", "low", "low", "high"]
    >>> model = CCKNNClassifier(n_neighbors=2).fit(X, y)
    >>> model.predict([[3.0], [8.0]])
    array(['low', 'high'], dtype='<U4')

    A decision can be looked at, and new rows and classes come in without retraining:

    >>> distances, rows = model.class_neighbors([[3.0]], 1)
    >>> dict(zip(model.classes_.tolist(), rows[0, :, 0].tolist()))
    {'high': 3, 'low': 2}
    >>> model.partial_fit([[20.0]], ["very high"]).predict([[18.0]])
    array(['very high'], dtype='<U9')
    """

    def __init__(
        self,
        n_neighbors: int = 5,
        *,
        rule: Literal["sum", "gaussian"] = "sum",
        priors: str | ArrayLike | None = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.rule = rule
        self.priors = priors

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Remember the rows, or where they are.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            A dask array or dataframe isn't loaded: it is searched partition by partition.
        y : array-like of shape (n_samples,)

        Returns
        -------
        self
        """
        self._check_parameters()
        index: ClassIndex | PartitionedIndex
        if is_dask(X):
            index = self._partitions(X, y, reset=True)
            self._check_two_classes(index.classes)
        else:
            X, y = self._check_rows(X, y, reset=True)
            self._check_two_classes(y)
            index = ClassIndex(X, y)
        self._check_priors(index.classes)
        self._keep(index)
        return self

    def partial_fit(self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None) -> Self:
        """Add rows, of known or new classes, to those that are there.

        ``classes`` is accepted for scikit-learn's sake and isn't needed: a class is known from
        its first row on.
        """
        self._check_parameters()
        first = not hasattr(self, "index_")
        if is_dask(X) if first else isinstance(self.index_, PartitionedIndex):
            return self._add_partitions(X, y, first=first)
        X, y = self._check_rows(X, y, reset=first)
        if first:
            self._check_priors(np.unique(y))
            self._keep(ClassIndex(X, y))
        else:
            check_same_kind_of_label("CCKNNClassifier.partial_fit", y, self.classes_)
            self._check_priors(np.union1d(self.classes_, y))
            self.index_.add(X, y)
            self._keep(self.index_)
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the class of each row of ``X``; of equally near classes, the first."""
        if is_dask(X):
            return self._lazily("predict", X)
        if self.rule == "sum":
            X = self._check_queries(X)
            self._check_parameters()
            return self.index_.predict(X, self.n_neighbors)
        best = [scores.argmax(axis=1) for scores in self._score_blocks(X)]
        return self.classes_[np.concatenate(best)]

    def class_neighbors(
        self, X: ArrayLike, k: int | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
        """Return what a decision rests on: the nearest rows of every class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        k : int, optional
            Rows per class, by default ``n_neighbors``.

        Returns
        -------
        distances, indices : ndarrays of shape (n_samples, n_classes, k)
            Squared distances, ascending, and the rows' places in the order they were given to
            `fit` and `partial_fit`; ``inf`` and -1 beyond the rows of a class.
        """
        return self.index_.search(self._check_queries(X), self.n_neighbors if k is None else k)

    def explain(self, X: ArrayLike, k: int | None = None) -> Explanation:
        """Return what decisions rest on: every class's score, its nearest rows, and the margin.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        k : int, optional
            Rows to show of each class, by default ``n_neighbors``, which the scores are of.

        Returns
        -------
        Explanation

        Examples
        --------
        >>> from ccml import CCKNNClassifier
        >>> X, y = [[0.0], [1.0], [9.0], [8.0]], ["low", "low", "high", "high"]
        >>> explanation = CCKNNClassifier(n_neighbors=2).fit(X, y).explain([[3.0], [4.6]])
        >>> explanation.classes.tolist()
        [['low', 'high'], ['high', 'low']]
        >>> explanation.rows[0].tolist()  # the two nearest of "low", then of "high"
        [[1, 0], [3, 2]]
        >>> explanation.margins.round(1).tolist()  # the second decision was close
        [24.0, 1.6]
        """
        return Explanation.ranked(self.classes_, self._scores(X), *self.class_neighbors(X, k))

    def is_unknown(self, X: ArrayLike, quantile: float = 0.99) -> NDArray[np.bool_]:
        """Say which rows are farther from every class than rows of the classes are.

        A row's distance is its mean squared distance to the nearest ``n_neighbors`` of the nearest
        class. It is unknown if that is above the ``quantile`` of the same distances of the rows
        that were given to `fit`, each with itself left out.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        quantile : float, default=0.99
            Of rows like those of `fit`, about this fraction is known.

        Returns
        -------
        ndarray of bool of shape (n_samples,)

        Examples
        --------
        >>> from ccml import CCKNNClassifier
        >>> X, y = [[0.0], [1.0], [2.0], [9.0], [8.0]], ["low", "low", "low", "high", "high"]
        >>> CCKNNClassifier(n_neighbors=1).fit(X, y).is_unknown([[1.5], [5.0], [90.0]])
        array([False,  True,  True])
        """
        quantile = check_number("is_unknown", "quantile", quantile, minimum=0, maximum=1)
        X = self._check_queries(X)
        self._check_parameters()
        if isinstance(self.index_, PartitionedIndex):
            raise ValueError(
                "is_unknown compares each row of the gallery with all others; it needs a "
                "CCKNNClassifier fitted on rows in memory, such as a part of them."
            )
        known = self._nearest_class_distances(self.index_.rows, exclude_self=True)
        known = known[np.isfinite(known)]
        if len(known) == 0:
            raise ValueError("is_unknown needs at least two rows to compare with; there is one.")
        return self._nearest_class_distances(X) > np.quantile(known, quantile)

    def _nearest_class_distances(
        self, X: NDArray[Any], *, exclude_self: bool = False
    ) -> NDArray[np.float64]:
        scores = self.index_.predict_scores(X, self.n_neighbors, exclude_self=exclude_self)
        return scores.min(axis=1)

    def _scores(self, X: ArrayLike) -> NDArray[np.float64]:
        return np.concatenate(list(self._score_blocks(X)))

    def _score_blocks(self, X: ArrayLike) -> Iterator[NDArray[np.float64]]:
        X, decision = self._check_queries(X), self._decision()
        for distances, _ in self.index_.search_blocks(X, self._n_listed()):
            yield decision.scores(distances)

    def _lazily(self, name: str, X: Any) -> Any:
        check_is_fitted(self, "index_")
        if not isinstance(self.index_, PartitionedIndex):
            return super()._lazily(name, X)
        decision = self._decision()
        found = self.index_.search(self._lazy_rows(X), self._n_listed())
        return map_rows(decision, name, found.distances)

    def _lazy_rows(self, X: Any) -> Any:
        """Make a dask array of a collection, whose rows are checked when they are computed."""
        model = copy(self)
        model.__dict__.pop("index_", None)  # the gallery's graph has nothing to do with these rows
        return map_rows(model, "_check_columns", X)

    def _partitions(self, X: Any, y: Any, *, reset: bool) -> PartitionedIndex:
        validate_data(self, sample_row(X), dtype=[np.float64, np.float32], reset=reset)
        index = PartitionedIndex(self._lazy_rows(X), y)
        check_labels(index.classes.repeat(3))  # once each, they would look like measurements
        return index

    def _add_partitions(self, X: Any, y: Any, *, first: bool) -> Self:
        if is_dask(X):
            added = self._partitions(X, y, reset=first)
        else:
            X, y = self._check_rows(X, y, reset=False)
            added = PartitionedIndex(dask_array().from_array(X), y)
        if not first:
            check_same_kind_of_label("CCKNNClassifier.partial_fit", added.classes, self.classes_)
            added = self.index_.joined(added)
        self._check_priors(added.classes)
        self._keep(added)
        return self

    def _n_listed(self) -> int:
        return min(self.n_neighbors, int(self.index_.class_counts.max()))

    def _decision(self) -> Decision:
        self._check_parameters()
        self._check_priors(self.classes_)
        return Decision(self.classes_, None if self.rule == "sum" else np.log(self._priors()))

    def _priors(self) -> NDArray[np.float64]:
        if self.priors is None:
            return self.index_.class_counts / self.index_.n_rows
        if isinstance(self.priors, str):
            return np.full(len(self.classes_), 1 / len(self.classes_))
        return np.asarray(self.priors, dtype=np.float64)

    def _check_parameters(self) -> None:
        check_count("CCKNNClassifier", "n_neighbors", self.n_neighbors)
        check_option("CCKNNClassifier", "rule", self.rule, _RULES)
        if self.priors is not None and self.rule == "sum":
            raise ValueError(
                f"CCKNNClassifier(priors={self.priors!r}) needs rule='gaussian': the sum rule has "
                "no priors."
            )
        if isinstance(self.priors, str):
            check_option("CCKNNClassifier", "priors", self.priors, ["uniform"])

    def _check_priors(self, classes: NDArray[Any]) -> None:
        if self.priors is None or isinstance(self.priors, str):
            return
        priors = np.asarray(self.priors)
        if (
            priors.dtype.kind not in "fiu"
            or priors.shape != classes.shape
            or not (priors > 0).all()
            or not np.isclose(priors.sum(), 1)
        ):
            raise ValueError(
                f"CCKNNClassifier(priors={self.priors!r}) must be {len(classes)} positive numbers "
                "that sum to 1, one for each of the classes "
                f"{', '.join(map(repr, classes.tolist()[:10]))}."
            )
