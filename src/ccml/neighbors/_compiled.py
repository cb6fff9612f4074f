"""Search with the compiled kernels: by which of two ways, and on which threads.

*Bounds* look at one query at a time and skip boxes, leaves and rows; their cost grows slower than
the gallery. *Products* multiply many queries with a group of rows on some leading axes and look
only at what that doesn't rule out; they are faster where little can be skipped, as when the
nearest rows of every class are wanted. Both are exact. A few queries tell which is cheaper.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccml.neighbors import _kernels
from ccml.neighbors._products import ALL_FEATURES, Left, Right, Runs, sift
from ccml.neighbors._selection import mean_distances
from ccml.neighbors._slots import AXES, GROUP, LEAF, Gallery
from ccml.neighbors._threads import ALONE, Threads

_TASK = 256  # queries a thread takes at a time
PRODUCT_QUERIES = 512  # that a thread multiplies at a time
_SEEN = 2**24  # classes x queries that a thread takes at a time
_LISTED = 2**22  # distances kept at a time where classes are chosen by their lists
_PROBES = 512  # slots on which a plan counts what a product would leave

# Nanoseconds on one core, measured with AVX-512 at 3 GHz; only their ratios matter.
_STEP = 55.0  # 64 rows x 8 axes of the table
_SIFTED = 0.35  # a pair whose product is only compared


def _exact_cost(n_features: int) -> float:
    return 15 + 0.35 * n_features


def _product_cost(n_axes: int) -> float:
    return 0.25 + 0.018 * n_axes + _SIFTED


@dataclass(frozen=True)
class Queries:
    """Queries in the order in which they are searched: those of one neighbourhood together."""

    order: NDArray[np.intp]  # place here -> the caller's place
    points: NDArray[np.float64]  # (n, features)
    coordinates: NDArray[np.float32]  # (n, axes)
    blurs: NDArray[np.float64]  # (n,): what rounding can hide of a length
    homes: NDArray[np.intp]  # (n,): a slot near which, and of whose class, there is much
    own: NDArray[np.intp]  # (n,): the slot that is the query itself, or -1

    @classmethod
    def of(
        cls, threads: Threads, gallery: Gallery, Q: NDArray[Any], own: NDArray[np.intp]
    ) -> "Queries":
        """Rotate and sort queries for a gallery."""
        frame, anchors = gallery.frame, gallery.slots.anchors
        offsets = np.einsum("ij,ij->i", anchors, anchors) / 2
        coordinates = np.empty((len(Q), frame.n_axes), dtype=np.float32)
        blurs, homes = np.empty(len(Q)), np.empty(len(Q), dtype=np.intp)

        def task(part: slice) -> None:
            coordinates[part] = frame.coordinates(Q[part])
            blurs[part] = 2.0**-23 * (frame.lengths(Q[part]) + gallery.radius)
            nearness = coordinates[part] @ anchors.T
            nearness -= offsets
            homes[part] = gallery.slots.anchor_slot[nearness.argmax(axis=1)]

        threads.run(task, len(Q), _TASK)
        order = np.argsort(homes, kind="stable")
        points = np.ascontiguousarray(Q[order], dtype=np.float64)
        return cls(order, points, coordinates[order], blurs[order], homes[order], own[order])

    def __len__(self) -> int:
        return len(self.order)

    def __getitem__(self, part: Any) -> "Queries":
        fields = (self.order, self.points, self.coordinates, self.blurs, self.homes, self.own)
        return Queries(*(field[part] for field in fields))

    def group_bounds(self, gallery: Gallery) -> NDArray[np.float32]:
        """Squared distances to the boxes around the groups, (n, groups)."""
        bounds = np.empty((len(self), len(gallery.slots.low)), dtype=np.float32)
        _kernels.group_bounds(gallery.slots, self.coordinates, bounds)
        return bounds

    def near_first(self, gallery: Gallery) -> NDArray[np.intp]:
        """Order the groups, so that early distances rule out most of the rest."""
        slots = gallery.slots
        distances = np.full(len(slots.low), np.inf)
        to_anchors = np.square(slots.anchors - self.coordinates.mean(axis=0)).sum(axis=1)
        np.minimum.at(distances, slots.anchor_slot // (GROUP * LEAF), to_anchors)
        return distances.argsort()

    def as_given(self, values: NDArray[Any]) -> NDArray[Any]:
        """Put one value a query back into the caller's order."""
        back = np.empty_like(values)
        back[self.order] = values
        return back


@dataclass(frozen=True)
class Ranges:
    """Stretches of slots that are searched each by itself."""

    begin: NDArray[np.intp]
    end: NDArray[np.intp]
    by_class: bool

    @classmethod
    def of(cls, gallery: Gallery, *, by_class: bool) -> "Ranges":
        """One range per class, or a single one with everything."""
        if by_class:
            return cls(gallery.slots.begin, gallery.slots.end, True)
        return cls(np.array([0]), np.array([len(gallery.slots.row)]), False)

    def __len__(self) -> int:
        return len(self.begin)

    def of_slots(self, gallery: Gallery, slots: Any) -> NDArray[np.intp]:
        """Return the number of the range that each slot lies in; -1 for none."""
        codes = gallery.slots.code[slots]
        return codes if self.by_class else np.zeros_like(codes)


