"""The search against loops in float64."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ccml.neighbors import ClassIndex, _class_index


def brute_force(rows, queries, k, exclude_self=False):
    """Sorted (squared distance, row) of the k nearest; ``rows`` is a list of (number, vector)."""
    found = []
    for i, query in enumerate(queries):
        pairs = sorted(
            (float(((query - x) ** 2).sum()), j) for j, x in rows if not (exclude_self and i == j)
        )[:k]
        found.append(pairs + [(np.inf, -1)] * (k - len(pairs)))
    return np.array(found).reshape(len(queries), k, 2)


@pytest.fixture(params=["one block", "many blocks"])
def block_size(request, monkeypatch):
    if request.param == "many blocks":
        monkeypatch.setattr(_class_index, "_QUERY_BLOCK", 3)
        monkeypatch.setattr(_class_index, "_ROW_BLOCK", 5)


@pytest.mark.parametrize("exclude_self", [False, True])
@pytest.mark.parametrize("k", [1, 4, 25])
def test_search_equals_the_loop(block_size, k, exclude_self):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), rng.choice(["a", "b", "c"], 40, p=[0.6, 0.3, 0.1])
    queries = X if exclude_self else rng.normal(size=(11, 3))
    distances, indices = ClassIndex(X, y).search(queries, k, exclude_self=exclude_self)
    assert distances.shape == indices.shape == (len(queries), 3, k)
    for c, label in enumerate(["a", "b", "c"]):
        members = [(j, X[j]) for j in np.flatnonzero(y == label)]
        expected = brute_force(members, queries, k, exclude_self)
        np.testing.assert_allclose(distances[:, c], expected[..., 0], rtol=1e-12)
        np.testing.assert_array_equal(indices[:, c], expected[..., 1])


@pytest.mark.parametrize("exclude_self", [False, True])
def test_nearest_equals_the_loop(block_size, exclude_self):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(30, 2)), rng.integers(4, size=30)
    queries = X if exclude_self else rng.normal(size=(7, 2))
    distances, indices = ClassIndex(X, y).nearest(queries, 6, exclude_self=exclude_self)
    expected = brute_force(list(enumerate(X)), queries, 6, exclude_self)
    np.testing.assert_allclose(distances, expected[..., 0], rtol=1e-12)
    np.testing.assert_array_equal(indices, expected[..., 1])


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_any_shape_and_any_ties(data):
    n = data.draw(st.integers(1, 60))
    n_features = data.draw(st.integers(1, 5))
    k = data.draw(st.integers(1, 8))
    seed = data.draw(st.integers(0, 2**16))
    offset = data.draw(st.sampled_from([0.0, 1e4]))
    rng = np.random.default_rng(seed)
    # Few distinct values make many ties and duplicates.
    X = rng.integers(0, data.draw(st.sampled_from([2, 5, 1000])), (n, n_features)) + offset
    y = rng.integers(0, data.draw(st.integers(1, 6)), n)
    queries = np.concatenate([X[:3], rng.integers(0, 5, (3, n_features)) + offset])
    index = ClassIndex(X, y)
    distances, indices = index.search(queries, k)
    for c, label in enumerate(index.classes):
        members = [(j, X[j]) for j in np.flatnonzero(y == label)]
        expected = brute_force(members, queries, k)
        np.testing.assert_allclose(distances[:, c], expected[..., 0], rtol=1e-9, atol=1e-7)
        exists = indices[:, c] >= 0
        assert (exists == (expected[..., 1] >= 0)).all()
        assert (y[indices[:, c][exists]] == label).all()


def test_folded_selection_is_exact():
    """Wide rows are selected from folded minima; the result is that of a full sort."""
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(20_000, 4)), np.zeros(20_000)
    queries = rng.normal(size=(5, 4))
    indices = ClassIndex(X, y).search(queries, 7).indices[:, 0]
    full = ((queries[:, None] - X) ** 2).sum(-1).argsort(axis=1)[:, :7]
    np.testing.assert_array_equal(indices, full)


def test_close_points_far_from_the_origin():
    """In float32, ||x||^2 + ||y||^2 - 2xy would give 0 or 8 here."""
    X = np.array([[1e4], [1e4 + 0.5], [1e4 + 2]], dtype=np.float32)
    distances, indices = ClassIndex(X, [0, 0, 0]).search(X[:1], 3)
    assert distances.ravel().tolist() == [0, 0.25, 4]
    assert indices.ravel().tolist() == [0, 1, 2]


def test_adding_equals_building():
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(50, 3)), rng.integers(5, size=50)
    y[:20] = y[:20] % 3  # classes 3 and 4 come later
    grown = ClassIndex(X[:20], y[:20])
    for start in range(20, 50, 10):
        grown.add(X[start : start + 10], y[start : start + 10])
    built = ClassIndex(X, y)
    assert grown.classes.tolist() == built.classes.tolist()
    queries = rng.normal(size=(6, 3))
    for ours, theirs in zip(grown.search(queries, 4), built.search(queries, 4), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_adding_nothing_changes_nothing():
    index = ClassIndex([[0.0], [1.0]], [0, 1])
    index.add(np.empty((0, 1)), [])
    assert index.classes.dtype.kind == "i"
    assert index.n_rows == 2


def test_class_distances_are_means_over_what_a_class_has():
    index = ClassIndex([[0.0], [1.0], [5.0]], [0, 0, 1])
    np.testing.assert_array_equal(index.class_distances([[0.0]], 2), [[0.5, 25.0]])
    np.testing.assert_array_equal(
        index.class_distances([[0.0], [1.0], [5.0]], 1, exclude_self=True),
        [[1.0, 25.0], [1.0, 16.0], [16.0, np.inf]],
    )


def test_no_queries_give_empty_results():
    index = ClassIndex([[0.0], [1.0]], [0, 1])
    assert index.search(np.empty((0, 1)), 2).indices.shape == (0, 2, 2)
    assert index.nearest(np.empty((0, 1)), 2).indices.shape == (0, 2)


def test_memory_does_not_grow_with_the_queries():
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(20_000, 8)), rng.integers(10, size=20_000)
    index = ClassIndex(X, y)
    queries = rng.normal(size=(4000, 8))  # the full matrix would be 640 MB
    tracemalloc.start()
    for _ in index.search_blocks(queries, 5):
        pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 150e6


def test_a_huge_k_costs_no_more_than_the_largest_class():
    index = ClassIndex(np.arange(60.0)[:, None], np.arange(60) % 2)
    tracemalloc.start()
    distances = index.class_distances(np.zeros((500, 1)), 10**9)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_allclose(distances[0, 0], np.mean(np.arange(0, 60, 2.0) ** 2))
    assert peak < 50e6


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda i: i.search([[0.0, 1.0]], 1), "needs rows of 1 features"),
        (lambda i: i.search([0.0], 1), "needs rows of 1 features"),
        (lambda i: i.search([[0.0]], 0), "k=0"),
        (lambda i: i.search([[0.0]], 1.5), "k=1.5"),
        (lambda i: i.search([[np.nan]], 1), "NaN, infinity or"),
        (lambda i: i.search([[0.0]], 1, exclude_self=True), "the gallery's own 2 rows"),
        (lambda i: i.add([[0.0, 1.0]], [0]), "needs rows of 1 features"),
        (lambda i: i.add([[0.0]], [0, 1]), "as many labels"),
        (lambda i: i.add([[0.0]], ["a"]), "Use one type of label"),
        (lambda i: i.search([[1e200]], 1), "too large to square"),
        (lambda i: i.add([[np.inf]], [0]), "NaN, infinity or"),
        (lambda i: ClassIndex(np.empty((0, 2)), []), "at least one row"),
        (lambda i: ClassIndex([1.0, 2.0], [0, 1]), "at least one row"),
        (lambda i: ClassIndex([[np.nan]], [0]), "NaN, infinity or"),
        (lambda i: ClassIndex([[1.0]], [0, 1]), "as many labels"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call(ClassIndex([[0.0], [1.0]], [0, 1]))
