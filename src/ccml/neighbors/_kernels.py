"""The compiled inner loops of the search. Nothing here knows of labels, threads or arguments.

All distances that leave a kernel are sums of squared differences of the original coordinates in
float64. What skips work are lower bounds in float32 on the principal axes, never too high: `_reach`
widens a distance by what rounding can hide.

Written for LLVM's vectoriser: loops of constant length, and last indices that can't be negative.
Inner functions take whole arrays and indices: a view would cost numba two atomic operations. All
kernels are in this file because numba's cache notices changes of a kernel's own file only.
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ccml.neighbors._slots import AXES, GROUP, LEAF, Slots

# Sums may be reordered and products fused; infinities and NaN keep their meaning.
_FAST = {"reassoc", "contract", "nsz"}
_kernel = njit(nogil=True, cache=True, fastmath=_FAST)
_inline = njit(nogil=True, cache=True, fastmath=_FAST, inline="always")

# A sum of squares over up to 128 axes in float32 is too high by a smaller factor than this.
_ROUNDING = 1 + 2.0**-14

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Integers = NDArray[np.intp]


@_inline
def _reach(distance: float, scale: float, blur: float) -> np.float32:
    """Squared length on the table's scale beyond which a row is farther than ``distance``."""
    length = np.sqrt(distance) * scale + blur
    return np.float32(length * length * _ROUNDING)


@_inline
def _exact(rows: Any, slot: int, points: Doubles, i: int) -> float:
    total = 0.0
    for axis in range(points.shape[1]):
        difference = rows[slot, axis] - points[i, axis]
        total += difference * difference
    return total


@_inline
def _insert(
    distances: Doubles, indices: Integers, i: int, c: int, distance: float, index: int
) -> None:
    """Keep the smallest, ascending; of equal distances the lower index goes first."""
    at = distances.shape[2] - 1
    while at > 0 and (
        distances[i, c, at - 1] > distance
        or (distances[i, c, at - 1] == distance and indices[i, c, at - 1] > index)
    ):
        distances[i, c, at] = distances[i, c, at - 1]
        indices[i, c, at] = indices[i, c, at - 1]
        at -= 1
    distances[i, c, at] = distance
    indices[i, c, at] = index


@_inline
def _outside(low: np.float32, high: np.float32, at: np.float32) -> np.float32:
    """Square of the distance of a number to an interval."""
    beyond = max(max(low - at, at - high), np.float32(0))
    return beyond * beyond


@_kernel
def group_bounds(slots: Slots, queries: Floats, bounds: Floats) -> None:
    """Squared distances of queries to the boxes around groups: (n, groups)."""
    low, high = slots.group_low, slots.group_high
    n_groups = low.shape[1]
    for i in range(len(queries)):
        for group in range(n_groups):
            bounds[i, group] = 0
        for axis in range(AXES):
            at = queries[i, axis]
            for group in range(n_groups):
                bounds[i, group] += _outside(low[axis, group], high[axis, group], at)


@_inline
def _leaf_bounds(
    low: Floats, high: Floats, group: int, queries: Floats, i: int, bounds: Floats
) -> None:
    """Squared distance of query i to the boxes around a group's leaves."""
    for leaf in range(GROUP):
        bounds[leaf] = 0
    for axis in range(AXES):
        at = queries[i, axis]
        for leaf in range(GROUP):
            bounds[leaf] += _outside(low[group, axis, leaf], high[group, axis, leaf], at)


