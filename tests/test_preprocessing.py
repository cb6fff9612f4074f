import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from ccml import preprocessing
from ccml.preprocessing import Flatten, LocalContrastNormalization, with_shifts


def reflected(i, n):
    """The pixel that is seen at place i of an image that goes on as its reflection."""
    i %= 2 * n
    return i if i < n else 2 * n - 1 - i


def by_loops(image, sigma=1.591):
    """The definition, pixel by pixel."""
    height, width = image.shape
    radius = int(4 * sigma + 0.5)
    places = range(-radius, radius + 1)
    weights = {i: np.exp(-(i**2) / (2 * sigma**2)) for i in places}
    total = sum(weights.values())

    def surroundings(values, i, j):
        return sum(
            weights[a] / total * weights[b] / total
            * values[reflected(i + a, height), reflected(j + b, width)]
            for a in places
            for b in places
        )  # fmt: skip

    pixels = np.ndindex(image.shape)
    if image.std() == 0:
        return np.zeros(image.shape)
    image = (image - image.mean()) / image.std()
    means = np.array([surroundings(image, *pixel) for pixel in np.ndindex(image.shape)])
    image = image - means.reshape(image.shape)
    variances = np.array([surroundings(image**2, *pixel) for pixel in pixels])
    return image / np.maximum(1, np.sqrt(variances.reshape(image.shape)))


@pytest.fixture
def images():
    return np.random.default_rng(0).normal(size=(5, 9, 7)).cumsum(axis=1)


@pytest.mark.parametrize("shape", [(9, 7), (32, 32), (1, 12), (3, 2), (2, 1)])
@pytest.mark.parametrize("sigma", [1.591, 0.4, 5.0])
def test_against_loops(shape, sigma):
    image = np.random.default_rng(1).normal(size=shape).cumsum(axis=0)
    found = LocalContrastNormalization(sigma).fit_transform(image[None])[0]
    np.testing.assert_allclose(found, by_loops(image, sigma), atol=1e-12)


def test_some_pixels_are_divided_and_some_are_not():
    """So that the comparison with the loops covers both."""
    image = np.zeros((32, 32))
    image[10, 10] = 1
    assert np.abs(LocalContrastNormalization().fit_transform(image[None])).max() > 2
    flat = np.random.default_rng(0).normal(size=(32, 32))
    assert np.abs(by_loops(flat)).max() < 4


def test_every_way_to_give_images(images):
    expected = np.stack([by_loops(image) for image in images])
    lcn = LocalContrastNormalization()
    np.testing.assert_allclose(lcn.fit_transform(images), expected, atol=1e-12)
    np.testing.assert_allclose(lcn.fit_transform(images[:, None]), expected[:, None], atol=1e-12)
    stereo = np.stack([images[:-1], images[1:]], axis=1)  # (4, 2, 9, 7)
    both = np.stack([expected[:-1], expected[1:]], axis=1)
    np.testing.assert_allclose(lcn.fit_transform(stereo), both, atol=1e-12)
    flat = LocalContrastNormalization(image_shape=(2, 9, 7))
    rows = flat.fit_transform(stereo.reshape(4, -1))
    np.testing.assert_allclose(rows, both.reshape(4, -1), atol=1e-12)


def test_brightness_and_contrast_do_not_matter(images):
    lcn = LocalContrastNormalization().fit(images)
    factors = np.array([2.0, 1e-3, 50.0, 1.0, 1e6])[:, None, None]
    shifts = np.array([0.0, 3.0, -1e4, 1e3, 5.0])[:, None, None]
    np.testing.assert_allclose(
        lcn.transform(factors * images + shifts), lcn.transform(images), atol=1e-8
    )
    np.testing.assert_allclose(lcn.transform(-images), -lcn.transform(images), atol=1e-12)


@pytest.mark.parametrize("value", [0.0, 0.1, -1e300, 1e-320, 255.0])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (6, 6), (33, 31)])
def test_constant_images_give_zeros(value, dtype, shape):
    if abs(value) > 1e30 and dtype == np.float32:
        value = 1e30
    image = np.full((2, *shape), value, dtype=dtype)
    assert (LocalContrastNormalization().fit_transform(image) == 0).all()


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e160, 1e300])
def test_tiny_and_huge_values(images, scale):
    lcn = LocalContrastNormalization().fit(images)
    np.testing.assert_allclose(lcn.transform(scale * images), lcn.transform(images), atol=1e-8)


def test_an_image_beside_a_constant_one_is_not_changed_by_it(images):
    images[2] = 7
    found = LocalContrastNormalization().fit_transform(images)
    assert (found[2] == 0).all()
    np.testing.assert_allclose(found[3], by_loops(images[3]), atol=1e-12)


def test_blocks_do_not_show(images, monkeypatch):
    whole = LocalContrastNormalization().fit_transform(images)
    monkeypatch.setattr(preprocessing, "_BLOCK", 2 * 63)
    np.testing.assert_array_equal(LocalContrastNormalization().fit_transform(images), whole)


