"""Methods applied to the blocks of dask collections."""

import subprocess
import sys
import warnings

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from ccml import CCML, ITML, ConvNetClassifier
from ccml.embeddings import Conv
from ccml.preprocessing import Flatten, LocalContrastNormalization


def short_fit(model, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y)


@pytest.fixture(scope="module")
def images():
    digits = load_digits()
    return digits.images[:120], digits.target[:120]


@pytest.mark.parametrize(
    ("model", "methods"),
    [
        (CCML(embedding=Conv(1), max_epochs=1, random_state=0), ["transform"]),
        (ConvNetClassifier(layers=1, max_epochs=1), ["transform", "predict", "predict_proba"]),
        (LocalContrastNormalization(), ["transform"]),
        (Flatten(), ["transform"]),
    ],
    ids=lambda part: type(part).__name__,
)
@pytest.mark.parametrize("dtype", [np.float64, np.uint8])
def test_images(images, model, methods, dtype):
    """Cut in any direction: an image is put together before it is mapped."""
    X, y = images[0].astype(dtype), images[1]
    short_fit(model, X, y)
    blocks = da.from_array(X, ((50, 0, 70), 3, 8))
    for name in methods:
        expected, lazy = getattr(model, name)(X), getattr(model, name)(blocks)
        assert lazy.chunks[0] == (50, 0, 70)
        assert lazy.shape == expected.shape
        assert lazy.dtype == expected.dtype == lazy.compute().dtype
        np.testing.assert_allclose(lazy.compute(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_the_type_is_that_in_memory(dtype):
    rng = np.random.default_rng(0)
    X, y = (10 * rng.normal(size=(60, 4))).astype(dtype), np.arange(60) % 3
    metric = short_fit(CCML(2, max_epochs=2, random_state=0), X, y)
    expected = metric.transform(X)
    frame = pd.DataFrame(X, columns=list("abcd"))
    lazy = [metric.transform(da.from_array(X, (25, 3)))]
    with pytest.warns(UserWarning, match="but CCML was fitted without feature names"):
        lazy.append(metric.transform(dd.from_pandas(frame, npartitions=3)))
    for each in lazy:
        assert each.dtype == expected.dtype
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            np.testing.assert_allclose(each.compute(), expected, rtol=1e-6)


@pytest.mark.parametrize("learner", [CCML(), ITML()])
def test_a_learner_does_not_load_what_may_be_too_much(learner):
    with pytest.raises(TypeError, match=r"rows in memory; got a dask.*X.compute\(\)"):
        learner.fit(da.zeros((4, 2)), [0, 0, 1, 1])


def test_columns_that_nobody_counted_are_refused():
    X = da.ones((6, 3))
    metric = short_fit(
        CCML(1, max_epochs=1), np.random.default_rng(0).normal(size=(20, 3)), [0, 1] * 10
    )
    with pytest.raises(ValueError, match=r"columns aren't counted.*compute_chunk_sizes"):
        metric.transform(X[:, X[0] > 0])


def test_dask_is_not_imported_for_rows_in_memory():
    code = (
        "import sys\n"
        "from ccml import CCKNNClassifier\n"
        "CCKNNClassifier(1).fit([[0.0], [1.0]], [0, 1]).predict([[2.0]])\n"
        "print('dask' in sys.modules)"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "False"
    )
