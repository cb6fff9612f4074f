"""For each query, the nearest rows of every class."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ccml._validation import check_count, check_same_kind_of_label
from ccml.neighbors import _plain
from ccml.neighbors._backend import compiled
from ccml.neighbors._selection import mean_distances
from ccml.neighbors._slots import LEAF, Frame, Gallery, clear, fill, put

_BLOCK_ELEMENTS = 2**22  # of the largest array that a block of queries needs
_BLOCK_QUERIES = 2**14
_MANY = 128  # neighbours; from here on, keeping them sorted costs more than bounds save
_SPARE = 1 / 8  # of a class's size, left free for rows to come once one has come
_FAR = 1e6  # gallery radii; rows added beyond blur the bounds, so they get a frame of their own


class Neighbors(NamedTuple):
    """Squared distances, ascending, and the rows they belong to; ``inf`` and -1 where none is."""

    distances: NDArray[np.float64]
    indices: NDArray[np.intp]


class ClassIndex:
    """Rows with labels, ready to give each query's nearest rows class by class.

    The search is exact: the neighbours are those of a comparison with every row in float64, of
    equally near rows the one with the lower index. It looks at few rows, though: bounds on the
    gallery's principal axes rule out the others. Distances are squared Euclidean, summed from
    differences, so rows far from the origin lose nothing. Working memory doesn't depend on the
    number of queries. Searches may run in several threads at once, but not beside `add` and
    `remove`.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_features)
        The gallery. float32 is kept as it is, all else becomes float64.
    y : array-like of shape (n_rows,)
        Its labels, of any type that sorts.

    Attributes
    ----------
    classes : ndarray of shape (n_classes,)
    class_counts : ndarray of shape (n_classes,)
        Rows of each class.
    labels : ndarray of shape (n_rows,)
        The label of each row.

    Examples
    --------
    >>> from ccml.neighbors import ClassIndex
    >>> index = ClassIndex([[0.0], [1.0], [5.0], [7.0]], ["a", "a", "b", "b"])
    >>> distances, rows = index.search([[2.0]], k=1)
    >>> rows[0, :, 0]  # the nearest "a" and the nearest "b"
    array([1, 2])
    >>> distances[0, :, 0]
    array([1., 9.])
    >>> index.predict([[2.0], [6.0]], k=2)
    array(['a', 'b'], dtype='<U1')
    """

    def __init__(self, X: ArrayLike, y: ArrayLike) -> None:
        X, y = _as_rows(X), np.array(y)
        if X.ndim != 2 or X.size == 0:
            raise ValueError(f"ClassIndex needs at least one row of features; got shape {X.shape}.")
        _check_labels(X, y)
        _check_finite(X, "rows")
        self._build(X, y, spare=0)

    def _build(self, X: NDArray[Any], y: NDArray[Any], *, spare: float) -> None:
        self.labels = y
        self.classes, codes = np.unique(y, return_inverse=True)
        self.class_counts: NDArray[np.intp] = np.bincount(codes)
        frame = Frame.of(X)
        slots = fill(X, codes, frame, spare=spare)
        self._gallery = Gallery(slots, frame, 1.0)  # that is what the frame's scale is for
        self._find_places()

    def _find_places(self) -> None:
        """Note the slot of each row."""
        row = self._gallery.slots.row
        live = np.flatnonzero(row >= 0)
        self._places = np.empty(len(live), dtype=np.intp)
        self._places[row[live]] = live

    def __getstate__(self) -> dict[str, NDArray[Any]]:
        return {"rows": self.rows, "labels": self.labels}  # all else follows from these

    def __setstate__(self, state: dict[str, NDArray[Any]]) -> None:
        ClassIndex.__init__(self, state["rows"], state["labels"])  # checked: they come from a file

    @property
    def rows(self) -> NDArray[Any]:
        """Copy the rows, in the order in which they came."""
        return self._gallery.slots.rows[self._places]

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(self._places)

    @property
    def n_features(self) -> int:
        """How many columns a row has."""
        return int(self._gallery.slots.rows.shape[1])

    def add(self, X: ArrayLike, y: ArrayLike) -> None:
        """Append rows, of known or new classes; their indices follow those already there.

        Most rows find a free place. Everything is laid out anew at the first time, and when a class
        has outgrown its room or a new one finds none, after growing by about an eighth.
        """
        X, y = _as_rows(X), np.asarray(y)
        self._check_width(X.shape, "add")
        _check_labels(X, y)
        if len(X) == 0:
            return
        check_same_kind_of_label("ClassIndex.add", y, self.labels)
        _check_finite(X, "rows")
        labels = np.concatenate([self.labels, y])
        if not self._squeeze_in(X, y):
            self._build(np.concatenate([self.rows, X]), labels, spare=_SPARE)
            return
        self.labels = labels

    def _squeeze_in(self, X: NDArray[Any], y: NDArray[Any]) -> bool:
        """Put rows into free slots, if there are enough of them in the right places."""
        gallery = self._gallery
        slots, lengths = gallery.slots, gallery.frame.lengths(X)
        if np.result_type(X, slots.rows) != slots.rows.dtype or lengths.max() > _FAR:
            return False
        known = self.classes.astype(np.result_type(self.classes, y))
        begin, end, room = (slots.begin, slots.end, slots.room)
        added, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
        free = int(room.max())  # the first slot that no class has
        places = np.empty(len(X), dtype=np.intp)
        for label, count, mine in zip(added, counts, range(len(added)), strict=True):
            code = int(np.searchsorted(known, label))
            if code == len(known) or known[code] != label:
                known = np.insert(known, code, label)
                begin, end = np.insert(begin, code, free), np.insert(end, code, free)
                free = min(free + max(count, LEAF), len(slots.row))
                room = np.insert(room, code, free)
            if end[code] + count > room[code]:
                return False
            places[codes == mine] = np.arange(end[code], end[code] + count)
            end = end.copy()
            end[code] += count
        new_code = np.searchsorted(known, self.classes)
        used = slots.code >= 0
        slots.code[used] = new_code[slots.code[used]]
        slots = slots._replace(begin=begin, end=end, room=room)
        rows = np.arange(self.n_rows, self.n_rows + len(X))
        put(slots, gallery.frame, places, X, rows, np.searchsorted(known, y))
        self.classes, self.class_counts = known, np.bincount(slots.code[slots.row >= 0])
        self._gallery = Gallery(slots, gallery.frame, max(gallery.radius, float(lengths.max())))
        self._places = np.concatenate([self._places, places])
        return True

    def remove(self, rows: ArrayLike) -> None:
        """Take rows out, by their indices; those behind them move up, as with `numpy.delete`.

        A class without rows is no more.

        Examples
        --------
        >>> from ccml.neighbors import ClassIndex
        >>> index = ClassIndex([[0.0], [1.0], [5.0]], ["a", "b", "b"])
        >>> index.remove([0])
        >>> index.classes
        array(['b'], dtype='<U1')
        """
        gone = np.unique(np.asarray(rows, dtype=None if np.size(rows) else np.intp))
        if gone.dtype.kind not in "iu" or (len(gone) and (gone[0] < 0 or gone[-1] >= self.n_rows)):
            raise ValueError(
                f"ClassIndex.remove needs indices of rows, from 0 to {self.n_rows - 1}; got "
                f"{np.asarray(rows)!r}."
            )
        if len(gone) == self.n_rows:
            raise ValueError(
                "ClassIndex.remove can't take the last rows; make a new index instead."
            )
        slots, labels = self._gallery.slots, np.delete(self.labels, gone)
        kept = np.delete(self._places, gone)
        if 2 * len(kept) < int((slots.end - slots.begin).sum()):
            self._build(slots.rows[kept], labels, spare=_SPARE)
            return
        clear(slots, self._places[gone])
        slots.row[kept] = np.arange(len(kept))
        self._places, self.labels = kept, labels
        counts = np.bincount(slots.code[kept], minlength=len(self.classes))
        alive = counts > 0
        slots.code[slots.code >= 0] = (np.cumsum(alive) - 1)[slots.code[slots.code >= 0]]
        slots.code[slots.row < 0] = -1
        slots = slots._replace(
            begin=slots.begin[alive], end=slots.end[alive], room=slots.room[alive]
        )
        self.classes, self.class_counts = self.classes[alive], counts[alive]
        self._gallery = Gallery(slots, self._gallery.frame, self._gallery.radius)

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

    def predict(self, queries: ArrayLike, k: int, *, exclude_self: bool = False) -> NDArray[Any]:
        """Give each query the class whose ``k`` nearest rows are nearest on average.

        This is the sum rule (Eq. `ccknn`). Most classes are ruled out unseen, which makes it much
        faster than `class_distances`. Of classes at the same distance the first one wins.
        """
        blocks = self._predictions(queries, k, exclude_self, with_means=False)
        return self.classes[np.concatenate([codes for codes, _ in blocks])]

    def predict_scores(
        self, queries: ArrayLike, k: int, *, exclude_self: bool = False
    ) -> NDArray[np.float64]:
        """Mean squared distances as far as `predict` needs them: shape (n_queries, n_classes).

        The smallest of a row is the predicted class's. ``inf`` stands for classes that were shown
        to be farther, whose distance nobody computed.
        """
        blocks = self._predictions(queries, k, exclude_self, with_means=True)
        return np.concatenate([means for _, means in blocks])

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
        most = int(self.class_counts.max())
        yield from self._blocks(queries, k, most, exclude_self, by_class=True)

    def nearest_blocks(
        self, queries: ArrayLike, k: int, *, exclude_self: bool = False
    ) -> Iterator[Neighbors]:
        """Yield `nearest` by blocks of queries."""
        for found in self._blocks(queries, k, self.n_rows, exclude_self, by_class=False):
            yield Neighbors(found.distances[:, 0], found.indices[:, 0])

    def _blocks(
        self, queries: ArrayLike, k: int, most: int, exclude_self: bool, *, by_class: bool
    ) -> Iterator[Neighbors]:
        """Search by blocks of queries; no range has more than ``most`` rows."""
        k = check_count("ClassIndex", "k", k)
        n_found = min(k, most)
        engine = _plain if n_found > _MANY else compiled() or _plain
        width = k * (len(self.classes) if by_class else 1)
        for Q, own in self._query_blocks(queries, width, exclude_self):
            found = engine.search(self._gallery, Q, own, n_found, by_class=by_class)
            yield Neighbors(*(_padded(part, k) for part in found))

    def _predictions(
        self, queries: ArrayLike, k: int, exclude_self: bool, *, with_means: bool
    ) -> Iterator[tuple[NDArray[np.intp], NDArray[np.float64]]]:
        k = min(check_count("ClassIndex", "k", k), int(self.class_counts.max()))
        engine = None if k > _MANY else compiled()
        if engine is None:
            for means in self.class_distance_blocks(queries, k, exclude_self=exclude_self):
                yield means.argmin(axis=1), means
            return
        width = len(self.classes) if with_means else 1
        for Q, own in self._query_blocks(queries, width, exclude_self):
            yield engine.predict(self._gallery, Q, own, k, with_means=with_means)

    def _query_blocks(
        self, queries: ArrayLike, width: int, exclude_self: bool
    ) -> Iterator[tuple[NDArray[Any], NDArray[np.intp]]]:
        """Yield checked queries and the slots they are themselves in; ``width`` results each."""
        Q = np.asarray(queries)
        self._check_width(Q.shape, "search")
        if exclude_self and len(Q) != self.n_rows:
            raise ValueError(
                f"exclude_self needs the gallery's own {self.n_rows} rows as queries; got {len(Q)}."
            )
        widest = max(width, self.n_features)
        size = int(np.clip(_BLOCK_ELEMENTS // widest, 1, _BLOCK_QUERIES))
        for begin in range(0, max(len(Q), 1), size):  # no queries: one empty block
            block = _as_rows(Q[begin : begin + size])
            _check_finite(block, "queries")
            rows = slice(begin, begin + len(block))
            yield block, self._places[rows] if exclude_self else np.full(len(block), -1)

    def _check_width(self, shape: tuple[int, ...], verb: str) -> None:
        if len(shape) != 2 or shape[1] != self.n_features:
            raise ValueError(
                f"ClassIndex.{verb} needs rows of {self.n_features} features, as in its gallery; "
                f"got shape {shape}."
            )


def _as_rows(X: ArrayLike) -> NDArray[Any]:
    X = np.asarray(X)
    return X if X.dtype == np.float32 else X.astype(np.float64, copy=False)


def _check_labels(X: NDArray[Any], y: NDArray[Any]) -> None:
    if y.shape != (len(X),):
        raise ValueError(f"{len(X)} rows need as many labels; got labels of shape {y.shape}.")
    if (y != y).any():
        raise ValueError("ClassIndex got a missing label (NaN); remove those rows.")


def _check_finite(X: NDArray[Any], what: str) -> None:
    # Squares of differences of anything larger could overflow in their sum.
    if not max(float(X.max(initial=0)), -float(X.min(initial=0))) < 1e150:
        raise ValueError(
            f"ClassIndex got NaN, infinity or a number too large to square in its {what}; remove "
            "or impute them."
        )


def _padded(values: NDArray[Any], k: int) -> NDArray[Any]:
    """Fill up the last axis to ``k`` columns."""
    nothing = np.inf if values.dtype.kind == "f" else -1
    padding = ((0, 0), (0, 0), (0, k - values.shape[2]))
    return np.pad(values, padding, constant_values=nothing) if k > values.shape[2] else values


def _join(blocks: Iterator[Neighbors]) -> Neighbors:
    distances, indices = zip(*blocks, strict=True)
    return Neighbors(np.concatenate(distances), np.concatenate(indices))
