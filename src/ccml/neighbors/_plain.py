"""The same search in plain numpy: every pair, in float64."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccml.neighbors._selection import k_smallest
from ccml.neighbors._slots import Gallery

# Working memory: 512 queries meet 8,192 rows at a time, and no temporary is above 32 MB.
_QUERIES = 512
_ROWS = 8192


def search(
    gallery: Gallery, Q: NDArray[Any], own: NDArray[np.intp], k: int, *, by_class: bool
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Find the ``k`` nearest rows of every class, or of all: (n, classes or 1, k)."""
    slots = gallery.slots
    begins, ends = (slots.begin, slots.end) if by_class else ([0], [len(slots.row)])
    distances = np.full((len(Q), len(begins), k), np.inf)
    indices = np.full(distances.shape, -1, dtype=np.intp)
    size = min(_QUERIES, max(1, _QUERIES * _ROWS // (k * Q.shape[1])))
    n_rows = min(_ROWS, max(1, _QUERIES * _ROWS // Q.shape[1]))
    for i in range(0, len(Q), size):
        queries = np.asarray(Q[i : i + size], dtype=np.float64)
        for c, (begin, end) in enumerate(zip(begins, ends, strict=True)):
            live = np.arange(begin, end)[slots.row[begin:end] >= 0]
            best = distances[i : i + size, c], indices[i : i + size, c]
            for j in range(0, len(live), n_rows):
                places = live[j : j + n_rows]
                found = _nearest(gallery, queries, own[i : i + size], places, k)
                _merge(best, found)
    return distances, indices


def _nearest(
    gallery: Gallery,
    queries: NDArray[np.float64],
    own: NDArray[np.intp],
    places: NDArray[np.intp],
    k: int,
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Nearest of the rows in some slots, unordered; exact, and right where distances tie."""
    centre = gallery.frame.centre
    X = gallery.slots.rows[places].astype(np.float64)
    left, right = queries - centre, X - centre
    squares, norms = (np.einsum("ij,ij->i", side, side) for side in (left, right))
    scores = left @ (-2 * right.T)  # squared distances, but for rounding
    scores += squares[:, None]
    scores += norms
    scores[own[:, None] == places] = np.inf
    n_found = min(k, len(places))
    chosen = k_smallest(scores, n_found)
    # How far a score can be from the truth, and how many rows that leaves in doubt.
    doubt = (X.shape[1] + 8) * 2.0**-52 * (np.sqrt(squares) + np.sqrt(norms.max())) ** 2
    limit = np.take_along_axis(scores, chosen, axis=1).max(axis=1, initial=-np.inf) + 2 * doubt
    width = int((scores <= limit[:, None]).sum(axis=1).max())
    if width > n_found:
        chosen = k_smallest(scores, width)
    missing = np.isinf(np.take_along_axis(scores, chosen, axis=1))
    distances = np.empty(chosen.shape)
    for column in range(chosen.shape[1]):
        difference = queries - X[chosen[:, column]]
        distances[:, column] = np.einsum("ij,ij->i", difference, difference)
    distances[missing] = np.inf
    return distances, np.where(missing, -1, gallery.slots.row[places][chosen])


def _merge(
    best: tuple[NDArray[np.float64], NDArray[np.intp]],
    found: tuple[NDArray[np.float64], NDArray[np.intp]],
) -> None:
    """Keep the nearest of both in ``best``, ascending, of equal ones the lower index."""
    distances = np.concatenate([best[0], found[0]], axis=1)
    indices = np.concatenate([best[1], found[1]], axis=1)
    order = np.lexsort((indices, distances), axis=1)[:, : best[0].shape[1]]
    best[0][:] = np.take_along_axis(distances, order, axis=1)
    best[1][:] = np.take_along_axis(indices, order, axis=1)
