"""One table of estimators, run through every property that all of them promise."""

import pickle
import warnings

import dask.array as da
import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone, is_classifier
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

import ccml
from ccml import (
    CCML,
    ITML,
    KNCA,
    LMNN,
    NCA,
    NCMC,
    CCKNNClassifier,
    DrLIM,
    NBNNClassifier,
    NearestMeanClassifier,
)
from ccml.embeddings import MLP

LEARNERS = [
    CCML(random_state=0),
    CCML(embedding=MLP((16,)), random_state=0),
    NCA(random_state=0),
    KNCA(n_neighbors=3, random_state=0),
    LMNN(n_neighbors=3, random_state=0),
    NCMC(random_state=0),
    NCMC(n_centroids=3, random_state=0),
    DrLIM(random_state=0),
    ITML(random_state=0),
]
CLASSIFIERS = [
    CCKNNClassifier(),
    CCKNNClassifier(rule="gaussian"),
    NearestMeanClassifier(),
    NearestMeanClassifier(3, random_state=0),
    NBNNClassifier(),
    NBNNClassifier(3),
    NBNNClassifier(variant="local"),
]
ESTIMATORS = [*LEARNERS, *CLASSIFIERS]


def expected_failures(estimator):
    """What docs/scikit-learn.md explains."""
    check = "check_sample_weight_equivalence_on_dense_data"
    if not is_classifier(estimator):
        return {check: "a repeated row is its own nearest neighbour; a row of weight 2 isn't"}
    if getattr(estimator, "n_centroids", 1) > 1:
        return {check: "k-means starts from random rows"}
    return {}


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failures)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.fixture
def blobs():
    X, y = make_blobs([20, 20, 20, 3], 4, cluster_std=2.0, random_state=0)
    return X, y


def fitted(estimator, X, y):
    """A fit whose convergence isn't the question."""
    estimator = clone(estimator)
    if isinstance(estimator, tuple(type(learner) for learner in LEARNERS)):
        estimator.set_params(max_epochs=3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return estimator.fit(X, y)
    return estimator.fit(X, y)


def output(estimator, X):
    """What it says of X: an embedding, or probabilities."""
    return estimator.predict_proba(X) if is_classifier(estimator) else estimator.transform(X)


every_estimator = pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)


@every_estimator
@pytest.mark.parametrize(
    "labels",
    [
        lambda y: y.astype(str),
        lambda y: np.array(["a", "b", "c", "dd"], dtype=object)[y],
        lambda y: y.astype(object),
        lambda y: y * 10 - 5,
        lambda y: y.astype(float),
        lambda y: y.astype(np.uint8),
        lambda y: pd.Series(y),
        lambda y: pd.Categorical(y.astype(str)),
        lambda y: list(y),
    ],
    ids=[
        "str",
        "object",
        "objects that are integers",
        "integers",
        "floats",
        "uint8",
        "series",
        "categorical",
        "list",
    ],
)
def test_any_labels(estimator, labels, blobs):
    X, y = blobs
    expected = output(fitted(estimator, X, y), X)
    np.testing.assert_array_equal(output(fitted(estimator, X, labels(y)), X), expected)


@every_estimator
def test_boolean_labels(estimator, blobs):
    X, y = blobs
    np.testing.assert_array_equal(
        output(fitted(estimator, X, y > 1), X),
        output(fitted(estimator, X, (y > 1).astype(int)), X),
    )


@every_estimator
@pytest.mark.parametrize(
    "convert",
    [
        np.asfortranarray,
        lambda X: X.tolist(),
        lambda X: pd.DataFrame(X, columns=list("abcd")),
        lambda X: pl.DataFrame(X, schema=list("abcd")),
    ],
    ids=["fortran", "list", "pandas", "polars"],
)
def test_any_container(estimator, convert, blobs):
    X, y = blobs
    model = fitted(estimator, convert(X), y)
    np.testing.assert_allclose(
        output(model, convert(X)), output(fitted(estimator, X, y), X), rtol=1e-6
    )


@every_estimator
def test_read_only_arrays_are_left_alone(estimator, blobs):
    X, y = blobs
    before = X.copy()
    X.setflags(write=False)
    y.setflags(write=False)
    output(fitted(estimator, X, y), X)
    np.testing.assert_array_equal(X, before)


@every_estimator
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int32, np.uint8])
def test_any_number_type(estimator, dtype, blobs):
    X, y = blobs
    X = np.round(X - X.min()).astype(dtype)
    np.testing.assert_allclose(
        output(fitted(estimator, X, y), X),
        output(fitted(estimator, X.astype(np.float64), y), X.astype(np.float64)),
        rtol=1e-3, atol=1e-4,
    )  # fmt: skip


@every_estimator
def test_constant_columns_and_duplicate_rows(estimator, blobs):
    X, y = blobs
    X = np.column_stack([X, np.ones(len(X)), np.zeros(len(X))])
    X, y = np.repeat(X, 3, axis=0), np.repeat(y, 3)
    assert np.isfinite(output(fitted(estimator, X, y), X)).all()


