"""From the distances to the nearest rows of every class to a decision."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from ccml.neighbors import mean_distances


@dataclass(frozen=True)
class Decision:
    """What follows from squared distances to the nearest rows of every class, (n, C, k)."""

    classes: NDArray[Any]
    log_priors: NDArray[np.float64] | None  # None for the sum rule

    def scores(self, distances: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.log_priors is None:
            return -mean_distances(distances)
        return _gaussian_log_likelihood(distances) + self.log_priors

    def predict(self, distances: NDArray[np.float64]) -> NDArray[Any]:
        return self.classes[self.scores(distances).argmax(axis=1)]

    def predict_proba(self, distances: NDArray[np.float64]) -> NDArray[np.float64]:
        return softmax(self.scores(distances), axis=1)

    def decision_function(self, distances: NDArray[np.float64]) -> NDArray[np.float64]:
        scores = self.scores(distances)
        return scores[:, 1] - scores[:, 0] if len(self.classes) == 2 else scores


def _gaussian_log_likelihood(distances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log of prod_j N(D_ij | 0, sigma) of Algorithm 2, less what all classes share.

    ``distances`` are squared and (n, C, k); sigma is the variance of a query's C k distances.
    """
    k = distances.shape[2]
    exists = np.isfinite(distances)
    plain = np.sqrt(np.where(exists, distances, 0)).reshape(len(distances), -1)
    variance = np.var(plain, axis=1, where=exists.reshape(len(distances), -1), keepdims=True)
    # All distances equal: every class is as near as the next, so any variance will do.
    variance = np.where(variance > 0, variance, 1)
    return -k * mean_distances(distances) / (2 * variance)
