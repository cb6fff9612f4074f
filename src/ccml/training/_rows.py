"""Rows as the loop takes them."""

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray


class Rows(NamedTuple):
    """Rows with their classes 0 to C - 1, and weights of mean 1 where the user gave some."""

    X: NDArray[np.float32]  # (n, ...)
    y: NDArray[np.intp]
    weight: NDArray[np.float32] | None = None

    def take(self, places: NDArray[np.intp]) -> Self:
        """Return some of them."""
        weight = None if self.weight is None else self.weight[places]
        return type(self)(self.X[places], self.y[places], weight)
