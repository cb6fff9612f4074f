"""The search against a comparison of every pair in float64."""

import subprocess
import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ccml.neighbors import ClassIndex, _class_index, _plain, backend

thorough = settings(
    max_examples=40,
    deadline=None,
    # The fixture only chooses the way; it holds for all examples.
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def brute_force(X, rows, queries, k, exclude_self=False):
    """Squared distances and indices, (n, k), of the nearest among some rows of X."""
    X, queries = np.asarray(X, dtype=np.float64), np.asarray(queries, dtype=np.float64)
    distances = np.full((len(queries), k), np.inf)
    indices = np.full((len(queries), k), -1)
    for i, query in enumerate(queries):
        mine = rows[rows != i] if exclude_self else rows
        squared = ((query - X[mine]) ** 2).sum(axis=1)
        order = np.lexsort((mine, squared))[:k]
        distances[i, : len(order)], indices[i, : len(order)] = squared[order], mine[order]
    return distances, indices


def check_everything(index, X, y, queries, k, *, exclude_self=False):
    """Compare all that an index answers with brute force."""
    classes = np.unique(y)
    assert index.classes.tolist() == classes.tolist()
    assert index.class_counts.tolist() == [np.sum(y == label) for label in classes]
    assert index.labels.tolist() == list(y)
    per_class = [
        brute_force(X, np.flatnonzero(y == label), queries, k, exclude_self) for label in classes
    ]
    expected = [np.stack(part, axis=1) for part in zip(*per_class, strict=True)]
    found = index.search(queries, k, exclude_self=exclude_self)
    np.testing.assert_array_equal(found.indices, expected[1])
    np.testing.assert_allclose(found.distances, expected[0], rtol=1e-12)

    found = index.nearest(queries, k, exclude_self=exclude_self)
    overall = brute_force(X, np.arange(len(X)), queries, k, exclude_self)
    np.testing.assert_array_equal(found.indices, overall[1])
    np.testing.assert_allclose(found.distances, overall[0], rtol=1e-12)

    exists = np.isfinite(expected[0])
    count = exists.sum(axis=2)
    means = np.where(exists, expected[0], 0).sum(axis=2) / np.maximum(count, 1)
    means = np.where(count > 0, means, np.inf)
    scores = index.predict_scores(queries, k, exclude_self=exclude_self)
    looked_at = np.isfinite(scores)
    np.testing.assert_allclose(scores[looked_at], means[looked_at], rtol=1e-12)
    np.testing.assert_allclose(scores.min(axis=1), means.min(axis=1), rtol=1e-12)
    labels = index.predict(queries, k, exclude_self=exclude_self)
    codes = np.searchsorted(classes, labels)
    np.testing.assert_array_equal(codes, scores.argmin(axis=1))
    # Means of inexact distances can tie within rounding; then either class is right.
    chosen = means[np.arange(len(queries)), codes]
    np.testing.assert_allclose(chosen, means.min(axis=1), rtol=1e-12)


@st.composite
def problems(draw):
    """Galleries of all shapes, with ties, duplicates, far offsets and constant columns."""
    rng = np.random.default_rng(draw(st.integers(0, 2**20)))
    n, n_features = draw(st.integers(1, 300)), draw(st.sampled_from([1, 2, 3, 8, 9, 17, 54, 140]))
    n_classes = draw(st.sampled_from([1, 2, 3, 10, 300]))
    kind = draw(st.sampled_from(["few values", "normal", "clusters", "one value"]))
    if kind == "few values":  # sums of small integers are exact, so ties are ties
        X = rng.integers(0, 3, (n, n_features)).astype(np.float64)
    elif kind == "one value":
        X = np.ones((n, n_features))
    else:
        X = rng.normal(size=(n, n_features)) / np.arange(1, n_features + 1)
        X += 20 * rng.normal(size=(3, n_features))[rng.integers(3, size=n)] * (kind == "clusters")
        X[rng.random(n) < 0.1] = X[0]
    X[:, rng.random(n_features) < draw(st.sampled_from([0, 0.3]))] = 7
    X += draw(st.sampled_from([0, 1e4, -1e7]))
    X = X.astype(draw(st.sampled_from([np.float32, np.float64])))
    queries = np.concatenate([X[rng.integers(n, size=4)], X[:2] + 1])
    queries = queries.astype(draw(st.sampled_from([np.float32, np.float64])))
    # Classes of very different sizes, down to one row.
    y = (n_classes * rng.random(n) ** 2).astype(int)
    return X, y, queries, draw(st.sampled_from([1, 2, 5, 70, 400]))


@given(problem=problems())
@thorough
def test_equals_brute_force(way, problem):
    X, y, queries, k = problem
    check_everything(ClassIndex(X, y), X, y, queries, k)


@given(problem=problems())
@thorough
def test_a_row_is_not_its_own_neighbour(way, problem):
    X, y, _, k = problem
    check_everything(ClassIndex(X, y), X, y, X, k, exclude_self=True)


@given(problem=problems(), data=st.data())
@thorough
def test_adding_and_removing_equals_rebuilding(way, problem, data):
    X, y, queries, k = problem
    n_first = data.draw(st.integers(1, len(X)))
    index, rows = ClassIndex(X[:n_first], y[:n_first]), np.arange(n_first)
    n_seen = n_first
    for _ in range(data.draw(st.integers(1, 6))):
        if data.draw(st.booleans()) and n_seen < len(X):
            n_next = data.draw(st.integers(n_seen, min(len(X), n_seen + 40)))
            index.add(X[n_seen:n_next], y[n_seen:n_next])
            rows = np.concatenate([rows, np.arange(n_seen, n_next)])
            n_seen = n_next
        else:
            gone = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=len(rows) - 1))
            index.remove(gone)
            rows = np.delete(rows, gone)
        check_everything(index, X[rows], y[rows], queries, k)