@_inline
def _survives(
    table: Floats,
    leaf: int,
    queries: Floats,
    i: int,
    limit: np.float32,
    partial: Floats,
    work: Integers,
) -> bool:
    """Add up squared differences, AXES at a time, until every row of a leaf is beyond ``limit``.

    ``partial`` gets the sums so far: lower bounds of the rows' squared distances.
    """
    for lane in range(LEAF):
        partial[lane] = 0
    survives = True
    chunk = 0
    while survives and chunk < table.shape[0]:
        a = chunk * AXES
        q0, q1, q2, q3 = queries[i, a], queries[i, a + 1], queries[i, a + 2], queries[i, a + 3]
        q4, q5, q6, q7 = queries[i, a + 4], queries[i, a + 5], queries[i, a + 6], queries[i, a + 7]
        for lane in range(LEAF):
            d0 = table[chunk, leaf, 0, lane] - q0
            d1 = table[chunk, leaf, 1, lane] - q1
            d2 = table[chunk, leaf, 2, lane] - q2
            d3 = table[chunk, leaf, 3, lane] - q3
            d4 = table[chunk, leaf, 4, lane] - q4
            d5 = table[chunk, leaf, 5, lane] - q5
            d6 = table[chunk, leaf, 6, lane] - q6
            d7 = table[chunk, leaf, 7, lane] - q7
            partial[lane] += ((d0 * d0 + d1 * d1) + (d2 * d2 + d3 * d3)) + (
                (d4 * d4 + d5 * d5) + (d6 * d6 + d7 * d7)
            )
        within = np.int32(0)
        for lane in range(LEAF):
            within |= np.int32(partial[lane] <= limit)
        survives = within != 0
        chunk += 1
        work[0] += 1
    return survives


@_inline
def _survives_products(
    products: Floats,
    halves: Floats,
    leaf: int,
    i: int,
    square: np.float32,
    limit: np.float32,
    partial: Floats,
) -> bool:
    """Do what `_survives` does from inner products; ``square`` is less what rounding can hide."""
    within = np.int32(0)
    for lane in range(LEAF):
        partial[lane] = square - 2 * (products[i, leaf, lane] - halves[leaf, lane])
        within |= np.int32(partial[lane] <= limit)
    return within != 0


