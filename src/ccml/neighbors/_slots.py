"""How the rows of a gallery lie in memory: class by class, neighbours together, axes first.

Distances survive a rotation. On the gallery's principal axes the first few coordinates hold most
of a distance, so a sum over them is a lower bound that rules out nearly every row. Rows live in
numbered slots. LEAF slots make a leaf, whose rows are near one another; GROUP leaves make a group.
A box on the first AXES axes surrounds each leaf and each group.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

# numba's cache doesn't notice a change of these: `make clean` after one.
AXES = 8  # per chunk of the table: as many as the box has, and a kernel adds up at a time
LEAF = 64
GROUP = 16
CLIP = 1e9  # radii; coordinates end here, so that their squares don't overflow
_MOST_AXES = 128
# Where an empty slot is, on a scale on which the gallery has radius one.
_NOWHERE = np.float32(1e12)
_FEW = 8  # slots that an anchor stands for, at least
_MOST_ANCHORS = 2**14
_SAMPLE = 4096  # rows that choose the axes; any rotation is right, a good one is fast
_WIDE = 1024  # features; decompositions of larger matrices take too long
_BLOCK = 2**22  # elements of a float64 temporary


class Slots(NamedTuple):
    """The arrays that the kernels read."""

    rows: NDArray[Any]  # (slots, features): the original coordinates
    row: NDArray[np.intp]  # (slots,): index of the row that is there, -1 for none
    code: NDArray[np.intp]  # (slots,): its class
    begin: NDArray[np.intp]  # (classes,): a class has the slots from begin to end
    end: NDArray[np.intp]
    room: NDArray[np.intp]  # (classes,): up to where it may grow
    table: NDArray[np.float32]  # (axes / AXES, leaves, AXES, LEAF): rotated and scaled
    low: NDArray[np.float32]  # (groups, AXES, GROUP): boxes around leaves
    high: NDArray[np.float32]
    group_low: NDArray[np.float32]  # (AXES, groups)
    group_high: NDArray[np.float32]
    # Means of a class's rows in a group: where to look first. They may be out of date.
    anchors: NDArray[np.float32]  # (anchors, axes)
    anchor_slot: NDArray[np.intp]  # (anchors,): the first of the slots it stands for


@dataclass(frozen=True)
class Frame:
    """The rotation onto the principal axes, and the scale on which the rows have radius one."""

    centre: NDArray[np.float64]
    axes: NDArray[np.float64]  # (features, axes)
    scale: float

    @classmethod
    def of(cls, X: NDArray[Any]) -> "Frame":
        """Choose the frame for the rows ``X``."""
        centre = X.mean(axis=0, dtype=np.float64)
        n_features = X.shape[1]
        n_sample = _SAMPLE if n_features <= _WIDE else _WIDE
        sample = X[:: -(-len(X) // n_sample)] - centre
        sample /= np.abs(sample).max() or 1  # so that no product overflows
        # The smaller of the two products; the second gives only the axes that the sample spans.
        if n_features <= len(sample):
            axes = np.linalg.eigh(sample.T @ sample)[1][:, ::-1]
        else:
            leading = np.linalg.eigh(sample @ sample.T)[1][:, ::-1][:, :_MOST_AXES]
            axes = np.linalg.qr(sample.T @ leading)[0]
        radius = max(
            float(np.sqrt(np.einsum("ij,ij->i", block, block).max()))
            for block in (X[rows] - centre for rows in _blocks(len(X), n_features))
        )
        return cls(centre, axes[:, :_MOST_AXES], min(1 / radius, 1e150) if radius > 0 else 1.0)

    @property
    def n_axes(self) -> int:
        """How many axes the table has: a multiple of `AXES`, padded with zeros."""
        return -(-self.axes.shape[1] // AXES) * AXES

    @property
    def is_complete(self) -> bool:
        """Whether the axes span everything, so that they hold all of a distance."""
        return len(self.axes) == self.axes.shape[1]

    def coordinates(self, X: NDArray[Any], n_axes: int | None = None) -> NDArray[np.float32]:
        """Return rows on the first axes; what is far beyond the gallery is moved nearer.

        Moving a query nearer keeps its distances lower bounds, and float32 from overflowing.
        """
        axes = self.axes[:, :n_axes]
        found = np.zeros((len(X), n_axes or self.n_axes), dtype=np.float32)
        for rows in _blocks(len(X), X.shape[1]):
            rotated = (X[rows] - self.centre) @ axes
            found[rows, : axes.shape[1]] = np.clip(rotated * self.scale, -CLIP, CLIP)
        return found

    def unrotated(self, X: NDArray[Any]) -> NDArray[np.float32]:
        """Return all features of rows around the centre, on the table's scale."""
        around = X - self.centre
        around *= self.scale
        return np.clip(around, -CLIP, CLIP, out=around).astype(np.float32)

    def lengths(self, X: NDArray[Any]) -> NDArray[np.float64]:
        """Return the distances of rows from the centre, on the table's scale."""
        found = np.empty(len(X))
        for rows in _blocks(len(X), X.shape[1]):
            found[rows] = np.linalg.norm(X[rows] - self.centre, axis=1)
        return found * self.scale


@dataclass(frozen=True)
class Gallery:
    """Rows in their slots."""

    slots: Slots
    frame: Frame
    radius: float  # of the rows, on the table's scale


