"""Rows as the loop takes them."""

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ccml.training._ranks import Ranks, Share


class Rows(NamedTuple):
    """Rows with their classes 0 to C - 1, and weights of mean 1 where the user gave some.

    Where several processes train together, ``X`` has this one's share of the rows; ``y`` and
    ``weight`` are of all.
    """

    X: NDArray[Any]  # (n, ...); float32 for the loop
    y: NDArray[np.intp]
    weight: NDArray[np.float32] | None = None
    share: Share | None = None

    def take(self, places: NDArray[np.intp] | slice) -> Self:
        """Return some of them."""
        held, share = (places, None) if self.share is None else self.share.take(places)
        weight = None if self.weight is None else self.weight[places]
        return type(self)(self.X[held], self.y[places], weight, share)

    @property
    def ranks(self) -> Ranks:
        """The processes that have them."""
        return Ranks() if self.share is None else self.share.ranks

    @property
    def own_y(self) -> NDArray[np.intp]:
        """Classes of the rows in ``X``."""
        return self.y if self.share is None else self.y[self.share.own]

    def total(self, array: NDArray[Any]) -> NDArray[Any]:
        """Add what every process has found in its ``X``."""
        return self.ranks.total(array)

    def whole(self, values: NDArray[Any]) -> NDArray[Any]:
        """From values of the rows in ``X``, give those of all rows."""
        return values if self.share is None else self.share.whole(values)
