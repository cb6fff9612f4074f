"""For each query, the nearest rows of every class."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ccml._validation import check_count, check_same_kind_of_label
from ccml.neighbors._selection import k_smallest

# Working memory: 512 queries meet 8,192 rows at a time, and no temporary is above 32 MB.
_QUERY_BLOCK = 512
_ROW_BLOCK = 8192
_BLOCK_ELEMENTS = _QUERY_BLOCK * _ROW_BLOCK


class Neighbors(NamedTuple):
    """Squared distances, ascending, and the rows they belong to; ``inf`` and -1 where none is."""

    distances: NDArray[np.float64]
    indices: NDArray[np.intp]


class ClassIndex:
    """Rows with labels, ready to give each query's nearest rows class by class.

    Distances are squared Euclidean. The search compares every row, in float64, and its working
    memory doesn't depend on the number of queries or rows. Of rows at the same distance at the
    k-th place, any may be returned.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_features)
        The gallery.
    y : array-like of shape (n_rows,)
        Its labels, of any type that sorts.

    Examples
    --------
    >>> from ccml.neighbors import ClassIndex
    >>> index = ClassIndex([[0.0], [1.0], [5.0], [7.0]], ["a", "a", "b", "b"])
    >>> distances, rows = index.search([[2.0]], k=1)
    >>> rows[0, :, 0]  # the nearest "a" and the nearest "b"
    array([1, 2])
    >>> distances[0, :, 0]
    array([1., 9.])
    """

    def __init__(self, X: ArrayLike, y: ArrayLike) -> None:
        X, y = np.asarray(X, dtype=np.float64), np.asarray(y)
        if X.ndim != 2 or len(X) == 0:
            raise ValueError(f"ClassIndex needs at least one row of features; got shape {X.shape}.")
        # ||q||^2 + ||x||^2 - 2qx cancels for close points far from the origin, so search around 0.
        self._centre = X.mean(axis=0)
        self._group(X - self._centre, y)

    def _group(self, rows: NDArray[np.float64], y: NDArray[Any]) -> None:
        """Group centred rows by class; ``rows`` and ``y`` come in the order they were given."""
        if y.shape != (len(rows),):
            raise ValueError(
                f"{len(rows)} rows need as many labels; got labels of shape {y.shape}."
            )
        norms = np.einsum("ij,ij->i", rows, rows)
        if not np.isfinite(norms).all():
            raise ValueError(
                "ClassIndex got NaN, infinity or a number too large to square in its rows; remove "
                "or impute them."
            )
        self.classes, codes = np.unique(y, return_inverse=True)
        self.class_counts: NDArray[np.intp] = np.bincount(codes)
        self._y = y
        self._order = np.argsort(codes, kind="stable")  # place in the groups -> row
        self._places = np.empty_like(self._order)  # row -> place in the groups
        self._places[self._order] = np.arange(len(rows))
        self._starts = np.concatenate([[0], np.cumsum(self.class_counts)])
        self._rows = rows[self._order]
        self._norms = norms[self._order]

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(self._rows)

    @property
    def n_features(self) -> int:
        """How many columns a row has."""
        return int(self._rows.shape[1])

    @property
    def labels(self) -> NDArray[Any]:
        """The label of each row, in the order in which the rows were given."""
        return self._y

    def add(self, X: ArrayLike, y: ArrayLike) -> None:
        """Append rows, of known or new classes; their indices follow those already there."""
        X, y = np.asarray(X, dtype=np.float64), np.asarray(y)
        self._check_width(X.shape, "add")
        if y.shape != (len(X),):
            raise ValueError(f"{len(X)} rows need as many labels; got labels of shape {y.shape}.")
        if len(X) == 0:
            return
        check_same_kind_of_label("ClassIndex.add", y, self._y)
        rows = np.concatenate([self._rows[self._places], X - self._centre])
        self._group(rows, np.concatenate([self._y, y]))

    def search(self, queries: ArrayLike, k: int, *, exclude_self: bool = False) -> Neighbors:
        """Find the ``k`` nearest rows of every class.

        Parameters
        ----------
        queries : array-like of shape (n_queries, n_features)
        k : int
            Neighbours per class. A class with fewer rows is filled up with ``inf`` and -1.
        exclude_self : bool
            Query i is row i of the gallery, and isn't its own neighbour (leave-one-out).

        Returns
        -------
        distances, indices : arrays of shape (n_queries, n_classes, k)
        """
        return _join(self.search_blocks(queries, k, exclude_self=exclude_self))

    def nearest(self, queries: ArrayLike, k: int, *, exclude_self: bool = False) -> Neighbors:
        """Find the ``k`` nearest rows whatever their class: arrays of shape (n_queries, k)."""
        return _join(self.nearest_blocks(queries, k, exclude_self=exclude_self))

    def class_distances(
        self, queries: ArrayLike, k: int, *, exclude_self: bool = False
    ) -> NDArray[np.float64]:
        """Mean squared distance to the ``k`` nearest of every class: shape (n_queries, n_classes).

        The mean is over as many as the class has, and ``inf`` where it has none.
        """
        blocks = self.class_distance_blocks(queries, k, exclude_self=exclude_self)
        return np.concatenate(list(blocks))

    def class_distance_blocks(
        self, queries: ArrayLike, k: int, *, exclude_self: bool = False
    ) -> Iterator[NDArray[np.float64]]:
        """Yield `class_distances` by blocks of queries."""
        k = min(check_count("ClassIndex", "k", k), int(self.class_counts.max()))
        for distances, _ in self.search_blocks(queries, k, exclude_self=exclude_self):
            yield mean_distances(distances)

    def search_blocks(
        self, queries: ArrayLike, k: int, *, exclude_self: bool = False
    ) -> Iterator[Neighbors]:
        """Yield `search` by blocks of queries, so that any number of them fits into memory."""
        yield from self._blocks(queries, k, self._starts, exclude_self)

    def nearest_blocks(
        self, queries: ArrayLike, k: int, *, exclude_self: bool = False
    ) -> Iterator[Neighbors]:
        """Yield `nearest` by blocks of queries."""
        everything = np.array([0, self.n_rows])
        for distances, indices in self._blocks(queries, k, everything, exclude_self):
            yield Neighbors(distances[:, 0], indices[:, 0])

    def _blocks(
        self, queries: ArrayLike, k: int, starts: NDArray[np.intp], exclude_self: bool
    ) -> Iterator[Neighbors]:
        k = check_count("ClassIndex", "k", k)
        Q = np.asarray(queries)
        self._check_width(Q.shape, "search")
        if exclude_self and len(Q) != self.n_rows:
            raise ValueError(
                f"exclude_self needs the gallery's own {self.n_rows} rows as queries; got {len(Q)}."
            )
        widest = k * max(self.n_features, len(starts) - 1)
        n_block = int(np.clip(_BLOCK_ELEMENTS // widest, 1, _QUERY_BLOCK))
        for begin in range(0, max(len(Q), 1), n_block):  # no queries: one empty block
            block = Q[begin : begin + n_block].astype(np.float64) - self._centre
            if not np.isfinite(np.einsum("ij,ij->i", block, block)).all():
                raise ValueError(
                    "ClassIndex got NaN, infinity or a number too large to square in its queries; "
                    "remove or impute them."
                )
            own = self._places[begin : begin + len(block)] if exclude_self else None
            found = [
                self._nearest_between(block, int(start), int(stop), k, own)
                for start, stop in pairwise(starts)
            ]
            distances, places = (np.stack(part, axis=1) for part in zip(*found, strict=True))
            yield Neighbors(distances, np.where(places < 0, -1, self._order[places]))

    def _nearest_between(
        self,
        block: NDArray[np.float64],
        start: int,
        stop: int,
        k: int,
        own: NDArray[np.intp] | None,
    ) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
        """Nearest of the places ``start`` to ``stop``: distances and places of shape (n, k)."""
        best = np.empty((len(block), 0), dtype=np.intp)
        best_score = np.empty((len(block), 0))
        for first in range(start, stop, _ROW_BLOCK):
            rows = slice(first, min(first + _ROW_BLOCK, stop))
            score = (-2 * block) @ self._rows[rows].T  # squared distance less the query's norm
            score += self._norms[rows]
            if own is not None:
                here = np.flatnonzero((own >= rows.start) & (own < rows.stop))
                score[here, own[here] - rows.start] = np.inf
            chosen = k_smallest(score, k)
            best = np.concatenate([best, chosen + first], axis=1)
            best_score = np.concatenate(
                [best_score, np.take_along_axis(score, chosen, axis=1)], axis=1
            )
            if best.shape[1] > k:
                kept = k_smallest(best_score, k)
                best = np.take_along_axis(best, kept, axis=1)
                best_score = np.take_along_axis(best_score, kept, axis=1)
        return self._ordered(block, best, best_score, k)

    def _ordered(
        self,
        block: NDArray[np.float64],
        places: NDArray[np.intp],
        score: NDArray[np.float64],
        k: int,
    ) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
        """Order the chosen by their exact distances, then by row; fill up to ``k`` columns."""
        missing = np.isinf(score)
        difference = block[:, None, :] - self._rows[places]  # (n, k, n_features)
        distances = np.einsum("ijk,ijk->ij", difference, difference)
        distances[missing] = np.inf
        places = np.where(missing, -1, places)
        order = np.lexsort((self._order[places], distances), axis=1)
        padding = ((0, 0), (0, k - places.shape[1]))
        return (
            np.pad(np.take_along_axis(distances, order, 1), padding, constant_values=np.inf),
            np.pad(np.take_along_axis(places, order, 1), padding, constant_values=-1),
        )

    def _check_width(self, shape: tuple[int, ...], verb: str) -> None:
        if len(shape) != 2 or shape[1] != self.n_features:
            raise ValueError(
                f"ClassIndex.{verb} needs rows of {self.n_features} features, as in its gallery; "
                f"got shape {shape}."
            )


def mean_distances(distances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean over the last axis of those neighbours that exist; ``inf`` where none does."""
    exists = np.isfinite(distances)
    total = np.where(exists, distances, 0).sum(axis=-1)
    count = exists.sum(axis=-1)
    return np.where(count > 0, total / np.maximum(count, 1), np.inf)


def _join(blocks: Iterator[Neighbors]) -> Neighbors:
    distances, indices = zip(*blocks, strict=True)
    return Neighbors(np.concatenate(distances), np.concatenate(indices))