@every_estimator
@pytest.mark.parametrize("n_columns", [3, 2001])
def test_rows_that_are_all_the_same(estimator, n_columns):
    X, y = np.ones((12, n_columns)), np.arange(12) % 2
    assert np.isfinite(output(fitted(estimator, X, y), X)).all()


@every_estimator
def test_a_class_smaller_than_k(estimator, blobs):
    X, y = blobs
    X, y = np.vstack([X, [[50.0] * 4]]), np.append(y, 9)  # a class of one, far away
    assert np.isfinite(output(fitted(estimator, X, y), X)).all()


@every_estimator
def test_same_predictions_for_1000_x(estimator, blobs):
    X, y = blobs
    ours = [fitted(estimator, X * scale, y) for scale in (1, 1000)]
    if is_classifier(estimator):
        predictions = [model.predict(X * s) for model, s in zip(ours, (1, 1000), strict=True)]
    else:
        predictions = [
            CCKNNClassifier(3).fit(model.transform(X * s), y).predict(model.transform(X * s))
            for model, s in zip(ours, (1, 1000), strict=True)
        ]
    np.testing.assert_array_equal(*predictions)


@every_estimator
@pytest.mark.parametrize("copy", [clone, lambda e: pickle.loads(pickle.dumps(e))])
def test_copies_give_the_same(estimator, copy, blobs):
    X, y = blobs
    np.testing.assert_array_equal(
        output(fitted(copy(estimator), X, y), X), output(fitted(estimator, X, y), X)
    )


@every_estimator
def test_fitted_ones_survive_joblib(estimator, blobs, tmp_path):
    X, y = blobs
    model = fitted(estimator, X, y)
    joblib.dump(model, tmp_path / "model")
    np.testing.assert_array_equal(output(joblib.load(tmp_path / "model"), X), output(model, X))


@every_estimator
def test_fitted_ones_can_be_saved_and_loaded(estimator, blobs, tmp_path):
    X, y = blobs
    model = fitted(estimator, X, np.array(["a", "b", "c", "d"])[y])
    ccml.save(model, tmp_path / "model.ccml")
    again = ccml.load(tmp_path / "model.ccml")
    assert repr(again) == repr(model)
    np.testing.assert_array_equal(output(again, X), output(model, X))


BAD_DATA = {
    "NaN": (lambda X, y: (np.where(X > 9, np.nan, X), y), "NaN"),
    "infinity": (lambda X, y: (np.where(X > 9, np.inf, X), y), "infinity"),
    "one class": (lambda X, y: (X, np.zeros(len(X))), "1 class"),
    "y too short": (lambda X, y: (X, y[:-1]), "inconsistent numbers of samples"),
    "NaN in y": (lambda X, y: (X, np.where(y == 1, np.nan, y)), "NaN"),
    "continuous y": (lambda X, y: (X, y + 0.5 * X[:, 0]), "continuous"),
    "no rows": (lambda X, y: (X[:0], y[:0]), "0 sample"),
    "no columns": (lambda X, y: (X[:, :0], y), "0 feature"),
    "text": (lambda X, y: (np.full(X.shape, "red"), y), "could not convert|dtype|numeric"),
    "one dimension": (lambda X, y: (X[:, 0], y), "Expected 2D array"),
}


@every_estimator
@pytest.mark.parametrize("case", BAD_DATA)
def test_bad_data_is_refused(estimator, case, blobs):
    make, message = BAD_DATA[case]
    with pytest.raises(ValueError, match=message):
        clone(estimator).fit(*make(*blobs))


@every_estimator
def test_sparse_data_has_to_be_made_dense(estimator, blobs):
    X, y = blobs
    with pytest.raises(TypeError, match="dense"):
        clone(estimator).fit(sparse.csr_array(X), y)


@every_estimator
def test_prediction_checks_its_rows(estimator, blobs):
    X, y = blobs
    with pytest.raises(NotFittedError):
        output(clone(estimator), X)
    model = fitted(estimator, X, y)
    with pytest.raises(ValueError, match=r"X has 1 features, but .* is expecting 4"):
        output(model, X[:, :1])
    with pytest.raises(ValueError, match="NaN"):
        output(model, np.full((1, 4), np.nan))


@every_estimator
def test_dask_rows_give_the_same(estimator, blobs):
    """tests/test_dask.py and tests/classifiers/test_dask.py have the rest."""
    X, y = blobs
    model = fitted(estimator, X, y)
    lazy = output(model, da.from_array(X, ((20, 0, len(X) - 20), (1, X.shape[1] - 1))))
    expected = output(model, X)
    assert isinstance(lazy, da.Array)
    assert lazy.shape == expected.shape
    assert lazy.dtype == expected.dtype
    np.testing.assert_allclose(
        lazy.compute(scheduler="synchronous"), expected, rtol=1e-5, atol=1e-9
    )