@_kernel
def _scan(
    rows: Any,
    row: Integers,
    table: Floats,
    low: Floats,
    high: Floats,
    begin: int,
    end: int,
    home: int,
    own: int,
    queries: Floats,
    points: Doubles,
    i: int,
    scale: float,
    blur: float,
    bounds: Floats,
    leaf_bounds: Floats,
    partial: Floats,
    distances: Doubles,
    indices: Integers,
    d: int,
    c: int,
    work: Integers,
) -> None:
    """Find query i's nearest rows between two slots, from the group of slot ``home`` on.

    They go into ``distances[d, c]`` and ``indices[d, c]``.
    """
    last = distances.shape[2] - 1
    first, stop = begin // (LEAF * GROUP), (end - 1) // (LEAF * GROUP) + 1
    home //= LEAF * GROUP
    if home < first or home >= stop:
        home = first
        for group in range(first + 1, stop):
            if bounds[i, group] < bounds[i, home]:
                home = group
    limit = _reach(distances[d, c, last], scale, blur)
    for turn in range(first - 1, stop):
        group = home if turn < first else turn
        if turn == home or bounds[i, group] > limit:
            continue
        _leaf_bounds(low, high, group, queries, i, leaf_bounds)
        left = max(begin // LEAF, group * GROUP)
        right = min((end - 1) // LEAF + 1, group * GROUP + GROUP)
        near = left
        if turn < first:
            for leaf in range(left, right):
                if leaf_bounds[leaf - group * GROUP] < leaf_bounds[near - group * GROUP]:
                    near = leaf
        for step in range(right - left):  # from the nearest leaf on, around
            leaf = near + step if near + step < right else near + step - right + left
            if leaf_bounds[leaf - group * GROUP] > limit or not _survives(
                table, leaf, queries, i, limit, partial, work
            ):
                continue
            for slot in range(max(begin, leaf * LEAF), min(end, leaf * LEAF + LEAF)):
                if partial[slot - leaf * LEAF] > limit or slot == own or row[slot] < 0:
                    continue
                work[1] += 1
                distance = _exact(rows, slot, points, i)
                if distance < distances[d, c, last] or (
                    distance == distances[d, c, last] and row[slot] < indices[d, c, last]
                ):
                    _insert(distances, indices, d, c, distance, row[slot])
                    limit = _reach(distances[d, c, last], scale, blur)


@_kernel
def search(
    slots: Slots,
    begin: Integers,
    end: Integers,
    homes: Integers,
    own: Integers,
    queries: Floats,
    points: Doubles,
    scale: float,
    blurs: Doubles,
    bounds: Floats,
    distances: Doubles,
    indices: Integers,
    work: Integers,
) -> None:
    """Find each query's nearest rows in every range of slots: (n, ranges, k), in and out."""
    rows, row, table, low, high = slots.rows, slots.row, slots.table, slots.low, slots.high
    leaf_bounds = np.empty(GROUP, dtype=np.float32)
    partial = np.empty(LEAF, dtype=np.float32)
    for c in range(len(begin)):  # outside, so that a range stays in the cache
        for i in range(len(queries)):
            _scan(
                rows, row, table, low, high, begin[c], end[c], homes[i], own[i], queries, points,
                i, scale, blurs[i], bounds, leaf_bounds, partial, distances, indices, i, c, work,
            )  # fmt: skip


@_kernel
def _class_mean(
    rows: Any,
    row: Integers,
    table: Floats,
    low: Floats,
    high: Floats,
    begin: int,
    end: int,
    home: int,
    own: int,
    queries: Floats,
    points: Doubles,
    i: int,
    scale: float,
    blur: float,
    bounds: Floats,
    leaf_bounds: Floats,
    partial: Floats,
    distances: Doubles,
    indices: Integers,
    work: Integers,
) -> float:
    """Mean distance of query i to the nearest rows of a class; infinite if it has none."""
    k = distances.shape[2]
    for j in range(k):
        distances[0, 0, j] = np.inf
        indices[0, 0, j] = -1
    _scan(
        rows, row, table, low, high, begin, end, home, own, queries, points, i, scale, blur,
        bounds, leaf_bounds, partial, distances, indices, 0, 0, work,
    )  # fmt: skip
    total, n_found = 0.0, 0
    while n_found < k and indices[0, 0, n_found] >= 0:
        total += distances[0, 0, n_found]
        n_found += 1
    return total / n_found if n_found > 0 else np.inf


@_kernel
def predict(
    slots: Slots,
    k: int,
    groups: Integers,
    products: Floats,
    halves: Floats,
    squares: Floats,
    homes: Integers,
    own: Integers,
    queries: Floats,
    points: Doubles,
    scale: float,
    blurs: Doubles,
    bounds: Floats,
    best: Doubles,
    codes: Integers,
    seen: NDArray[np.bool_],
    means: Doubles,
    work: Integers,
    scan_work: Integers,
) -> None:
    """Find the class whose ``k`` nearest rows are nearest on average; of equal ones the first.

    A class's mean can't be below its nearest row. So a class is looked at only if one of its rows
    is as near as the best mean so far, beginning with the class where a query is at home.

    This looks at some groups, by ``products`` (n, GROUP, LEAF) with a single one or, if there are
    none, by the table. ``best``, ``codes`` and ``seen`` (n, classes) carry what is known from one
    call to the next. ``means`` (n, classes) gets what was looked at, unless it has no columns.
    ``work`` counts what it took to find classes to look at, ``scan_work`` the looking.
    """
    rows, row, code_of, table = slots.rows, slots.row, slots.code, slots.table
    begin, end, low, high = slots.begin, slots.end, slots.low, slots.high
    leaf_bounds = np.empty(GROUP, dtype=np.float32)
    scan_bounds = np.empty(GROUP, dtype=np.float32)
    partial = np.empty(LEAF, dtype=np.float32)
    scan_partial = np.empty(LEAF, dtype=np.float32)
    distances = np.empty((1, 1, k))
    indices = np.empty((1, 1, k), dtype=np.intp)
    for i in range(len(queries)):
        at_home = code_of[homes[i]]
        if at_home >= 0 and not seen[i, at_home]:
            seen[i, at_home] = True
            best[i] = _class_mean(
                rows, row, table, low, high, begin[at_home], end[at_home], homes[i], own[i],
                queries, points, i, scale, blurs[i], bounds, scan_bounds, scan_partial, distances,
                indices, scan_work,
            )  # fmt: skip
            codes[i] = at_home
            if means.shape[1] > 0:
                means[i, at_home] = best[i]
        limit = _reach(best[i], scale, blurs[i])
        for group in groups:
            if bounds[i, group] > limit:
                continue
            _leaf_bounds(low, high, group, queries, i, leaf_bounds)
            for leaf in range(GROUP):
                first = (group * GROUP + leaf) * LEAF
                code = code_of[first]
                if leaf_bounds[leaf] > limit or (
                    code >= 0
                    and seen[i, code]
                    and begin[code] <= first
                    and first + LEAF <= end[code]
                ):
                    continue
                if len(products) > 0:
                    survives = _survives_products(
                        products, halves, leaf, i, squares[i], limit, partial
                    )
                else:
                    survives = _survives(
                        table, group * GROUP + leaf, queries, i, limit, partial, work
                    )
                if not survives:
                    continue
                for slot in range(first, first + LEAF):
                    code = code_of[slot]
                    if (
                        partial[slot - first] > limit
                        or row[slot] < 0
                        or slot == own[i]
                        or seen[i, code]
                    ):
                        continue
                    work[1] += 1
                    # A rounded mean of equal distances can be below each of them.
                    if _exact(rows, slot, points, i) > best[i] * (1 + (k + 2) * 2.0**-52):
                        continue
                    seen[i, code] = True
                    mean = _class_mean(
                        rows, row, table, low, high, begin[code], end[code], homes[i], own[i],
                        queries, points, i, scale, blurs[i], bounds, scan_bounds, scan_partial,
                        distances, indices, scan_work,
                    )  # fmt: skip
                    if means.shape[1] > 0:
                        means[i, code] = mean
                    if mean < best[i] or (mean == best[i] and code < codes[i]):
                        best[i], codes[i] = mean, code
                        limit = _reach(mean, scale, blurs[i])


@_kernel
def sift(
    rows: Any,
    row: Integers,
    first: int,
    begin: Integers,
    end: Integers,
    numbers: Integers,
    splits: Integers,
    complete: bool,
    products: Floats,
    halves: Floats,
    own: Integers,
    points: Doubles,
    scale: float,
    squares: Doubles,
    slacks: Doubles,
    distances: Doubles,
    indices: Integers,
) -> None:
    """Take those rows of a group into account that inner products don't rule out.

    ``products`` (n, GROUP, LEAF) less ``halves``, half the rows' squared lengths, is half the
    query's squared length less half the squared distance, but for ``slacks``. The group's ranges
    go from ``begin`` to ``end`` from slot ``first`` on, and have ``numbers``. With ``splits``, one
    number a query, what counts is whether a range has that number (0) or another one (1). Products
    are ``complete`` if they are over all axes.
    """
    k = distances.shape[2]
    top = np.empty(k, dtype=np.float32)
    for i in range(len(products)):
        for r in range(len(begin)):
            c = numbers[r] if len(splits) == 0 else int(numbers[r] != splits[i])
            limit = distances[i, c, k - 1] * scale * scale * _ROUNDING
            least = np.float32((squares[i] - limit) / 2 - slacks[i])
            for leaf in range(begin[r] // LEAF, (end[r] - 1) // LEAF + 1):
                within = np.int32(0)
                for lane in range(LEAF):
                    within |= np.int32(products[i, leaf, lane] - halves[leaf, lane] >= least)
                if within == 0:
                    continue
                left, right = max(begin[r] - leaf * LEAF, 0), min(end[r] - leaf * LEAF, LEAF)
                if complete and indices[i, c, k - 1] < 0:
                    # Nothing to compare with yet, but only the k best of these can stay.
                    for j in range(k):
                        top[j] = -np.inf
                    for lane in range(left, right):
                        score = products[i, leaf, lane] - halves[leaf, lane]
                        slot = first + leaf * LEAF + lane
                        if score > top[k - 1] and slot != own[i] and row[slot] >= 0:
                            at = k - 1
                            while at > 0 and top[at - 1] < score:
                                top[at] = top[at - 1]
                                at -= 1
                            top[at] = score
                    least = max(least, np.float32(top[k - 1] - 2 * slacks[i]))
                for lane in range(left, right):
                    slot = first + leaf * LEAF + lane
                    if (
                        products[i, leaf, lane] - halves[leaf, lane] < least
                        or slot == own[i]
                        or row[slot] < 0
                    ):
                        continue
                    distance = _exact(rows, slot, points, i)
                    if distance < distances[i, c, k - 1] or (
                        distance == distances[i, c, k - 1] and row[slot] < indices[i, c, k - 1]
                    ):
                        _insert(distances, indices, i, c, distance, row[slot])
                        limit = distances[i, c, k - 1] * scale * scale * _ROUNDING
                        least = max(least, np.float32((squares[i] - limit) / 2 - slacks[i]))
