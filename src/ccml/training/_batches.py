"""Which rows are held out, and which go together in a step."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.intp]


class PoolOfBatches(NamedTuple):
    """Rows among which neighbours are looked for, and the batches of queries, as places in it."""

    rows: Rows
    batches: list[Rows]


def hold_out(y: NDArray[np.intp], n_rows: float, rng: np.random.Generator) -> tuple[Rows, Rows]:
    """Split into rows to train on and about ``n_rows`` to hold out, alike in their classes.

    Each class keeps at least two rows for training, so few or none may be held out.

    Examples
    --------
    >>> import numpy as np
    >>> from ccml.training import hold_out
    >>> y = np.repeat([0, 1], [40, 2])  # the second class has no row to spare
    >>> kept, held_out = hold_out(y, 21, np.random.default_rng(0))
    >>> np.bincount(y[kept]), np.bincount(y[held_out])
    (array([20,  2]), array([20]))
    """
    counts = np.bincount(y)
    quota = np.floor(n_rows / len(y) * counts + rng.random(len(counts)))
    order, rank = _shuffled_by_class(y, rng)
    held_out = rank < np.minimum(quota, counts - 2)[y[order]]
    return order[~held_out], order[held_out]


def pools(
    y: NDArray[np.intp], pool_size: int, batch_size: int, rng: np.random.Generator
) -> Iterator[PoolOfBatches]:
    """Shuffle all rows into pools of about ``pool_size``, and each pool into batches.

    Rows are dealt out in pairs of one class (an odd class has a triple), so that a row finds
    another of its class in its pool wherever there is one. Where a pool isn't to be larger than a
    batch, it is one, if of a row more for the sake of pairs.

    Examples
    --------
    >>> import numpy as np
    >>> from ccml.training import pools
    >>> y = np.repeat(np.arange(50), 2)  # fifty classes of two
    >>> for rows, batches in pools(y, 20, 10, np.random.default_rng(0)):
    ...     print(len(rows), len(np.unique(y[rows])), [len(batch) for batch in batches])
    20 10 [10, 10]
    20 10 [10, 10]
    20 10 [10, 10]
    20 10 [10, 10]
    20 10 [10, 10]
    """
    order, rank = _shuffled_by_class(y, rng)
    n_pairs = np.maximum(np.bincount(y) // 2, 1)
    first_pair = np.concatenate([[0], np.cumsum(n_pairs)])[y[order]]
    pair = first_pair + np.minimum(rank // 2, n_pairs[y[order]] - 1)
    place = rng.permutation(n_pairs.sum())[pair]  # of its pair, among all pairs
    by_place = np.argsort(place, kind="stable")
    order, place = order[by_place], place[by_place]
    is_batch = pool_size <= batch_size  # a pool that is embedded for a single step
    n_pools = -(-len(y) // pool_size) if is_batch else max(1, round(len(y) / pool_size))
    cuts = np.linspace(0, len(y), n_pools + 1)[1:-1].round().astype(np.intp)
    cuts = np.searchsorted(place, place[cuts])  # not between the rows of a pair
    for rows in np.split(order, cuts):
        if len(rows):
            shuffled = rng.permutation(rows)
            n_batches = 1 if is_batch else -(-len(rows) // batch_size)
            yield PoolOfBatches(shuffled, np.array_split(np.arange(len(rows)), n_batches))


def _shuffled_by_class(y: NDArray[np.intp], rng: np.random.Generator) -> tuple[Rows, Rows]:
    """Rows grouped by class, shuffled within each, and each row's rank within its class."""
    shuffled = rng.permutation(len(y))
    order = shuffled[np.argsort(y[shuffled], kind="stable")]
    starts = np.concatenate([[0], np.cumsum(np.bincount(y))])
    return order, np.arange(len(y)) - starts[y[order]]
