"""What every classifier shares: checks of its rows, and what follows from scores."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from ccml._dask import is_dask, map_rows, refuse_dask
from ccml._validation import plain_labels
from ccml.neighbors import ClassIndex, PartitionedIndex


class IndexClassifier(ClassifierMixin, BaseEstimator, ABC):
    """Decides by distances to the rows of ``index_``."""

    index_: Any  # a ClassIndex; of CCKNNClassifier also a PartitionedIndex
    classes_: NDArray[Any]

    @abstractmethod
    def _scores(self, X: ArrayLike) -> NDArray[np.float64]:
        """Log-probability of every class up to a constant per query, (n_samples, n_classes)."""

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return probabilities of shape (n_samples, n_classes), in the order of ``classes_``."""
        if is_dask(X):
            return self._lazily("predict_proba", X)
        return softmax(self._scores(X), axis=1)

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return log-probabilities up to a constant per row; larger is nearer.

        The shape is (n_samples, n_classes), or (n_samples,) for two classes: then it is the
        second's less the first's.
        """
        if is_dask(X):
            return self._lazily("decision_function", X)
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def _lazily(self, name: str, X: Any) -> Any:
        """Apply a method to a dask collection, when it is computed."""
        return map_rows(self, name, X)

    def _keep(self, index: ClassIndex | PartitionedIndex) -> None:
        self.index_, self.classes_ = index, index.classes

    def _check_rows(
        self, X: ArrayLike, y: ArrayLike, *, reset: bool
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        refuse_dask(type(self).__name__, X)
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32], reset=reset)
        return X, check_labels(y)

    def _check_queries(self, X: ArrayLike) -> NDArray[Any]:
        check_is_fitted(self, "index_")
        refuse_dask(type(self).__name__, X)
        return self._check_columns(X)

    def _check_columns(self, X: ArrayLike) -> NDArray[Any]:
        return validate_data(self, X, dtype=[np.float64, np.float32], reset=False)

    def _check_two_classes(self, y: NDArray[Any]) -> None:
        if len(labels := np.unique(y)) < 2:
            raise ValueError(
                f"{type(self).__name__} needs at least 2 classes; y has 1 class ({labels[0]!r}). "
                "To begin with one and add others later, use partial_fit."
            )


def check_labels(y: NDArray[Any]) -> NDArray[Any]:
    """Give labels their plain type, and refuse what isn't a class."""
    y = plain_labels(y)
    check_classification_targets(y)
    return y
