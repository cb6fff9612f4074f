"""Inner products of queries with a group of rows, and what they leave in doubt."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ccml.neighbors import _kernels
from ccml.neighbors._slots import CLIP, GROUP, LEAF, Gallery, group_columns

ALL_FEATURES = 2**30  # instead of a number of axes
_NO_SPLITS = np.empty(0, dtype=np.intp)


@dataclass(frozen=True)
class Right:
    """A group of rows as the right side of products."""

    first: int  # slot
    columns: NDArray[np.float32]  # (axes, GROUP * LEAF)
    halves: NDArray[np.float32]  # (GROUP, LEAF): half the squared lengths
    radius: float  # of the rows that exist

    @classmethod
    def of(cls, gallery: Gallery, group: int, n_axes: int) -> "Right":
        """Take a group of a gallery, on some of the axes, or in all features."""
        slots, frame = gallery.slots, gallery.frame
        here = slice(group * GROUP * LEAF, (group + 1) * GROUP * LEAF)
        if n_axes == ALL_FEATURES:
            columns = frame.unrotated(slots.rows[here]).T
        else:
            columns = group_columns(slots, group, n_axes)
        return cls.of_columns(here.start, columns, slots.row[here])

    @classmethod
    def of_columns(cls, first: int, columns: NDArray[np.float32], row: NDArray[np.intp]) -> "Right":
        """Prepare the columns of a group; ``row`` is -1 where there is nothing."""
        halves = np.einsum("ij,ij->j", columns, columns) / 2
        radius = float(np.sqrt(2 * halves[row >= 0].max(initial=0)))
        return cls(first, columns, halves.reshape(GROUP, LEAF), radius)


@dataclass(frozen=True)
class Left:
    """Queries as the left side of products."""

    rows: NDArray[np.float32]  # (n, axes)
    squares: NDArray[np.float64]  # (n,): squared lengths
    buffer: NDArray[np.float32]  # (n, GROUP * LEAF)
    complete: bool  # whether all of a distance is on these axes

    @classmethod
    def of(
        cls,
        gallery: Gallery,
        points: NDArray[np.float64],
        coordinates: NDArray[np.float32],
        n_axes: int,
    ) -> "Left":
        """Take queries on some of the axes, or in all features."""
        frame = gallery.frame
        if n_axes == ALL_FEATURES:
            rows, complete = frame.unrotated(points), True
        else:
            rows = coordinates[:, :n_axes]
            complete = n_axes == frame.n_axes and frame.is_complete
        # What was moved nearer keeps its bounds, but not the order of its neighbours.
        complete = complete and bool(np.abs(rows).max(initial=0) < CLIP)
        return cls.of_rows(rows, complete=complete)

    @classmethod
    def of_rows(cls, rows: NDArray[np.float32], *, complete: bool = True) -> "Left":
        """Prepare the queries' rows."""
        rows = np.ascontiguousarray(rows)
        squares = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
        buffer = np.empty((len(rows), GROUP * LEAF), dtype=np.float32)
        return cls(rows, squares, buffer, complete)

    def times(self, right: Right) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        """Return the products, (n, GROUP, LEAF), and by how much each query's may be off."""
        np.matmul(self.rows, right.columns, out=self.buffer)
        # float32: a product or a square is off by less than this share of the lengths.
        rounding = (self.rows.shape[1] + 8) * 2.0**-24
        slacks = rounding * (np.sqrt(self.squares) + right.radius) ** 2
        return self.buffer.reshape(-1, GROUP, LEAF), slacks


class Runs(NamedTuple):
    """Where the ranges lie among the slots of a group."""

    begin: NDArray[np.intp]
    end: NDArray[np.intp]
    numbers: NDArray[np.intp]

    @classmethod
    def of(cls, numbers: NDArray[np.intp]) -> "Runs":
        """Find them from the range of each slot, -1 for none."""
        begin = np.flatnonzero(np.diff(numbers, prepend=-2))
        end = np.append(begin[1:], len(numbers))
        used = numbers[begin] >= 0
        return cls(begin[used], end[used], numbers[begin[used]])


def sift(
    left: Left,
    right: Right,
    runs: Runs,
    rows: NDArray[Any],
    row: NDArray[np.intp],
    points: NDArray[np.float64],
    own: NDArray[np.intp],
    scale: float,
    distances: NDArray[np.float64],
    indices: NDArray[np.intp],
    splits: NDArray[np.intp] = _NO_SPLITS,
) -> None:
    """Multiply queries with a group of rows and take into account what that doesn't rule out."""
    products, slacks = left.times(right)
    _kernels.sift(
        rows, row, right.first, *runs, splits, left.complete, products, right.halves, own, points,
        scale, left.squares, slacks, distances, indices,
    )  # fmt: skip
