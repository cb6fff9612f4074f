"""A gallery in partitions against the same gallery in memory, and against every pair."""

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ccml._dask import in_task
from ccml.neighbors import ClassIndex, PartitionedIndex, _partitions, backend


@pytest.fixture(autouse=True)
def _in_this_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


@st.composite
def problems(draw):
    """Rows on a small grid, so that there are ties, cut anywhere, also into nothing."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_rows = draw(st.integers(1, 40))
    X = rng.integers(0, 4, size=(n_rows, draw(st.integers(1, 3)))).astype(np.float64)
    y = rng.integers(0, draw(st.integers(1, 4)), size=n_rows)
    cuts = sorted(draw(st.lists(st.integers(0, n_rows), max_size=5)))
    chunks = tuple(np.diff([0, *cuts, n_rows]).tolist())
    queries = rng.integers(0, 4, size=(draw(st.integers(0, 5)), X.shape[1])).astype(np.float64)
    return X, y, chunks, queries, draw(st.integers(1, 50))


@given(problems())
@settings(max_examples=30, deadline=None)
def test_every_pair(problem):
    """Of every class the nearest rows, of equally near ones those with the lower index."""
    X, y, chunks, queries, k = problem
    index = PartitionedIndex(da.from_array(X, (chunks, -1)), y)
    distances, rows = index.search(queries, k)
    for i, query in enumerate(queries):
        for c, label in enumerate(np.unique(y)):
            mine = np.flatnonzero(y == label)
            squared = ((query - X[mine]) ** 2).sum(axis=1)
            order = np.lexsort((mine, squared))[:k]
            n_found = len(order)
            np.testing.assert_array_equal(rows[i, c, :n_found], mine[order])
            np.testing.assert_allclose(distances[i, c, :n_found], squared[order])
            assert (rows[i, c, n_found:] == -1).all()
            assert np.isinf(distances[i, c, n_found:]).all()


@given(problems())
@settings(max_examples=30, deadline=None)
def test_all_that_a_class_index_answers(problem):
    X, y, chunks, queries, k = problem
    index, whole = PartitionedIndex(da.from_array(X, (chunks, -1)), y), ClassIndex(X, y)
    np.testing.assert_array_equal(index.classes, whole.classes)
    np.testing.assert_array_equal(index.class_counts, whole.class_counts)
    np.testing.assert_array_equal(index.predict(queries, k), whole.predict(queries, k))
    for mine, theirs in zip(
        index.search(X, k, exclude_self=True), whole.search(X, k, exclude_self=True), strict=True
    ):
        np.testing.assert_allclose(mine, theirs)
    for exclude_self, Q in ((False, queries), (True, X)):
        distances, rows, codes = index.nearest(Q, k, exclude_self=exclude_self)
        expected = whole.nearest(Q, k, exclude_self=exclude_self)
        np.testing.assert_allclose(distances, expected.distances)
        np.testing.assert_array_equal(rows, expected.indices)
        found = rows >= 0
        np.testing.assert_array_equal(index.classes[codes[found]], y[rows[found]])


def counted(counts, name):
    """Count the blocks that are loaded."""

    def load(block):
        counts[name] = counts.get(name, 0) + 1
        return block

    return load


def test_nothing_is_loaded_before_it_is_computed_and_partitions_are_not_kept(monkeypatch):
    """Each pass loads each partition once; a block of queries is computed once."""
    monkeypatch.setattr(_partitions, "_LISTED", 12)  # 2 classes, 3 neighbours: 2 queries a pass
    counts = {}
    X, Q = np.arange(20.0)[:, None], np.arange(6.0)[:, None]
    rows = da.from_array(X, (5, -1)).map_blocks(counted(counts, "rows"), meta=X)
    queries = da.from_array(Q, (3, -1)).map_blocks(counted(counts, "queries"), meta=Q)
    index = PartitionedIndex(rows, np.arange(20) % 2)
    found = index.search(queries, 3)
    assert counts == {}
    assert found.distances.chunks == ((3, 3), (2,), (3,))
    distances, indices = dask.compute(*found)
    assert counts == {"rows": 4 * 3, "queries": 2}
    expected = ClassIndex(X, np.arange(20) % 2).search(Q, 3)
    np.testing.assert_array_equal(distances, expected.distances)
    np.testing.assert_array_equal(indices, expected.indices)


@pytest.mark.parametrize(
    "labels",
    [
        lambda y: y,
        lambda y: da.from_array(y, 7),
        lambda y: da.from_array(np.array(["a", "b", "c"], dtype=object)[y], 10),
        lambda y: da.from_array(y.astype(object), 4),
        lambda y: pd.Series(np.array(["a", "bb", "c"])[y]),
    ],
    ids=["array", "other chunks", "objects", "objects that are numbers", "series"],
)
def test_labels_of_any_kind_and_cut(labels):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 2)), rng.integers(3, size=30)
    index = PartitionedIndex(da.from_array(X, (10, 1)), labels(y))
    whole = ClassIndex(X, y)
    np.testing.assert_array_equal(index.class_counts, whole.class_counts)
    np.testing.assert_array_equal(index.search(X, 4).indices, whole.search(X, 4).indices)


def test_unknown_lengths_are_found():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 2)), np.arange(30) % 2
    rows = da.from_array(X, (10, 2))
    rows, labels = rows[rows[:, 0] > 0], da.from_array(y, 10)[rows[:, 0] > 0]
    kept = X[:, 0] > 0
    expected = ClassIndex(X[kept], y[kept]).search(X, 3).indices
    for given_labels in (labels, y[kept]):
        index = PartitionedIndex(rows, given_labels)
        assert index.n_rows == kept.sum()
        np.testing.assert_array_equal(index.search(X, 3).indices, expected)
    lazy = index.search(rows, 3).indices  # queries of unknown lengths
    np.testing.assert_array_equal(lazy.compute(), index.search(X[kept], 3).indices)


def test_rows_and_labels_that_are_cut_otherwise_are_refused():
    X = da.from_array(np.arange(6.0)[:, None], (3, 1))
    rows, labels = X[X[:, 0] != 0], da.from_array(np.arange(6) % 2, 3)
    labels = labels[da.from_array(np.arange(6), 3) != 5]
    with pytest.raises(ValueError, match=r"A partition has \d rows and \d labels"):
        PartitionedIndex(rows, labels).search([[0.0]], 1)


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (np.zeros((2, 1)), [0, 1], "needs a dask array of rows and columns; got ndarray"),
        (da.zeros(3), [0, 1, 1], r"shape \(3,\)"),
        (da.zeros((3, 2)), [0, 1], "3 rows need as many labels"),
        (da.zeros((0, 2)), [], "there has to be one"),
        (da.zeros((3, 2)), [0, 1, np.nan], "missing label"),
        (da.zeros((2, 2)), da.from_array(np.array(["a", None], dtype=object), 2), "missing label"),
        (
            da.zeros((2, 2), chunks=1),
            da.from_array(np.array(["a", 1], dtype=object), 1),
            "Use one type of label",
        ),
    ],
)
def test_what_cannot_be_searched_is_refused(X, y, message):
    with pytest.raises(ValueError, match=message):
        PartitionedIndex(X, y)


def test_missing_numbers_are_refused_when_they_are_met():
    index = PartitionedIndex(da.from_array([[0.0], [np.nan]], 1), [0, 1])
    with pytest.raises(ValueError, match="NaN"):
        index.search([[0.0]], 1)
    with pytest.raises(ValueError, match=r"queries of 1 features.*\(1, 2\)"):
        index.search([[0.0, 1.0]], 1)


def test_joined_is_one_gallery():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 2)), rng.integers(3, size=30)
    order = np.argsort(y == 1, kind="stable")  # class 1 comes only with the second part
    X, y = X[order], y[order]
    n = int((y != 1).sum())
    first, second = (
        PartitionedIndex(da.from_array(X[part], (4, 2)), y[part])
        for part in (slice(n), slice(n, None))
    )
    both, whole = first.joined(second), ClassIndex(X, y)
    np.testing.assert_array_equal(both.class_counts, whole.class_counts)
    np.testing.assert_array_equal(both.search(X, 5).indices, whole.search(X, 5).indices)
    assert first.n_rows == n


@pytest.mark.skipif(backend() == "numpy", reason="plain numpy has no threads of ours")
def test_a_task_searches_in_its_own_thread():
    """Dask has a thread for each core already."""
    from ccml.neighbors._threads import Threads

    with in_task(), Threads() as threads:
        assert threads.n_threads == 1