def test_types(images):
    assert LocalContrastNormalization().fit_transform(images).dtype == np.float64
    bytes_ = (20 * images + 128).clip(0, 255).astype(np.uint8)
    for X in (images.astype(np.float32), bytes_, bytes_.astype(bool)):
        kept = X.copy()
        result = LocalContrastNormalization().fit_transform(X)
        assert result.dtype == (np.float64 if X.dtype == bool else np.float32)
        np.testing.assert_array_equal(X, kept)


@pytest.mark.parametrize(
    ("parameters", "shape", "message"),
    [
        ({"sigma": 0}, (3, 4, 4), "sigma=0"),
        ({"sigma": "wide"}, (3, 4, 4), "sigma='wide'"),
        ({"sigma": float("nan")}, (3, 4, 4), "sigma=nan"),
        ({}, (3, 16), "or flat rows and image_shape="),
        ({"image_shape": (4, 5)}, (3, 16), "is 20 numbers"),
        ({"image_shape": 16}, (3, 16), "must be \\(height, width\\)"),
        ({"image_shape": (4, 4, 1, 1)}, (3, 16), "must be \\(height, width\\)"),
        ({"image_shape": (4, -4)}, (3, 16), "image_shape"),
        ({"image_shape": (4, 4)}, (3, 5, 5), "is 16 numbers"),
        ({}, (3, 2, 4, 4, 4), "needs images of shape"),
        ({}, (0, 4, 4), "0 sample"),
    ],
)
def test_refused(parameters, shape, message):
    with pytest.raises(ValueError, match=message):
        LocalContrastNormalization(**parameters).fit(np.zeros(shape))


def test_missing_values_are_refused(images):
    images[1, 2, 3] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        LocalContrastNormalization().fit(images)


def test_other_images_than_those_it_was_fitted_on(images):
    lcn = LocalContrastNormalization(image_shape=(9, 7)).fit(images.reshape(5, -1))
    with pytest.raises(ValueError, match="expecting 63 features"):
        lcn.transform(images[:, :8].reshape(5, -1))


def test_in_a_pipeline_of_scikit_learn(images):
    frame = pd.DataFrame(images.reshape(5, -1)).rename(columns=str)
    lcn = LocalContrastNormalization(image_shape=(9, 7)).set_output(transform="pandas")
    assert clone(lcn).set_output(transform="pandas").fit_transform(frame).columns[1] == "1"
    assert make_pipeline(lcn, PCA(2)).fit_transform(frame).shape == (5, 2)


def test_it_needs_no_fit(images):
    np.testing.assert_array_equal(
        LocalContrastNormalization().transform(images),
        LocalContrastNormalization().fit_transform(images),
    )


@parametrize_with_checks([Flatten()])
def test_scikit_learns_own_checks(estimator, check):
    """LocalContrastNormalization isn't here: scikit-learn's rows are no images."""
    check(estimator)


@pytest.mark.parametrize("shape", [(5, 3), (5, 3, 4), (5, 2, 3, 4)])
def test_flatten(shape):
    X = np.arange(np.prod(shape), dtype=float).reshape(shape)
    np.testing.assert_array_equal(Flatten().fit_transform(X), X.reshape(5, -1))
    assert Flatten().fit_transform(X.astype(np.uint8)).dtype == np.float32


@pytest.mark.parametrize("shape", [(4, 5), (2, 4, 5), (40,)])
def test_shifted_copies_are_the_images_a_pixel_away(shape):
    images = np.random.default_rng(0).normal(size=(3, *shape))
    image_shape = (2, 4, 5) if len(shape) == 1 else None
    X, y = with_shifts(images, [7, 8, 9], image_shape=image_shape)
    assert X.shape == (15, *shape)
    np.testing.assert_array_equal(y, [7, 8, 9] * 5)
    channels = (-1,) if len(shape) == 2 else (-1, 2)
    original, up, down, left, right = (part.reshape(*channels, 4, 5) for part in np.split(X, 5))
    np.testing.assert_array_equal(original, images.reshape(original.shape))
    np.testing.assert_array_equal(up[..., :-1, :], original[..., 1:, :])
    np.testing.assert_array_equal(down[..., 1:, :], original[..., :-1, :])
    np.testing.assert_array_equal(left[..., :-1], original[..., 1:])
    np.testing.assert_array_equal(right[..., 1:], original[..., :-1])
    np.testing.assert_array_equal(right[..., 0], original[..., 0])


def test_shifting_what_are_no_images_is_refused():
    with pytest.raises(ValueError, match="with_shifts needs images of shape"):
        with_shifts(np.zeros((3, 16)), [0, 1, 2])
    with pytest.raises(ValueError, match="a label for each image"):
        with_shifts(np.zeros((3, 4, 4)), [0, 1])
