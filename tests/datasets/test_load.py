import dataclasses
import os
import subprocess
import sys

import numpy as np
import pytest
import sklearn.datasets

from ccml.datasets import load


@pytest.fixture
def wine():
    return load("wine")


@pytest.fixture
def digits():
    return load("digits")


@pytest.fixture(params=["wine", "digits", "isolet", "mnist"])
def data(request):
    return request.getfixturevalue(request.param)


def test_splits_are_every_row_once(data):
    rows = np.concatenate([data.train, data.validation, data.test])
    np.testing.assert_array_equal(np.sort(rows), np.arange(len(data.X)))


def test_labels_and_names_fit_the_rows(data):
    n_samples, n_features = data.X.shape
    assert data.y.shape == (n_samples,)
    assert data.y.dtype == np.int64
    assert np.unique(data.y).tolist() == list(range(len(data.class_names)))
    assert len(set(data.class_names)) == len(data.class_names)
    assert len(set(data.feature_names)) == n_features
    if data.image_shape is not None:
        assert np.prod(data.image_shape) == n_features


@pytest.mark.parametrize("data", ["wine", "digits", "isolet"], indirect=True)
def test_every_split_has_every_class_in_proportion(data):
    shares = np.bincount(data.y) / len(data.y)
    for rows in (data.train, data.validation, data.test):
        counts = np.bincount(data.y[rows], minlength=len(shares))
        np.testing.assert_allclose(counts, shares * len(rows), atol=2)


def test_subset_is_the_rows_of_its_splits(data):
    X, y = data.subset("validation", "test")
    rows = np.concatenate([data.validation, data.test])
    np.testing.assert_array_equal(X, data.X[rows], strict=True)
    np.testing.assert_array_equal(y, data.y[rows], strict=True)


@pytest.mark.parametrize("name", ["wine", "digits"])
def test_bundled_sets_are_those_of_scikit_learn(name):
    data = load(name)
    bundled = getattr(sklearn.datasets, f"load_{name}")()
    np.testing.assert_array_equal(data.X, bundled.data, strict=True)
    np.testing.assert_array_equal(data.y, bundled.target)
    assert not data.official_split


def test_wine(wine):
    assert wine.X.shape == (178, 13)
    assert np.bincount(wine.y).tolist() == [59, 71, 48]
    assert (len(wine.train), len(wine.validation), len(wine.test)) == (100, 25, 53)
    assert wine.class_names == ("class_0", "class_1", "class_2")
    assert wine.feature_names[0] == "alcohol"
    assert wine.image_shape is None
    assert wine.train[:5].tolist() == [15, 14, 50, 163, 120]  # the split never changes
    assert wine.test[:5].tolist() == [54, 151, 63, 55, 123]


def test_digits(digits):
    assert digits.X.shape == (1_797, 64)
    assert (digits.X.min(), digits.X.max()) == (0, 16)
    assert digits.class_names == tuple("0123456789")
    assert digits.image_shape == (8, 8)
    assert digits.feature_names[9] == "pixel_1_1"
    assert digits.test[:5].tolist() == [1081, 1707, 927, 713, 262]


def test_loading_twice_gives_arrays_of_their_own():
    first, second = load("wine"), load("wine")
    np.testing.assert_array_equal(first.train, second.train)
    first.X[0] = 0
    assert second.X[0].any()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mnits", "did you mean 'mnist'"),
        ("MNIST", "The options are 'wine', 'digits', 'isolet', 'mnist'"),
        (None, "The options are"),
    ],
)
def test_an_unknown_name_is_refused(name, message):
    with pytest.raises(ValueError, match=message):
        load(name)


def test_examples_are_of_their_class_and_others(data):
    rows = data.examples(5)
    assert (data.y[rows] == np.arange(len(data.class_names))[:, None]).all()
    assert len(np.unique(rows)) == rows.size


def test_more_examples_than_rows_are_refused(wine):
    with pytest.raises(ValueError, match="class of 48 rows; 49 examples are too many"):
        wine.examples(49)


def test_wrong_splits_are_refused(wine):
    with pytest.raises(ValueError, match=r"split='trian'.* did you mean 'train'"):
        wine.subset("trian")
    with pytest.raises(ValueError, match="one or more splits"):
        wine.subset()
    with pytest.raises(ValueError, match="each of them once"):
        wine.subset("train", "test", "train")


def test_a_data_set_cannot_be_reassigned(wine):
    with pytest.raises(dataclasses.FrozenInstanceError):
        wine.X = None


def test_repr_fits_on_a_line(digits):
    assert repr(digits) == (
        "Dataset('digits': 1797 rows of 64 features, 10 classes; "
        "1008 train, 250 validation, 539 test)"
    )


def test_importing_is_light():
    code = (
        "import sys, ccml.datasets; heavy = {'sklearn', 'scipy', 'torch', 'pooch', 'rich'}; "
        "print(*heavy.intersection(sys.modules))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout.split() == []
