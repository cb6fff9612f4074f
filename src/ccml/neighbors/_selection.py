"""Of rows of numbers: the k smallest, without sorting, and the mean of those that exist."""

import numpy as np
from numpy.typing import NDArray

_FOLDS = 16


def k_smallest(values: NDArray[np.float64], k: int) -> NDArray[np.intp]:
    """Columns of the ``k`` smallest entries in each row, in no particular order.

    A wide matrix is first folded: the k smallest entries lie in at most k columns of the folded
    matrix of minima, which is several times cheaper to select from than the matrix itself.
    """
    n_rows, n_columns = values.shape
    if n_columns <= k:
        return np.broadcast_to(np.arange(n_columns), values.shape)
    if n_columns < 4 * _FOLDS * k:
        return np.argpartition(values, k - 1, axis=1)[:, :k]
    width = n_columns // _FOLDS
    minima = values[:, : _FOLDS * width].reshape(n_rows, _FOLDS, width).min(axis=1)
    folded = np.argpartition(minima, k - 1, axis=1)[:, None, :k]  # (n_rows, 1, k)
    candidates = np.concatenate(
        [
            (folded + width * np.arange(_FOLDS)[:, None]).reshape(n_rows, _FOLDS * k),
            np.broadcast_to(  # the columns that the folds leave over
                np.arange(_FOLDS * width, n_columns), (n_rows, n_columns - _FOLDS * width)
            ),
        ],
        axis=1,
    )
    chosen = k_smallest(np.take_along_axis(values, candidates, axis=1), k)
    return np.take_along_axis(candidates, chosen, axis=1)


def mean_distances(distances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean over the last axis of those neighbours that exist; ``inf`` where none does."""
    exists = np.isfinite(distances)
    total = np.where(exists, distances, 0).sum(axis=-1)
    count = exists.sum(axis=-1)
    return np.where(count > 0, total / np.maximum(count, 1), np.inf)
