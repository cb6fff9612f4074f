"""The units in which rows are given to torch."""

from math import prod
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ccml.learners._initialization import SCALE_NEIGHBORS, column_mean, column_scale
from ccml.training import Rows


class Units(NamedTuple):
    """What is done to the columns, in float64, before torch has them in float32."""

    centre: NDArray[np.float64]  # of the shape of an input; 0 and 1 where nothing is done
    scale: NDArray[np.float64]

    @classmethod
    def of(cls, rows: Rows, rng: np.random.Generator) -> Self:
        """Centre the columns and give them one scale or each its own, whichever is better."""
        shape = rows.X.shape[1:]
        rows = rows._replace(X=rows.X.reshape(-1, prod(shape)))
        centre = column_mean(rows)
        scale = column_scale(rows._replace(X=rows.X - centre), SCALE_NEIGHBORS, rng)
        return cls(centre.reshape(shape), scale.reshape(shape))

    def __call__(self, X: NDArray[Any]) -> NDArray[np.float32]:
        """Bring rows into these units."""
        if self.scale.ndim == 0:  # as they are
            return X.astype(np.float32)
        centred = X - self.centre
        centred *= self.scale
        return centred.astype(np.float32)


AS_THEY_ARE = Units(np.array(0.0), np.array(1.0))


def as_floats(X: NDArray[Any]) -> NDArray[Any]:
    """Scale bytes by 1/255; they are bytes of an image."""
    return X * np.float32(1 / 255) if X.dtype == np.uint8 else X