@pytest.mark.parametrize("n_classes", [3, 700])
def test_a_larger_gallery(way, n_classes):
    """Several groups, leaves that classes share, and enough queries for threads and a plan."""
    rng = np.random.default_rng(0)
    spectrum = 1 / np.arange(1, 31)
    X = (rng.normal(size=(5000, 30)) * spectrum).astype(np.float32)
    y = rng.integers(n_classes, size=5000)
    X += rng.normal(size=(n_classes, 30))[y] * spectrum
    queries = X[:300] + 0.1 * spectrum
    check_everything(ClassIndex(X, y), X, y, queries, 3)


def test_an_outlier_spoils_nothing(way):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(400, 5)), rng.integers(3, size=400)
    for far in (1e5, 1e9, 1e20, 1e149):
        X[7] = far
        check_everything(ClassIndex(X, y), X, y, np.concatenate([X[:9], X[:3] + 1]), 4)
        index = ClassIndex(np.delete(X, 7, axis=0), np.delete(y, 7))
        index.add(X[7:8], y[7:8])
        assert index.nearest(X[7:8], 1).indices.item() == 399
        index.search(X[:7], 4)


@pytest.mark.parametrize("far", [1e3, 1e12, 1e30, 1e100])
def test_a_query_from_far_away(way, far):
    rng = np.random.default_rng(6)
    X, y = rng.normal(size=(200, 3)), rng.integers(3, size=200)
    index, queries = ClassIndex(X, y), np.array([[far, 0, 0], [far, far, -far]])
    found = index.nearest(queries, 3)
    expected = brute_force(X, np.arange(200), queries, 3)
    np.testing.assert_allclose(found.distances, expected[0], rtol=1e-12)
    if far < 1e6:  # beyond, all rows are equally far in float64
        np.testing.assert_array_equal(found.indices, expected[1])
    assert index.search(queries, 3).distances.shape == (2, 3, 3)


def test_close_points_far_from_the_origin(way):
    """In float32, ||x||^2 + ||y||^2 - 2xy would give 0 or 8 here."""
    X = np.array([[1e4], [1e4 + 0.5], [1e4 + 2]], dtype=np.float32)
    distances, indices = ClassIndex(X, [0, 0, 0]).search(X[:1], 3)
    assert distances.ravel().tolist() == [0, 0.25, 4]
    assert indices.ravel().tolist() == [0, 1, 2]


def test_ties_go_to_the_lower_index(way):
    """On a circle all rows are as near; a million times over, too."""
    angles = np.array([[1.0, 0], [0, 1], [-1, 0], [0, -1]] * 50)
    index = ClassIndex(angles, np.arange(200) % 2)
    assert index.nearest([[0.0, 0]], 9).indices.tolist() == [list(range(9))]
    assert index.search([[0.0, 0]], 3).indices.tolist() == [[[0, 2, 4], [1, 3, 5]]]
    assert index.predict([[0.0, 0]], 3).tolist() == [0]


def test_blocks_join_up(way, monkeypatch):
    monkeypatch.setattr(_class_index, "_BLOCK_QUERIES", 7)
    monkeypatch.setattr(_plain, "_QUERIES", 3)
    monkeypatch.setattr(_plain, "_ROWS", 5)
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(120, 4)), rng.integers(4, size=120)
    check_everything(ClassIndex(X, y), X, y, X, 6, exclude_self=True)


def test_precision_of_what_is_added_is_kept():
    index = ClassIndex(np.zeros((2, 1), dtype=np.float32), [0, 1])
    index.add([[1 / 3]], [1])
    assert index.nearest([[1 / 3]], 1).distances.item() == 0