def fill(X: NDArray[Any], codes: NDArray[np.intp], frame: Frame, *, spare: float = 0.0) -> Slots:
    """Lay out rows with class codes 0, 1, ...; leave each class ``spare`` of its size free."""
    counts = np.bincount(codes)
    starts = np.cumsum(counts) - counts
    order = np.argsort(codes, kind="stable")  # class by class
    near = frame.coordinates(X, AXES)
    means = np.add.reduceat(near[order], starts, axis=0) / counts[:, None]
    for code in np.flatnonzero(counts > LEAF):
        rows = order[starts[code] : starts[code] + counts[code]]
        rows[:] = rows[neighbours_together(near[rows])]
    # Small classes share leaves, so classes that are near one another lie side by side.
    sequence = neighbours_together(means)
    sizes = counts + np.ceil(spare * counts).astype(np.intp)
    room = np.empty_like(sizes)
    room[sequence] = np.cumsum(sizes[sequence])
    begin = room - sizes
    places = np.empty(len(X), dtype=np.intp)  # row -> slot
    places[order] = np.repeat(begin - starts, counts) + np.arange(len(X))
    n_slots = int(sizes.sum())
    n_groups = -(-math.ceil(n_slots * (1 + spare)) // (GROUP * LEAF))

    order = np.argsort(places)  # slot by slot
    anchor_slot = np.union1d(np.arange(0, n_slots, GROUP * LEAF), begin)
    # Tiny classes share an anchor.
    few = max(_FEW, n_slots // _MOST_ANCHORS)
    anchor_slot = anchor_slot[np.diff(anchor_slot // few, prepend=-1) > 0]
    n_behind = np.diff(np.searchsorted(places[order], [*anchor_slot, n_slots]))
    anchor_slot, n_behind = anchor_slot[n_behind > 0], n_behind[n_behind > 0]
    slots = Slots(
        rows=np.zeros((n_groups * GROUP * LEAF, X.shape[1]), dtype=X.dtype),
        row=np.full(n_groups * GROUP * LEAF, -1, dtype=np.intp),
        code=np.full(n_groups * GROUP * LEAF, -1, dtype=np.intp),
        begin=begin,
        end=begin + counts,
        room=room,
        table=np.full((frame.n_axes // AXES, n_groups * GROUP, AXES, LEAF), _NOWHERE),
        low=np.full((n_groups, AXES, GROUP), _NOWHERE),
        high=np.full((n_groups, AXES, GROUP), -_NOWHERE),
        group_low=np.full((AXES, n_groups), _NOWHERE),
        group_high=np.full((AXES, n_groups), -_NOWHERE),
        anchors=np.zeros((len(anchor_slot), frame.n_axes), dtype=np.float32),
        anchor_slot=anchor_slot,
    )
    for block in _blocks(len(X), X.shape[1]):
        rows = order[block]
        coordinates = put(slots, frame, places[rows], X[rows], rows, codes[rows])
        at = np.searchsorted(anchor_slot, places[rows], side="right") - 1
        first = np.flatnonzero(np.diff(at, prepend=-1))
        slots.anchors[at[first]] += np.add.reduceat(coordinates, first, axis=0)
    slots.anchors[:] /= n_behind[:, None]
    return slots


def put(
    slots: Slots,
    frame: Frame,
    places: NDArray[np.intp],
    X: NDArray[Any],
    rows: NDArray[np.intp],
    codes: NDArray[np.intp],
) -> NDArray[np.float32]:
    """Write rows into free slots; return their coordinates."""
    slots.rows[places] = X
    slots.row[places] = rows
    slots.code[places] = codes
    coordinates = frame.coordinates(X)
    chunks = coordinates.reshape(len(X), -1, AXES)
    for chunk in range(len(slots.table)):
        slots.table[chunk, places // LEAF, :, places % LEAF] = chunks[:, chunk]
    _surround(slots, np.unique(places // LEAF))
    return coordinates


def clear(slots: Slots, places: NDArray[np.intp]) -> None:
    """Empty slots."""
    slots.row[places] = -1
    for chunk in range(len(slots.table)):
        slots.table[chunk, places // LEAF, :, places % LEAF] = _NOWHERE
    _surround(slots, np.unique(places // LEAF))


def _surround(slots: Slots, leaves: NDArray[np.intp]) -> None:
    """Fit the boxes to what these leaves hold now."""
    inside = slots.table[0, leaves]  # (n, AXES, LEAF)
    slots.low[leaves // GROUP, :, leaves % GROUP] = inside.min(axis=2)
    inside[inside == _NOWHERE] = -_NOWHERE
    slots.high[leaves // GROUP, :, leaves % GROUP] = inside.max(axis=2)
    groups = np.unique(leaves // GROUP)
    slots.group_low[:, groups] = slots.low[groups].min(axis=2).T
    slots.group_high[:, groups] = slots.high[groups].max(axis=2).T


def group_columns(slots: Slots, group: int, n_axes: int | None = None) -> NDArray[np.float32]:
    """Return a group's part of the table as a matrix, (axes, GROUP * LEAF)."""
    n_chunks = None if n_axes is None else n_axes // AXES
    part = slots.table[:n_chunks, group * GROUP : (group + 1) * GROUP]
    return part.transpose(0, 2, 1, 3).reshape(-1, GROUP * LEAF)


def neighbours_together(points: NDArray[np.floating[Any]]) -> NDArray[np.intp]:
    """Order points so that runs of `LEAF` are near one another: halve along the widest axis."""
    order, todo = np.arange(len(points)), [(0, len(points))]
    while todo:
        start, stop = todo.pop()
        if stop - start <= LEAF:
            continue
        part = order[start:stop]
        axis = points[part].var(axis=0).argmax()
        half = -(-(stop - start) // (2 * LEAF)) * LEAF
        half = half if half < stop - start else LEAF
        order[start:stop] = part[np.argpartition(points[part, axis], half)]
        todo += [(start, start + half), (start + half, stop)]
    return order


def _blocks(n_rows: int, n_features: int) -> list[slice]:
    size = max(1, _BLOCK // max(1, n_features))
    return [slice(begin, begin + size) for begin in range(0, n_rows, size)]
