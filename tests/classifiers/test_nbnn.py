"""NBNN and local NBNN against loops from their papers."""

from math import exp, log

import numpy as np
import pytest
from sklearn.datasets import load_digits

from ccml import CCKNNClassifier, NBNNClassifier


@pytest.fixture
def items():
    """Twelve items of three classes with two to five descriptors of four columns."""
    rng = np.random.default_rng(0)
    y = np.array(["b", "a", "c"] * 4)
    X = [rng.normal(size=(n, 4)) for n in rng.integers(2, 6, size=12)]
    return X, y


@pytest.fixture
def queries():
    rng = np.random.default_rng(1)
    return [rng.normal(size=(n, 4)) for n in (1, 3, 6, 2)]


def descriptors_by_class(X, y):
    return {c: [d for item, label in zip(X, y, strict=True) if label == c for d in item] for c in y}


def squared(a, b):
    return float(((a - b) ** 2).sum())


def log_likelihoods(item, by_class, k, bandwidth):
    """Eq. `knnkernel` with a Gaussian kernel; for k = 1 without the constant, as the paper has."""
    result = {}
    for c, members in by_class.items():
        total = 0.0
        for d in item:
            nearest = sorted(squared(d, m) for m in members)[:k]
            kernel = [exp(-distance / (2 * bandwidth**2)) for distance in nearest]
            total += log(kernel[0]) if k == 1 else log(sum(kernel) / len(members))
        result[c] = total
    return result


def local_totals(item, X, y, k):
    """Algorithm 2 of McCann and Lowe: lower is better."""
    gallery = [(d, label) for members, label in zip(X, y, strict=True) for d in members]
    totals = dict.fromkeys(y, 0.0)
    for d in item:
        found = sorted((squared(d, m), label) for m, label in gallery)[: k + 1]
        background = found[-1][0]
        for c in {label for _, label in found[:k]}:
            nearest = min(distance for distance, label in found[:k] if label == c)
            totals[c] += nearest - background
    return totals


@pytest.mark.parametrize("k", [1, 2, 5, 100])
def test_equals_the_loop(items, queries, k):
    X, y = items
    model = NBNNClassifier(k, bandwidth=0.8).fit(X, y)
    expected = [log_likelihoods(item, descriptors_by_class(X, y), k, 0.8) for item in queries]
    scores = model.decision_function(queries)
    np.testing.assert_allclose(scores, [[e[c] for c in "abc"] for e in expected], rtol=1e-10)
    assert model.predict(queries).tolist() == [max(e, key=e.get) for e in expected]


@pytest.mark.parametrize("k", [1, 3, 10])
def test_local_equals_the_algorithm(items, queries, k):
    X, y = items
    model = NBNNClassifier(k, variant="local", bandwidth=2**-0.5).fit(X, y)
    expected = [local_totals(item, X, y, k) for item in queries]
    scores = -model.decision_function(queries)
    np.testing.assert_allclose(scores, [[e[c] for c in "abc"] for e in expected], rtol=1e-10)
    assert model.predict(queries).tolist() == [min(e, key=e.get) for e in expected]


def test_one_descriptor_and_k_1_is_ccknn():
    X, y = load_digits(return_X_y=True)
    nbnn, ccknn = NBNNClassifier().fit(X[:900], y[:900]), CCKNNClassifier(1).fit(X[:900], y[:900])
    np.testing.assert_array_equal(nbnn.predict(X[900:]), ccknn.predict(X[900:]))
    np.testing.assert_array_equal(nbnn.predict(X[900:, None]), ccknn.predict(X[900:]))


@pytest.mark.parametrize("variant", ["full", "local"])
def test_lists_and_arrays_are_the_same(variant):
    X = np.random.default_rng(0).normal(size=(10, 3, 4))
    y = np.arange(10) % 2
    model = NBNNClassifier(variant=variant).fit(X, y)
    ragged = np.empty(10, dtype=object)
    ragged[:] = list(X)
    for same in (list(X), tuple(X), X.tolist(), ragged):
        expected = model.predict_proba(X)
        np.testing.assert_array_equal(
            NBNNClassifier(variant=variant).fit(same, y).predict_proba(same), expected
        )


