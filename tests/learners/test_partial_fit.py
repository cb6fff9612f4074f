"""Learning from a stream: late classes, bounded memory, replay."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from ccml import CCML
from ccml.embeddings import MLP, Conv
from ccml.evaluation import ccknn_error
from ccml.learners import _partial_fit


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order], y[order]
    return X[:1200], y[:1200], X[1200:], y[1200:]


FORMS = {"linear": "linear", "mlp": MLP((64,)), "conv": Conv(1, image_shape=(8, 8))}


def streamed(model, X, y, size=100, **options):
    for begin in range(0, len(X), size):
        model.partial_fit(X[begin : begin + size], y[begin : begin + size], **options)
    return model


def error_of(model, X, y, X_test, y_test):
    return ccknn_error(model.transform(X), y, model.transform(X_test), y_test)


@pytest.mark.parametrize("embedding", FORMS.values(), ids=FORMS)
def test_one_pass_learns(embedding, digits):
    X, y = digits[:2]
    model = CCML(16, embedding=embedding, batch_size=20, random_state=0)
    early = error_of(clone(model).partial_fit(X[:100], y[:100]), *digits)
    late = error_of(streamed(model, X, y), *digits)
    assert late < min(early, 0.1)


@pytest.mark.parametrize("embedding", FORMS.values(), ids=FORMS)
def test_classes_that_appear_late_and_in_turns(embedding, digits):
    """The digits come sorted: every chunk after the first has one or two classes."""
    X, y = digits[:2]
    order = np.concatenate([np.arange(60), 60 + np.argsort(y[60:], kind="stable")])
    first = np.flatnonzero(np.isin(y, [0, 1]))[:40]
    rest = np.setdiff1d(order, first, assume_unique=True)
    model = CCML(16, embedding=embedding, batch_size=20, random_state=0)
    model.partial_fit(X[first], y[first])
    assert set(model.stream_["labels"]) == {0, 1}
    streamed(model, X[rest], y[rest])
    assert set(model.stream_["labels"]) == set(range(10))
    assert error_of(model, *digits) < 0.15


@pytest.mark.parametrize("embedding", FORMS.values(), ids=FORMS)
def test_a_pickle_goes_on_like_the_original(embedding, digits):
    X, y = digits[:2]
    model = streamed(CCML(8, embedding=embedding, random_state=0), X[:300], y[:300])
    copy = pickle.loads(pickle.dumps(model))
    results = [streamed(m, X[300:600], y[300:600]).transform(X) for m in (model, copy)]
    assert results[0].tobytes() == results[1].tobytes()
    whole = streamed(CCML(8, embedding=embedding, random_state=0), X[:600], y[:600])
    assert whole.transform(X).tobytes() == results[0].tobytes()


def test_memory_is_bounded_and_fair(digits, monkeypatch):
    X, y = digits[:2]
    monkeypatch.setattr(_partial_fit, "_MEMORY_ROWS", 200)
    common = np.flatnonzero(y < 2)
    model = CCML(8, random_state=0).partial_fit(X[:100], y[:100])
    streamed(model, X[common], y[common], size=50)
    labels = model.stream_["labels"][model.stream_["y"]]
    assert len(labels) == 200
    counts = np.bincount(labels, minlength=10)
    np.testing.assert_array_equal(counts[2:], np.bincount(y[:100], minlength=10)[2:])
    assert abs(counts[0] - counts[1]) <= 1
    newest = common[y[common] == 0][-counts[0] :]
    scale, centre = model.stream_["scale"], model.stream_["centre"]
    np.testing.assert_allclose(
        model.stream_["X"][labels == 0], (X[newest] - centre) * scale, rtol=1e-5, atol=1e-5
    )


def test_it_goes_on_from_a_fit_and_a_fit_begins_anew(digits):
    X, y = digits[:2]
    model = CCML(8, max_epochs=30, random_state=0).fit(X[:900], y[:900])
    fitted = error_of(model, *digits)
    fresh = model.components_
    streamed(model, X[900:], y[900:])
    assert not np.array_equal(model.components_, fresh)
    assert error_of(model, *digits) < fitted + 0.02
    model.fit(X[:900], y[:900])
    assert not hasattr(model, "stream_")
    np.testing.assert_array_equal(model.components_, fresh)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_it_goes_on_from_a_fitted_module(digits):
    X, y = digits[:2]
    model = CCML(8, embedding=MLP((32,)), max_epochs=20, random_state=0).fit(X[:900], y[:900])
    fitted = error_of(model, *digits)
    assert error_of(streamed(model, X[900:], y[900:]), *digits) < fitted + 0.02


def test_labels_of_any_type(digits):
    X, y = digits[:2]
    names = np.array(["null", "eins", "zwei", "drei", "vier"] + [f"n{i}" for i in range(5)])
    by_name = streamed(CCML(8, random_state=0), X, names[y])
    by_number = streamed(CCML(8, random_state=0), X, y)
    np.testing.assert_allclose(by_name.components_, by_number.components_, rtol=1e-2, atol=1e-3)


class TestGivenClasses:
    def test_they_may_appear_later(self, digits):
        X, y = digits[:2]
        first = np.flatnonzero(y < 3)[:50]
        model = CCML(8, random_state=0).partial_fit(X[first], y[first], classes=range(10))
        streamed(model, X[:300], y[:300], classes=range(10))
        streamed(model, X[300:400], y[300:400])
        assert sorted(model.stream_["labels"]) == list(range(10))
        assert set(model.stream_["labels"][model.stream_["y"]]) == set(y[:400])

    def test_others_are_refused_and_nothing_changes(self, digits):
        X, y = digits[:2]
        few = np.flatnonzero(y < 9)[:200]
        model = CCML(8, random_state=0).partial_fit(X[few], y[few], classes=range(9))
        before = model.components_.copy()
        with pytest.raises(ValueError, match=r"labels \[9\] that aren't among the given classes"):
            model.partial_fit(X, y)
        with pytest.raises(ValueError, match="they can't become"):
            model.partial_fit(X, y, classes=range(10))
        opened = CCML(8, random_state=0).partial_fit(X[:200], y[:200])
        with pytest.raises(ValueError, match="they can't become"):
            opened.partial_fit(X[few], y[few], classes=range(9))
        np.testing.assert_array_equal(model.components_, before)


@pytest.mark.parametrize(
    ("chunk", "message"),
    [
        (lambda X, y: (X, np.zeros(len(y))), "at least 2 classes"),
        (lambda X, y: (X[:2], np.arange(2)), "a class with at least 2 samples"),
        (lambda X, y: (X * np.nan, y), "NaN"),
        (lambda X, y: (X, y[:-1]), "inconsistent numbers of samples"),
        (lambda X, y: (X, y + 0.5), "continuous"),
    ],
)
def test_a_bad_first_chunk(chunk, message, digits):
    with pytest.raises(ValueError, match=message):
        CCML().partial_fit(*chunk(*digits[:2]))


def test_later_chunks(digits):
    X, y = digits[:2]
    model = CCML(8, random_state=0).partial_fit(X[:200], y[:200])
    model.partial_fit(X[200:201], y[200:201])  # one row
    with pytest.raises(ValueError, match="63 features"):
        model.partial_fit(X[:, 1:], y)
    with pytest.raises(ValueError, match="one type of label"):
        model.partial_fit(X, y.astype(str))


def test_what_may_not_change_in_a_stream(digits):
    X, y = digits[:2]
    model = CCML(8, random_state=0).partial_fit(X[:200], y[:200])
    for change in ({"n_components": 9}, {"embedding": MLP()}):
        with pytest.raises(ValueError, match="in the middle of a stream"):
            clone_with_state(model).set_params(**change).partial_fit(X, y)
    images = X.reshape(-1, 8, 8)
    model = CCML(8, embedding=Conv(1), random_state=0).partial_fit(images[:200], y[:200])
    with pytest.raises(ValueError, match=r"fitted on inputs of shape \(8, 8\)"):
        model.partial_fit(images[:, :, 1:], y)
    with pytest.raises(ValueError, match=r"fitted on inputs of shape \(8, 8\)"):
        model.partial_fit(X, y)


def clone_with_state(model):
    return pickle.loads(pickle.dumps(model))


def test_divergence_goes_back(digits):
    X, y = digits[:2]
    model = CCML(8, random_state=0).partial_fit(X[:200], y[:200])
    before = model.components_.copy()
    model.set_params(learning_rate=1e38)
    with pytest.warns(ConvergenceWarning, match="lower learning_rate=1e"):
        model.partial_fit(X[:200], y[:200])
    assert np.isfinite(model.components_).all()
    np.testing.assert_array_equal(model.components_, before)