def search(
    gallery: Gallery, Q: NDArray[Any], own: NDArray[np.intp], k: int, *, by_class: bool
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Find the ``k`` nearest rows of every class, or of all: (n, classes or 1, k)."""
    ranges = Ranges.of(gallery, by_class=by_class)
    with Threads() as threads:
        queries = Queries.of(threads, gallery, Q, own)
        if len(queries) < ALONE:
            n_axes = 0
        elif len(gallery.slots.row) < len(ranges) * LEAF:
            n_axes = ALL_FEATURES  # of classes this small nothing can be skipped
        else:
            sample = _sample(queries)
            distances, _, work = _search_by_bounds(threads, gallery, sample, ranges, k)
            n_axes = _plan(gallery, sample, ranges, distances[:, :, -1], _cost(gallery, work))
        if n_axes == 0:
            distances, indices, _ = _search_by_bounds(threads, gallery, queries, ranges, k)
        else:
            distances, indices = _search_by_products(threads, gallery, queries, ranges, k, n_axes)
    return queries.as_given(distances), queries.as_given(indices)


def predict(
    gallery: Gallery, Q: NDArray[Any], own: NDArray[np.intp], k: int, *, with_means: bool
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Find each query's class by the sum rule: codes, and the means that it took to decide.

    The means are (n, classes), ``inf`` where a class was ruled out, or (n, 0) if unwanted.
    """
    with Threads() as threads:
        queries = Queries.of(threads, gallery, Q, own)
        n_axes = n_list_axes = 0
        if len(queries) >= ALONE:
            sample = _sample(queries)
            _, best, _, work = _predict(threads, gallery, sample, k, 0, with_means=False)
            finding, looking = _cost(gallery, work[:2]), _cost(gallery, work[2:])
            everything = Ranges.of(gallery, by_class=False)
            n_axes = _plan(gallery, sample, everything, best[:, None], finding)
            # Where hardly a class can be ruled out, all of their lists come cheaper.
            if looking > len(sample) * len(gallery.slots.row) * _product_cost(AXES):
                classes = Ranges.of(gallery, by_class=True)
                distances, _, _ = _search_by_bounds(threads, gallery, sample, classes, k)
                farthest = distances[:, :, -1]
                n_list_axes = _plan(gallery, sample, classes, farthest, finding + looking)
        if n_list_axes > 0:
            codes, means = _predict_by_lists(
                threads, gallery, queries, k, n_list_axes, with_means=with_means
            )
        else:
            codes, _, means, _ = _predict(
                threads, gallery, queries, k, n_axes, with_means=with_means
            )
    return queries.as_given(codes), queries.as_given(means)


def _search_by_bounds(
    threads: Threads, gallery: Gallery, queries: Queries, ranges: Ranges, k: int
) -> tuple[NDArray[np.float64], NDArray[np.intp], NDArray[np.intp]]:
    distances = np.full((len(queries), len(ranges), k), np.inf)
    indices = np.full(distances.shape, -1, dtype=np.intp)

    def task(part: slice) -> NDArray[np.intp]:
        mine, work = queries[part], np.zeros(2, dtype=np.intp)
        _kernels.search(
            gallery.slots, ranges.begin, ranges.end, mine.homes, mine.own, mine.coordinates,
            mine.points, gallery.frame.scale, mine.blurs, mine.group_bounds(gallery),
            distances[part], indices[part], work,
        )  # fmt: skip
        return work

    works = threads.run(task, len(queries), _TASK)
    return distances, indices, np.sum(works, axis=0, initial=0)


def _predict(
    threads: Threads, gallery: Gallery, queries: Queries, k: int, n_axes: int, *, with_means: bool
) -> tuple[NDArray[np.intp], NDArray[np.float64], NDArray[np.float64], NDArray[np.intp]]:
    """Predict by products on some axes, or by bounds with 0.

    Returns codes, their means, all means, and the work: of finding classes, and looking at them.
    """
    slots, scale = gallery.slots, gallery.frame.scale
    n_groups, n_classes = len(slots.low), len(slots.begin)
    codes, best = np.zeros(len(queries), dtype=np.intp), np.full(len(queries), np.inf)
    means = np.full((len(queries), n_classes if with_means else 0), np.inf)

    def task(part: slice) -> NDArray[np.intp]:
        mine, work = queries[part], np.zeros(4, dtype=np.intp)
        bounds = mine.group_bounds(gallery)
        seen = np.zeros((len(mine), n_classes), dtype=np.bool_)

        def look(
            groups: NDArray[np.intp],
            products: NDArray[np.float32],
            halves: NDArray[np.float32],
            squares: NDArray[np.float32],
        ) -> None:
            _kernels.predict(
                slots, k, groups, products, halves, squares, mine.homes, mine.own,
                mine.coordinates, mine.points, scale, mine.blurs, bounds, best[part], codes[part],
                seen, means[part], work[:2], work[2:],
            )  # fmt: skip

        if n_axes == 0:
            nothing = np.empty((0, GROUP, LEAF), dtype=np.float32)
            look(np.arange(n_groups), nothing, nothing[:, 0], nothing[:, 0, 0])
            return work
        left = Left.of(gallery, mine.points, mine.coordinates, n_axes)
        for group in mine.near_first(gallery):
            right = Right.of(gallery, group, n_axes)
            products, slacks = left.times(right)
            # Rounded down, as a lower bound has to be.
            squares = left.squares - 4 * slacks
            look(np.array([group]), products, right.halves, squares.astype(np.float32))
        return work

    most = min(PRODUCT_QUERIES if n_axes else _TASK, max(1, _SEEN // n_classes))
    works = threads.run(task, len(queries), most)
    return codes, best, means, np.sum(works, axis=0, initial=0)


def _predict_by_lists(
    threads: Threads, gallery: Gallery, queries: Queries, k: int, n_axes: int, *, with_means: bool
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Predict from the nearest rows of every class: codes, and all means or (n, 0)."""
    ranges = Ranges.of(gallery, by_class=True)
    size = max(1, _LISTED // (len(ranges) * k))
    codes = np.empty(len(queries), dtype=np.intp)
    means = np.empty((len(queries), len(ranges) if with_means else 0))
    for begin in range(0, len(queries), size):
        part = slice(begin, begin + size)
        lists, _ = _search_by_products(threads, gallery, queries[part], ranges, k, n_axes)
        found = mean_distances(lists)
        codes[part] = found.argmin(axis=1)
        means[part] = found[:, : means.shape[1]]
    return codes, means


def _search_by_products(
    threads: Threads, gallery: Gallery, queries: Queries, ranges: Ranges, k: int, n_axes: int
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    distances = np.full((len(queries), len(ranges), k), np.inf)
    indices = np.full(distances.shape, -1, dtype=np.intp)
    slots = gallery.slots

    def task(part: slice) -> None:
        mine = queries[part]
        left = Left.of(gallery, mine.points, mine.coordinates, n_axes)
        for group in mine.near_first(gallery):
            right = Right.of(gallery, group, n_axes)
            here = slice(right.first, right.first + GROUP * LEAF)
            sift(
                left, right, Runs.of(ranges.of_slots(gallery, here)), slots.rows, slots.row,
                mine.points, mine.own, gallery.frame.scale, distances[part], indices[part],
            )  # fmt: skip

    threads.run(task, len(queries), PRODUCT_QUERIES)
    return distances, indices


def _sample(queries: Queries) -> Queries:
    """Take a few queries, evenly from all neighbourhoods."""
    size = int(np.clip(len(queries) // 256, 4, 32))
    return queries[np.linspace(0, len(queries) - 1, size).astype(np.intp)]


def _cost(gallery: Gallery, work: NDArray[np.intp]) -> float:
    """Nanoseconds that bounds take for what the kernels counted."""
    return float(work[0] * _STEP + work[1] * _exact_cost(gallery.slots.rows.shape[1]))


def _plan(
    gallery: Gallery,
    sample: Queries,
    ranges: Ranges,
    farthest: NDArray[np.float64],
    cost: float,
) -> int:
    """Return the number of axes for products that are cheaper than ``cost``, or 0 for bounds.

    ``farthest`` (sample, ranges) are the distances that a row must undercut in the end.
    """
    slots, frame = gallery.slots, gallery.frame
    live = np.flatnonzero(slots.row >= 0)
    probes = live[np.linspace(0, len(live) - 1, min(_PROBES, len(live))).astype(np.intp)]
    columns = slots.table[:, probes // LEAF, :, probes % LEAF]  # (probes, chunks, AXES)
    limits = farthest[:, ranges.of_slots(gallery, probes)] * frame.scale**2
    partial = np.zeros(limits.shape)
    options, n_features = [], len(frame.centre)
    for chunk in range(len(slots.table)):
        query = sample.coordinates[:, None, chunk * AXES : (chunk + 1) * AXES]
        partial += ((query - columns[None, :, chunk]) ** 2).sum(axis=2)
        n_axes = (chunk + 1) * AXES
        lengths = np.linalg.norm(sample.coordinates[:, :n_axes], axis=1)[:, None] + gallery.radius
        slack = 2 * (n_axes + 8) * 2.0**-24 * lengths**2
        share = float((partial <= limits + slack).mean())
        options.append((_product_cost(n_axes) + share * _exact_cost(n_features), n_axes))
    if not frame.is_complete:
        options.append((_product_cost(n_features), ALL_FEATURES))
    pair_cost, n_axes = min(options)
    return n_axes if pair_cost * len(sample) * len(slots.row) < cost else 0
