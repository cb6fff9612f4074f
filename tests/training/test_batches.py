"""Which rows go together."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ccml.training import hold_out, pools

LABELS = st.lists(st.integers(0, 9), min_size=2, max_size=200).map(
    lambda labels: np.unique(labels, return_inverse=True)[1]
)


@given(LABELS, st.integers(2, 60), st.integers(2, 20), st.integers(0, 99))
@settings(max_examples=100, deadline=None)
def test_every_row_is_a_query_exactly_once(y, pool_size, batch_size, seed):
    seen = []
    for rows, batches in pools(y, pool_size, batch_size, np.random.default_rng(seed)):
        most = batch_size + (2 if pool_size <= batch_size else 0)  # a pair isn't cut
        assert all(1 <= len(batch) <= most for batch in batches)
        seen.extend(rows[np.concatenate(batches)])
    assert sorted(seen) == list(range(len(y)))


@given(LABELS, st.integers(4, 40), st.integers(0, 99))
@settings(max_examples=100, deadline=None)
def test_a_row_meets_another_of_its_class(y, pool_size, seed):
    """Wherever its class has another: the only lonely ones are classes of one row."""
    counts = np.bincount(y)
    for rows, _ in pools(y, pool_size, pool_size, np.random.default_rng(seed)):
        in_pool = np.bincount(y[rows], minlength=len(counts))
        assert ((in_pool != 1) | (counts == 1)).all()


def test_pools_are_of_about_the_size_asked_for():
    y = np.random.default_rng(0).integers(10, size=1234)
    sizes = [len(rows) for rows, _ in pools(y, 100, 50, np.random.default_rng(0))]
    assert len(sizes) == 12
    assert max(sizes) - min(sizes) <= 6


def test_order_differs_from_epoch_to_epoch_and_repeats_with_the_seed():
    y = np.repeat(np.arange(5), 20)

    def epoch(rng):
        return np.concatenate([rows for rows, _ in pools(y, 30, 10, rng)]).tolist()

    rng = np.random.default_rng(0)
    first, second = epoch(rng), epoch(rng)
    assert first != second
    assert first == epoch(np.random.default_rng(0))


@given(LABELS, st.floats(0.01, 0.99), st.integers(0, 99))
@settings(max_examples=100, deadline=None)
def test_holding_out_leaves_two_of_every_class(y, fraction, seed):
    kept, held_out = hold_out(y, fraction * len(y), np.random.default_rng(seed))
    assert sorted([*kept, *held_out]) == list(range(len(y)))
    counts = np.bincount(y)
    assert (np.bincount(y[kept], minlength=len(counts)) >= np.minimum(counts, 2)).all()


def test_held_out_rows_are_alike_in_their_classes():
    y = np.repeat([0, 1], [900, 100])
    _, held_out = hold_out(y, 200, np.random.default_rng(0))
    assert np.bincount(y[held_out]).tolist() == pytest.approx([180, 20], abs=1)
