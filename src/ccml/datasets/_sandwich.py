"""Layers of points whose nearest neighbours are in other classes."""

from typing import Any

import numpy as np
import numpy.typing as npt

from ccml._validation import check_count, check_number

_LAYER_DISTANCE = 0.7  # less than the 1 between points of a class: Euclidean neighbours mislead


def make_sandwich(
    *, n_classes: int = 6, n_per_class: int = 9, jitter: float = 0.1, random_state: Any = None
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Draw the Sandwich data: each class is a layer, and the layers lie close on each other.

    The points of a class are 1 apart along x, and the layers 0.7 apart along y, so a point's
    nearest neighbour is usually in the next layer. A metric that shrinks x repairs that.

    Parameters
    ----------
    n_classes : int, default=6
        Number of layers.
    n_per_class : int, default=9
        Number of points in a layer.
    jitter : float, default=0.1
        Standard deviation of the normal noise on both coordinates.
    random_state : int, RandomState instance or None, default=None
        Seed of the noise.

    Returns
    -------
    X : ndarray of shape (n_classes * n_per_class, 2)
    y : ndarray of int of shape (n_classes * n_per_class,)

    Examples
    --------
    >>> from ccml.datasets import make_sandwich
    >>> X, y = make_sandwich(n_classes=2, n_per_class=3, jitter=0)
    >>> X.tolist()
    [[0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [0.0, 0.7], [1.0, 0.7], [2.0, 0.7]]
    >>> y.tolist()
    [0, 0, 0, 1, 1, 1]
    """
    from sklearn.utils import check_random_state

    n_classes = check_count("make_sandwich", "n_classes", n_classes)
    n_per_class = check_count("make_sandwich", "n_per_class", n_per_class)
    jitter = check_number("make_sandwich", "jitter", jitter, minimum=0)
    y = np.repeat(np.arange(n_classes, dtype=np.int64), n_per_class)
    place_in_layer = np.tile(np.arange(n_per_class), n_classes)
    grid = np.column_stack([place_in_layer, _LAYER_DISTANCE * y])
    noise: npt.NDArray[np.float64] = check_random_state(random_state).normal(size=grid.shape)
    return grid + jitter * noise, y
