"""What every linear metric can do once it has its components."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted, validate_data

from ccml._dask import by_blocks
from ccml.learners._checks import check_labelled
from ccml.learners._transformer import SupervisedTransformer


class LinearMetric(SupervisedTransformer):
    """A transformer by ``components_``, (n_components, n_features), learned from labels."""

    @by_blocks
    def transform(self, X: ArrayLike) -> NDArray[np.floating[Any]]:
        """Map rows into the learned space, where Euclidean distance is the learned one.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            Lazy, if ``X`` is a dask array or dataframe.
        """
        check_is_fitted(self, "components_")
        X = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        return X @ self.components_.T

    def get_mahalanobis_matrix(self) -> NDArray[np.floating[Any]]:
        """Return the matrix M of the learned distance (x - x')^T M (x - x')."""
        check_is_fitted(self, "components_")
        return self.components_.T @ self.components_

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def _check_data(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.float32] | None]:
        X, y, weight = check_labelled(self, X, y, sample_weight)
        self._check_width(X)
        return X, y, weight

    def _check_width(self, X: NDArray[Any]) -> None:
        if self.n_components is not None and self.n_components > X.shape[1]:
            raise ValueError(
                f"{type(self).__name__}(n_components={self.n_components}) can't exceed the number "
                f"of features, {X.shape[1]}. Lower it, or leave it at None."
            )
