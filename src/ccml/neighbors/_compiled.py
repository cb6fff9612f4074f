"""Search with the compiled kernels: by which of two ways, and on which threads.

*Bounds* look at one query at a time and skip boxes, leaves and rows; their cost grows slower than
the gallery. *Products* multiply many queries with a group of rows on some leading axes and look
only at what that doesn't rule out; they are faster where little can be skipped, as when the
nearest rows of every class are wanted. Both are exact. A few queries tell which is cheaper.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from threading import Lock
from typing import Any, Self

import numba
import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from ccml.neighbors import _kernels
from ccml.neighbors._selection import mean_distances
from ccml.neighbors._slots import AXES, GROUP, LEAF, Gallery, group_columns

_TASK = 256  # queries a thread takes at a time
_ALONE = 64  # fewer queries than this aren't worth a thread, nor a plan
PRODUCT_QUERIES = 512  # that a thread multiplies at a time
_NO_SPLITS = np.empty(0, dtype=np.intp)
_HEAP_ELEMENTS = 2**22  # distances kept while predicting by products
_PROBES = 512  # slots on which a plan counts what a product would leave

# Nanoseconds on one core, measured with AVX-512 at 3 GHz; only their ratios matter.
_STEP = 55.0  # 64 rows x 8 axes of the table
_SIFTED = 0.35  # a pair whose product is only compared


def _exact_cost(n_features: int) -> float:
    return 15 + 0.35 * n_features


def _product_cost(n_axes: NDArray[np.intp] | int) -> Any:
    return 0.25 + 0.018 * n_axes + _SIFTED


class Threads(ThreadPoolExecutor):
    """Plain threads, made for a call, and the only ones at work during it.

    The kernels let go of the interpreter's lock. BLAS is kept to the thread that calls it: its
    own ones would spin beside ours. Searches in several threads at once and after a fork are fine.
    """

    _lock = Lock()
    _n_open = 0
    _limits: Any = None

    def __enter__(self) -> Self:
        with self._lock:
            if Threads._n_open == 0:
                Threads._limits = _blas().limit(limits=1)
            Threads._n_open += 1
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        with self._lock:
            Threads._n_open -= 1
            if Threads._n_open == 0:
                Threads._limits.restore_original_limits()

    def __init__(self) -> None:
        self.n_threads = int(numba.config.NUMBA_NUM_THREADS)  # type: ignore[attr-defined]
        super().__init__(self.n_threads)

    def run(self, task: Callable[[slice], Any], n_queries: int, most: int = _TASK) -> list[Any]:
        """Run a task on slices of at most ``most`` queries."""
        size = max(1, min(most, -(-n_queries // self.n_threads)))
        parts = [slice(i, i + size) for i in range(0, n_queries, size)]
        if n_queries < _ALONE or self.n_threads < 2:
            return [task(part) for part in parts]
        return list(self.map(task, parts))


@cache
def _blas() -> Any:
    return ThreadpoolController().select(user_api="blas")


@dataclass(frozen=True)
class Queries:
    """Queries in the order in which they are searched: those of one neighbourhood together."""

    order: NDArray[np.intp]  # place here -> the caller's place
    points: NDArray[np.float64]  # (n, features)
    coordinates: NDArray[np.float32]  # (n, axes)
    blurs: NDArray[np.float64]  # (n,): what rounding can hide of a length
    homes: NDArray[np.intp]  # (n,): the group with the nearest centre
    own: NDArray[np.intp]  # (n,): the slot that is the query itself, or -1

    @classmethod
    def of(
        cls, threads: Threads, gallery: Gallery, Q: NDArray[Any], own: NDArray[np.intp]
    ) -> "Queries":
        """Rotate and sort queries for a gallery."""
        frame, centres = gallery.frame, gallery.slots.centres
        offsets = np.einsum("ij,ij->i", centres, centres) / 2
        coordinates = np.empty((len(Q), frame.n_axes), dtype=np.float32)
        blurs, homes = np.empty(len(Q)), np.empty(len(Q), dtype=np.intp)

        def task(part: slice) -> None:
            coordinates[part] = frame.coordinates(Q[part])
            blurs[part] = 2.0**-23 * (frame.lengths(Q[part]) + gallery.radius)
            homes[part] = (coordinates[part] @ centres.T - offsets).argmax(axis=1)

        threads.run(task, len(Q))
        order = np.argsort(homes, kind="stable")
        points = np.ascontiguousarray(Q[order], dtype=np.float64)
        return cls(order, points, coordinates[order], blurs[order], homes[order], own[order])

    def __len__(self) -> int:
        return len(self.order)

    def __getitem__(self, part: Any) -> "Queries":
        fields = (self.order, self.points, self.coordinates, self.blurs, self.homes, self.own)
        return Queries(*(field[part] for field in fields))

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
        n_axes = 0
        if len(queries) >= _ALONE:
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
    ranges = Ranges.of(gallery, by_class=True)
    with Threads() as threads:
        queries = Queries.of(threads, gallery, Q, own)
        n_axes = 0
        if len(queries) >= _ALONE:
            sample = _sample(queries)
            cost = _cost(
                gallery, _predict_by_bounds(threads, gallery, sample, k, with_means=False)[2]
            )
            # A product on the fewest axes is the least that the other way could cost.
            if cost > len(sample) * len(gallery.slots.row) * _product_cost(AXES):
                distances, _, _ = _search_by_bounds(threads, gallery, sample, ranges, k)
                n_axes = _plan(gallery, sample, ranges, distances[:, :, -1], cost)
        if n_axes == 0:
            codes, means, _ = _predict_by_bounds(
                threads, gallery, queries, k, with_means=with_means
            )
        else:
            size = max(1, _HEAP_ELEMENTS // (len(ranges) * k))
            parts = [queries[i : i + size] for i in range(0, len(queries), size)]
            found = [
                mean_distances(_search_by_products(threads, gallery, part, ranges, k, n_axes)[0])
                for part in parts
            ]
            codes = np.concatenate([means.argmin(axis=1) for means in found])
            means = np.concatenate(found) if with_means else np.empty((len(queries), 0))
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
            mine.points, gallery.frame.scale, mine.blurs, distances[part], indices[part], work,
        )  # fmt: skip
        return work

    return distances, indices, sum(threads.run(task, len(queries)), np.zeros(2, dtype=np.intp))


def _predict_by_bounds(
    threads: Threads, gallery: Gallery, queries: Queries, k: int, *, with_means: bool
) -> tuple[NDArray[np.intp], NDArray[np.float64], NDArray[np.intp]]:
    n_classes = len(gallery.slots.begin)
    codes = np.empty(len(queries), dtype=np.intp)
    means = np.full((len(queries), n_classes if with_means else 0), np.inf)

    def task(part: slice) -> NDArray[np.intp]:
        mine, work = queries[part], np.zeros(2, dtype=np.intp)
        _kernels.predict(
            gallery.slots, k, mine.homes, mine.own, mine.coordinates, mine.points,
            gallery.frame.scale, mine.blurs, codes[part], means[part], work,
        )  # fmt: skip
        return work

    work = sum(threads.run(task, len(queries)), np.zeros(2, dtype=np.intp))
    return codes, means, work


def _search_by_products(
    threads: Threads, gallery: Gallery, queries: Queries, ranges: Ranges, k: int, n_axes: int
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    distances = np.full((len(queries), len(ranges), k), np.inf)
    indices = np.full(distances.shape, -1, dtype=np.intp)
    slots, frame = gallery.slots, gallery.frame
    rotated = n_axes <= frame.n_axes

    def right(group: int) -> Right:
        first = group * GROUP * LEAF
        here = slice(first, first + GROUP * LEAF)
        if rotated:
            columns = group_columns(slots, group, n_axes)
        else:
            columns = frame.unrotated(slots.rows[here]).T
        return Right.of(first, columns, slots.row[here], ranges.of_slots(gallery, here))

    def task(part: slice) -> None:
        mine = queries[part]
        left = mine.coordinates[:, :n_axes] if rotated else frame.unrotated(mine.points)
        # From the nearest group on, so that early distances rule out most of the rest.
        middle = mine.coordinates.mean(axis=0)
        near_first = np.square(slots.centres - middle).sum(axis=1).argsort()
        sift_products(
            left,
            (right(group) for group in near_first),
            slots.rows,
            slots.row,
            mine.points,
            mine.own,
            frame.scale,
            distances[part],
            indices[part],
        )

    threads.run(task, len(queries), PRODUCT_QUERIES)
    return distances, indices


@dataclass(frozen=True)
class Right:
    """A group of rows as the right side of products, and the ranges that they are in."""

    first: int  # slot
    columns: NDArray[np.float32]  # (axes, GROUP * LEAF)
    halves: NDArray[np.float32]  # (GROUP, LEAF): half the squared lengths
    radius: float  # of the rows that exist
    begin: NDArray[np.intp]  # of the ranges, from the first slot on
    end: NDArray[np.intp]
    numbers: NDArray[np.intp]  # of the ranges

    @classmethod
    def of(
        cls,
        first: int,
        columns: NDArray[np.float32],
        row: NDArray[np.intp],
        numbers: NDArray[np.intp],
    ) -> "Right":
        """Prepare a group; ``numbers`` (GROUP * LEAF,) are -1 for slots in no range."""
        halves = np.einsum("ij,ij->j", columns, columns) / 2
        radius = float(np.sqrt(2 * halves[row >= 0].max(initial=0)))
        begin = np.flatnonzero(np.diff(numbers, prepend=-2))
        end = np.append(begin[1:], len(numbers))
        used = numbers[begin] >= 0
        return cls(
            first,
            columns,
            halves.reshape(GROUP, LEAF),
            radius,
            begin[used],
            end[used],
            numbers[begin[used]],
        )


def sift_products(
    left: NDArray[np.float32],
    rights: Iterable[Right],
    rows: NDArray[Any],
    row: NDArray[np.intp],
    points: NDArray[np.float64],
    own: NDArray[np.intp],
    scale: float,
    distances: NDArray[np.float64],
    indices: NDArray[np.intp],
    splits: NDArray[np.intp] | None = None,
) -> None:
    """Multiply queries with groups of rows and take into account what that doesn't rule out."""
    left = np.ascontiguousarray(left)
    squares = np.einsum("ij,ij->i", left, left, dtype=np.float64)
    lengths = np.sqrt(squares)
    products = np.empty((len(left), GROUP * LEAF), dtype=np.float32)
    splits = _NO_SPLITS if splits is None else splits
    # float32: a product or a square is off by less than this share of the lengths.
    rounding = (left.shape[1] + 8) * 2.0**-24
    for right in rights:
        if len(right.begin) == 0:
            continue
        np.matmul(left, right.columns, out=products)
        _kernels.sift(
            rows, row, right.first, right.begin, right.end, right.numbers, splits,
            products.reshape(-1, GROUP, LEAF), right.halves, own, points, scale, squares,
            rounding * (lengths + right.radius) ** 2, distances, indices,
        )  # fmt: skip


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
    options, survivors = [], []
    for chunk in range(len(slots.table)):
        query = sample.coordinates[:, None, chunk * AXES : (chunk + 1) * AXES]
        partial += ((query - columns[None, :, chunk]) ** 2).sum(axis=2)
        n_axes = (chunk + 1) * AXES
        lengths = np.linalg.norm(sample.coordinates[:, :n_axes], axis=1)[:, None] + gallery.radius
        slack = 2 * (n_axes + 8) * 2.0**-24 * lengths**2
        options.append(n_axes)
        survivors.append(float((partial <= limits + slack).mean()))
    if frame.axes.shape[1] < slots.rows.shape[1]:
        options.append(slots.rows.shape[1])
        survivors.append(0.0)
    exact = _exact_cost(slots.rows.shape[1])
    costs = np.array(
        [_product_cost(n) + share * exact for n, share in zip(options, survivors, strict=True)]
    ) * (len(sample) * len(slots.row))
    best = int(costs.argmin())
    return options[best] if costs[best] < cost else 0