def test_adding_costs_little():
    """Rows and classes find free places: the layout is made anew a few times, not every time."""
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(3000, 4)), np.arange(3000) % 40
    index, made = ClassIndex(X[:2000], y[:2000] % 30), []
    build = index._build
    index._build = lambda *args, **options: made.append(1) or build(*args, **options)
    for i in range(2000, 3000):
        index.add(X[i : i + 1], y[i : i + 1])
    assert index.n_rows == 3000
    assert len(index.classes) == 40
    assert len(made) < 12


def test_adding_nothing_changes_nothing():
    index = ClassIndex([[0.0], [1.0]], [0, 1])
    index.add(np.empty((0, 1)), [])
    index.remove([])
    assert index.classes.dtype.kind == "i"
    assert index.n_rows == 2


def test_longer_names_of_new_classes_are_kept():
    index = ClassIndex(np.arange(100.0)[:, None], ["a"] * 50 + ["c"] * 50)
    index.add([[200.0]], ["a"])  # from here on there is room
    index.add([[300.0], [301.0]], ["between", "a"])
    assert index.classes.tolist() == ["a", "between", "c"]
    assert index.predict([[300.2]], 1).tolist() == ["between"]


def test_class_distances_are_means_over_what_a_class_has(way):
    index = ClassIndex([[0.0], [1.0], [5.0]], [0, 0, 1])
    np.testing.assert_array_equal(index.class_distances([[0.0]], 2), [[0.5, 25.0]])
    np.testing.assert_array_equal(
        index.class_distances([[0.0], [1.0], [5.0]], 1, exclude_self=True),
        [[1.0, 25.0], [1.0, 16.0], [16.0, np.inf]],
    )


def test_no_queries_give_empty_results(way):
    index = ClassIndex([[0.0], [1.0]], [0, 1])
    none = np.empty((0, 1))
    assert index.search(none, 2).indices.shape == (0, 2, 2)
    assert index.nearest(none, 2).indices.shape == (0, 2)
    assert index.predict(none, 2).shape == (0,)
    assert index.predict_scores(none, 2).shape == (0, 2)


def test_alone_in_the_gallery(way):
    index = ClassIndex([[1.0]], ["a"])
    assert index.predict([[1.0]], 3, exclude_self=True).tolist() == ["a"]
    assert index.nearest([[1.0]], 1, exclude_self=True).indices.tolist() == [[-1]]


@pytest.mark.parametrize("ask", ["search_blocks", "nearest_blocks", "predict"])
def test_memory_does_not_grow_with_the_queries(ask):
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(20_000, 8)), rng.integers(10, size=20_000)
    index = ClassIndex(X, y)
    queries = rng.normal(size=(40_000, 8))  # the full matrix would be 6.4 GB
    getattr(index, ask)(queries[:100], 5)  # numba's own memory isn't the point
    tracemalloc.start()
    for _ in getattr(index, ask)(queries, 5):
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


def test_several_threads_search_at_once(way):
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(3000, 12)), rng.integers(5, size=3000)
    index = ClassIndex(X, y)
    parts = [X[i : i + 300] + 0.01 for i in range(0, 3000, 300)]
    alone = [(index.predict(part, 4), index.search(part, 4).indices) for part in parts]
    with ThreadPoolExecutor(4) as pool:
        labels = list(pool.map(lambda part: index.predict(part, 4), parts))
        indices = list(pool.map(lambda part: index.search(part, 4).indices, parts))
    for (label, index_alone), label_beside, index_beside in zip(
        alone, labels, indices, strict=True
    ):
        np.testing.assert_array_equal(label, label_beside)
        np.testing.assert_array_equal(index_alone, index_beside)