def test_positions_count_by_alpha(items, queries):
    X, y = items
    weigh, move = np.array([1, 1, 0.5, 0.5]), np.array([0, 0, 9, 9])
    scaled = NBNNClassifier().fit([item * weigh for item in X], y)
    expected = scaled.predict_proba([item * weigh for item in queries])
    ours = NBNNClassifier(alpha=0.5).fit(X, y).predict_proba(queries)
    np.testing.assert_allclose(ours, expected)
    without = NBNNClassifier(alpha=0).fit(X, y).predict(queries)
    moved = [item + move for item in queries]
    np.testing.assert_array_equal(NBNNClassifier(alpha=0).fit(X, y).predict(moved), without)


@pytest.mark.parametrize("variant", ["full", "local"])
def test_new_items_and_classes(items, queries, variant):
    X, y = items
    together = NBNNClassifier(variant=variant, bandwidth=1).fit(X, y)
    step_by_step = NBNNClassifier(variant=variant, bandwidth=1).partial_fit(X[:1], y[:1])
    step_by_step.partial_fit(X[1:], y[1:])
    np.testing.assert_allclose(step_by_step.predict_proba(queries), together.predict_proba(queries))
    assert step_by_step.partial_fit([queries[0]], ["new"]).predict([queries[0]]) == ["new"]


def test_bandwidth_is_the_typical_distance_within_a_class():
    X = np.array([[0.0], [3.0], [100.0], [104.0]])
    assert NBNNClassifier().fit(X, [0, 0, 1, 1]).bandwidth_ == pytest.approx(np.sqrt(12.5))
    assert NBNNClassifier().fit(X, [0, 1, 2, 3]).bandwidth_ == 1  # no class has a distance
    assert NBNNClassifier(bandwidth=7).fit(X, [0, 0, 1, 1]).bandwidth_ == 7


def test_an_item_may_have_as_many_descriptors_as_the_gallery_has(items):
    X, y = items
    model = NBNNClassifier(50, variant="local").fit(X[:2], y[:2])
    assert np.isfinite(model.predict_proba([np.concatenate(X)])).all()


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([np.ones((2, 3)), np.ones((0, 3))], r"one descriptor.*item 1 is of shape \(0, 3\)"),
        ([np.ones((2, 3)), np.ones((2, 4))], r"as many features .* item 1 is of shape \(2, 4\)"),
        ([np.ones((2, 3)), np.ones(3)], r"item 1 is of shape \(3,\)"),
        ([np.ones((2, 3)), np.full((2, 3), np.nan)], "NaN"),
        (np.ones((2, 2, 2, 2)), "dim 4"),
        ([np.ones((2, 3))], "inconsistent numbers of samples"),
    ],
)  # fmt: skip
def test_bad_items(X, message):
    with pytest.raises(ValueError, match=message):
        NBNNClassifier().fit(X, [0, 1])


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (NBNNClassifier(0), "n_neighbors=0"),
        (NBNNClassifier(variant="lokal"), "did you mean 'local'"),
        (NBNNClassifier(alpha=-1), "alpha=-1.*at least 0"),
        (NBNNClassifier(alpha="x"), "alpha='x'"),
        (NBNNClassifier(bandwidth=0), "bandwidth=0.*above 0"),
    ],
)
def test_bad_parameters(items, model, message):
    with pytest.raises(ValueError, match=message):
        model.fit(*items)


def test_positions_need_columns():
    with pytest.raises(ValueError, match=r"last 2 columns .* only 2 columns"):
        NBNNClassifier(alpha=1.0).fit(np.ones((4, 3, 2)), [0, 0, 1, 1])


def test_queries_are_checked(items):
    model = NBNNClassifier().fit(*items)
    with pytest.raises(ValueError, match="X has 3 features, but NBNNClassifier is expecting 4"):
        model.predict([np.ones((2, 3))])
    with pytest.raises(ValueError, match="one type of label"):
        model.partial_fit([np.ones((2, 4))], [1])
    with pytest.raises(ValueError, match=r"table of shape \(3, 4\). Wrap a single item in a list"):
        model.predict(np.ones((3, 4)))
