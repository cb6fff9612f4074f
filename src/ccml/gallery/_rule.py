"""The rule of CCKNN, by searches in a database.

Milvus has a grouping search, which is the k nearest of each class in one call. Groups may come back
short or not at all, though (https://github.com/milvus-io/milvus/issues/36109 and 44859; Milvus Lite
groups only as many of the nearest items as a call of its kind takes), so what is missing is found
by a search for each class.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccml.gallery._keys import LABEL, among
from ccml.gallery._store import MOST_HITS, Store
from ccml.neighbors import mean_distances

_MOST_IN_GROUP = 10  # that Milvus takes, unless it is configured otherwise
_BLOCK = 2**22  # numbers held for a block of queries
_FIRST_LOOK = 4  # k: as many of the nearest items decide most queries
_ROUNDING = 1 + 1e-5  # of float32, between two searches


class ClassSearch:
    """The nearest items of each class; ``keys`` stand for the classes in the database."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._groups_are_full = True  # until they are seen not to be

    def nearest(
        self, Z: NDArray[np.float32], keys: Sequence[str], k: int, field: str = LABEL
    ) -> Iterator[tuple[NDArray[np.float64], NDArray[Any]]]:
        """Yield for blocks of queries each class's k nearest: distances, and values of a field.

        Both are of shape (n_queries, n_classes, k), with ``inf`` and None where there are fewer.
        """
        for block in _blocks(Z, len(keys) * k):
            distances = np.full((len(block), len(keys), k), np.inf)
            values = np.full(distances.shape, None, dtype=object)
            if self._groups_are_full and k <= _MOST_IN_GROUP and len(keys) * k <= MOST_HITS:
                self._fill_by_groups(block, keys, field, distances, values)
            for code, key in enumerate(keys):
                short = np.flatnonzero(np.isinf(distances[:, code, -1]))
                found = self._store.search(block[short], k, [field], among(LABEL, [key]))
                for row, hits in zip(short, found, strict=True):
                    distances[row, code, : len(hits)] = hits.distances
                    values[row, code, : len(hits)] = [hit["entity"][field] for hit in hits]
            yield distances, values

    def _fill_by_groups(
        self,
        Z: NDArray[np.float32],
        keys: Sequence[str],
        field: str,
        distances: NDArray[np.float64],
        values: NDArray[Any],
    ) -> None:
        k = distances.shape[2]
        code_of = {key: code for code, key in enumerate(keys)}
        found = self._store.search(Z, len(keys), [LABEL, field], group_size=k)
        for row, hits in enumerate(found):
            places: Counter[str] = Counter()
            for hit in sorted(hits, key=lambda hit: hit["distance"]):
                key = hit["entity"][LABEL]
                code, place = code_of.get(key), places[key]
                if code is not None and place < k:  # None: of a class that has come just now
                    distances[row, code, place] = hit["distance"]
                    values[row, code, place] = hit["entity"][field]
                    places[key] += 1
        short = np.isinf(distances[:, :, -1])
        distances[short], values[short] = np.inf, None
        self._groups_are_full = bool(short.mean() < 0.5)

    def predict(
        self, Z: NDArray[np.float32], keys: Sequence[str], k: int
    ) -> Iterator[NDArray[np.intp]]:
        """Yield for blocks of queries the class whose k nearest are nearest on average.

        A few of the nearest items, whatever their class, decide most queries: a class of which k
        are among them is nearer than any of which none is. Only classes that could still be
        nearer are searched.
        """
        code_of = {key: code for code, key in enumerate(keys)}
        n_seen = min(_FIRST_LOOK * k, MOST_HITS)
        for block in _blocks(Z, len(keys) + n_seen):
            seen = np.full((len(block), n_seen), np.inf)
            codes = np.full(seen.shape, -1)
            for row, hits in enumerate(self._store.search(block, n_seen, [LABEL])):
                seen[row, : len(hits)] = hits.distances
                codes[row, : len(hits)] = [code_of.get(hit["entity"][LABEL], -1) for hit in hits]
            yield self._decided(block, keys, k, seen, codes)

    def _decided(
        self,
        Z: NDArray[np.float32],
        keys: Sequence[str],
        k: int,
        seen: NDArray[np.float64],
        codes: NDArray[np.intp],
    ) -> NDArray[np.intp]:
        total, count = np.zeros((2, len(Z), len(keys)))
        for distances, code in zip(seen.T, codes.T, strict=True):
            rows = np.flatnonzero(code >= 0)
            rows = rows[count[rows, code[rows]] < k]
            total[rows, code[rows]] += distances[rows]
            count[rows, code[rows]] += 1
        # No item that wasn't seen is nearer than the last one that was. A class may have no more
        # items than were seen, so the mean of those is all that is known to be below its mean.
        lowest = np.where(count > 0, total / np.maximum(count, 1), seen[:, -1:])
        is_known = (count == k) | np.isinf(seen[:, -1:])  # all items were seen, or enough
        means = np.where(is_known, lowest, np.inf)
        for code in np.argsort(-count.sum(axis=0), kind="stable"):  # likely winners first
            best = means.min(axis=1)
            rows = np.flatnonzero(~is_known[:, code] & (lowest[:, code] <= best * _ROUNDING))
            found = self._store.search(Z[rows], k, [], among(LABEL, [keys[code]]))
            for row, hits in zip(rows, found, strict=True):
                means[row, code] = mean_distances(np.array(hits.distances, dtype=np.float64))
        return means.argmin(axis=1)


def _blocks(Z: NDArray[np.float32], width: int) -> Iterator[NDArray[np.float32]]:
    size = max(_BLOCK // width, 1)
    for begin in range(0, len(Z), size):
        yield Z[begin : begin + size]