def test_pools_stay_as_they_were_and_searching_after_torch_works():
    """A torch fit, then searches from several threads: no crash, no warning, BLAS as before."""
    code = """
import warnings; warnings.simplefilter("error")
from concurrent.futures import ThreadPoolExecutor
import numpy as np
from threadpoolctl import threadpool_info
from ccml import CCML, CCKNNClassifier
rng = np.random.default_rng(0)
y = rng.integers(4, size=2000)
X = rng.normal(size=(2000, 20)) + 3 * rng.normal(size=(4, 20))[y]
warnings.simplefilter("ignore")
Z = CCML(5, max_epochs=2, random_state=0).fit(X, y).transform(X)
warnings.simplefilter("error")
before = sorted((pool["filepath"], pool["num_threads"]) for pool in threadpool_info())
model = CCKNNClassifier(3).fit(Z, y)
with ThreadPoolExecutor(4) as pool:
    found = list(pool.map(lambda i: (model.predict(Z) == y).mean(), range(8)))
assert min(found) == max(found) > 0.9
after = sorted((pool["filepath"], pool["num_threads"]) for pool in threadpool_info())
assert set(before) <= set(after), (before, after)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("setting", "expected"),
    [({}, "numba"), ({"CCML_NUMBA": "0"}, "numpy"), ({"NUMBA_DISABLE_JIT": "1"}, "numpy")],
)
def test_the_switch(setting, expected, monkeypatch):
    for name, value in setting.items():
        monkeypatch.setenv(name, value)
    code = "from ccml import neighbors; print(neighbors.backend())"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == expected


def test_numpy_steps_in_where_numba_cannot_write_its_cache(monkeypatch, tmp_path):
    """No folder to write to: numba refuses to compile, and the answers are the same."""
    import numba.core.caching

    monkeypatch.setattr(numba.core.caching.CacheImpl, "_locator_classes", [])
    from ccml.neighbors import _backend

    for name in ("_kernels", "_products", "_compiled"):
        monkeypatch.delitem(sys.modules, f"ccml.neighbors.{name}")
        monkeypatch.delattr(f"ccml.neighbors.{name}")
    _backend._import_compiled.cache_clear()
    try:
        assert backend() == "numpy"
        assert ClassIndex([[0.0], [1.0]], [0, 1]).predict([[0.9]], 1).tolist() == [1]
    finally:
        _backend._import_compiled.cache_clear()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda i: i.search([[0.0, 1.0]], 1), "needs rows of 1 features"),
        (lambda i: i.search([0.0], 1), "needs rows of 1 features"),
        (lambda i: i.search([[0.0]], 0), "k=0"),
        (lambda i: i.search([[0.0]], 1.5), "k=1.5"),
        (lambda i: i.search([[np.nan]], 1), "NaN, infinity or"),
        (lambda i: i.search([[0.0]], 1, exclude_self=True), "the gallery's own 2 rows"),
        (lambda i: i.predict([[0.0, 1.0]], 1), "needs rows of 1 features"),
        (lambda i: i.predict([[0.0]], 0), "k=0"),
        (lambda i: i.predict([[np.nan]], 1), "NaN, infinity or"),
        (lambda i: i.nearest([[0.0]], -1), "k=-1"),
        (lambda i: i.add([[0.0, 1.0]], [0]), "needs rows of 1 features"),
        (lambda i: i.add([[0.0]], [0, 1]), "as many labels"),
        (lambda i: i.add([[0.0]], ["a"]), "Use one type of label"),
        (lambda i: i.search([[1e200]], 1), "too large to square"),
        (lambda i: i.add([[np.inf]], [0]), "NaN, infinity or"),
        (lambda i: i.remove([2]), "from 0 to 1"),
        (lambda i: i.remove([-1]), "from 0 to 1"),
        (lambda i: i.remove([0.5]), "needs indices"),
        (lambda i: i.remove([True, False]), "needs indices"),
        (lambda i: i.remove([0, 1]), "can't take the last rows"),
        (lambda i: ClassIndex(np.empty((0, 2)), []), "at least one row"),
        (lambda i: ClassIndex([1.0, 2.0], [0, 1]), "at least one row"),
        (lambda i: ClassIndex([[np.nan]], [0]), "NaN, infinity or"),
        (lambda i: ClassIndex([[1.0]], [0, 1]), "as many labels"),
        (lambda i: ClassIndex([[1.0]], [np.nan]), "missing label"),
        (lambda i: i.add([[1.0]], [np.nan]), "missing label"),
        (lambda i: ClassIndex(np.empty((2, 0)), [0, 1]), "at least one row of features"),
    ],
)
def test_bad_input(call, message):
    index = ClassIndex([[0.0], [1.0]], [0, 1])
    with pytest.raises(ValueError, match=message):
        call(index)
    assert index.nearest([[0.9]], 1).indices.item() == 1  # it is as it was


def test_equal_means_go_to_the_first_class(way):
    """A rounded mean of ten equal distances can be below each of them."""
    rng = np.random.default_rng(7)
    for _ in range(10):
        p, query = rng.normal(size=(2, 3))
        X = np.concatenate([[p] * 10, rng.normal(size=(30, 3)) + 50, [p] * 10])
        index = ClassIndex(X, np.repeat([0, 1], [40, 10]))
        assert index.predict([query], 10).tolist() == [0]


def test_far_rows_and_farther_queries(way):
    rng = np.random.default_rng(8)
    X, y = rng.uniform(-0.7, 0.7, (68, 2)), np.arange(68) // 4
    index = ClassIndex(X, y)
    index.add([[0.8e6, 0], [0, 0.9e6]], [99, 99])
    found = index.search(np.tile([[5e9, 2e9]], (64, 1)), 1)
    assert (found.indices[:, -1, 0] == 68).all()


def test_labels_are_a_copy():
    y = np.array([0, 1])
    index = ClassIndex([[0.0], [1.0]], y)
    y[:] = 7
    assert index.labels.tolist() == [0, 1]
