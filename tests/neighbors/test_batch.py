"""The search within a batch against loops."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ccml.neighbors import search_batch


def nearest(query, rows, allowed, k):
    squared = ((query.astype(np.float64) - rows[allowed].astype(np.float64)) ** 2).sum(axis=1)
    found = allowed[np.lexsort((allowed, squared))[:k]]
    return [*found, *[-1] * (k - len(found))]


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_equals_the_loop(data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**20)))
    n, m = data.draw(st.integers(0, 30)), data.draw(st.sampled_from([1, 5, 70, 1100]))
    n_classes, k = data.draw(st.integers(1, 6)), data.draw(st.sampled_from([1, 3, 9]))
    dtype = data.draw(st.sampled_from([np.float32, np.float64]))
    rows = rng.integers(0, 4, (m, data.draw(st.integers(1, 5)))) + data.draw(
        st.sampled_from([0, 1e4])
    )
    rows = rows.astype(dtype)
    codes = rng.integers(n_classes, size=m)
    own = rng.integers(-1, m, size=n)
    queries = np.where(own[:, None] >= 0, rows[own], rows[:1] + 1)
    found = search_batch(queries, rows, codes, own, n_classes, k)
    query_codes = rng.integers(n_classes, size=n)
    split = search_batch(queries, rows, codes, own, n_classes, k, query_codes=query_codes)
    assert found.shape == (n, n_classes, k)
    assert split.shape == (n, 2, k)
    for i in range(n):
        others = np.flatnonzero(np.arange(m) != own[i])
        for code in range(n_classes):
            expected = nearest(queries[i], rows, others[codes[others] == code], k)
            assert found[i, code].tolist() == expected
        same = codes[others] == query_codes[i]
        for side, allowed in enumerate([others[same], others[~same]]):
            assert split[i, side].tolist() == nearest(queries[i], rows, allowed, k)


@pytest.mark.parametrize("size", [1e-30, 1.0, 1e18])
def test_any_scale(size):
    rng = np.random.default_rng(0)
    rows = (rng.normal(size=(50, 3)) * size).astype(np.float32)
    codes, own = np.zeros(50, dtype=int), np.arange(50)
    found = search_batch(rows, rows, codes, own, 1, 4)
    scaled = search_batch(rows / np.float32(size), rows / np.float32(size), codes, own, 1, 4)
    np.testing.assert_array_equal(found, scaled)


@pytest.mark.parametrize(
    "change",
    [
        {"codes": np.array([0, 1, 2])},
        {"codes": np.array([0, 1])},
        {"own": np.array([3, -1])},
        {"own": np.array([-1])},
        {"query_codes": np.array([0, 2])},
        {"k": 0},
    ],
    ids=str,
)
def test_bad_input(change):
    """The kernels don't look where they step, so what they are given is checked."""
    good = {"codes": np.array([0, 1, 1]), "own": np.array([0, -1]), "k": 1}
    arguments = {**good, **change}
    with pytest.raises(ValueError, match="search_batch"):
        search_batch(np.zeros((2, 4)), np.ones((3, 4)), n_classes=2, **arguments)
