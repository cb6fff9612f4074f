"""What is done to images before a metric is learned."""

from math import prod
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.ndimage import gaussian_filter
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import validate_data

from ccml._dask import by_blocks
from ccml._images import image_of
from ccml._validation import check_number

_DTYPES = [np.float64, np.float32, np.uint8]
_BLOCK = 2**20  # pixels done at a time: what is needed beside them stays small


class LocalContrastNormalization(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Take brightness and contrast out of images, first of each as a whole and then locally.

    Of each image and channel, subtract the mean and divide by the standard deviation. Then subtract
    at each pixel the mean of its surroundings, and divide by their deviation where that is above 1.
    Surroundings are weighed by a Gaussian; beyond its border an image goes on as its reflection.

    Parameters
    ----------
    sigma : float, default=1.591
        Standard deviation of the Gaussian, in pixels.
    image_shape : tuple of int, optional
        (height, width) or (channels, height, width) of images that come as flat rows. Images of
        shape (n, height, width) or (n, channels, height, width) don't need it.

    Attributes
    ----------
    input_shape_ : tuple of int
        Shape of one image, or row, as it came.

    Notes
    -----
    A constant image becomes zeros. Nothing is learned from the training images, and images are done
    in blocks: memory is that of the result and a little more.

    References
    ----------
    .. [1] N. Pinto, D. D. Cox and J. J. DiCarlo, "Why is real-world visual object recognition
       hard?", PLoS Computational Biology 4(1), 2008.

    Examples
    --------
    >>> from ccml.datasets import load
    >>> from ccml.preprocessing import LocalContrastNormalization
    >>> digits = load("digits")
    >>> lcn = LocalContrastNormalization(image_shape=digits.image_shape)
    >>> brighter = 2 * digits.X + 7
    >>> bool(abs(lcn.fit_transform(digits.X) - lcn.transform(brighter)).max() < 1e-9)
    True
    """

    def __init__(self, sigma: float = 1.591, *, image_shape: tuple[int, ...] | None = None) -> None:
        self.sigma = sigma
        self.image_shape = image_shape

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Check the parameters and the shape of the images; there is nothing to learn."""
        check_number("LocalContrastNormalization", "sigma", self.sigma, above=0)
        X = validate_data(self, X, dtype=_DTYPES, allow_nd=True)
        image_of("LocalContrastNormalization", X.shape[1:], self.image_shape)
        self.input_shape_ = X.shape[1:]
        return self

    @by_blocks
    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """Normalise images.

        Parameters
        ----------
        X : array-like of shape (n, height, width), (n, channels, height, width) or (n, n_features)

        Returns
        -------
        ndarray of the same shape
            float64 if ``X`` is, else float32.
        """
        X = validate_data(self, X, dtype=_DTYPES, allow_nd=True, reset=False)
        _, *size = image_of("LocalContrastNormalization", X.shape[1:], self.image_shape)
        images = X.reshape(-1, *size)  # a channel is an image of its own
        result = np.empty(images.shape, dtype=np.float64 if X.dtype == np.float64 else np.float32)
        n_block = max(1, _BLOCK // prod(size))
        for start in range(0, len(images), n_block):
            rows = slice(start, start + n_block)
            result[rows] = _normalized(images[rows].astype(np.float64), self.sigma)
        return result.reshape(X.shape)

    def __sklearn_is_fitted__(self) -> bool:
        return True  # as scikit-learn's Normalizer: it needs no fit

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.two_d_array = self.image_shape is not None
        tags.input_tags.three_d_array = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class Flatten(TransformerMixin, BaseEstimator):
    """Make one row of each image, for what takes rows only.

    Attributes
    ----------
    input_shape_ : tuple of int
        Shape of one image.

    Examples
    --------
    >>> import numpy as np
    >>> from ccml.preprocessing import Flatten
    >>> Flatten().fit_transform(np.zeros((5, 2, 8, 8))).shape
    (5, 128)
    """

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Check the images; there is nothing to learn."""
        self.input_shape_ = validate_data(self, X, dtype=_DTYPES, allow_nd=True).shape[1:]
        return self

    @by_blocks
    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """Flatten images; bytes become float32."""
        X = validate_data(self, X, dtype=_DTYPES, allow_nd=True, reset=False)
        rows = X.reshape(len(X), -1)
        return rows.astype(np.float32) if rows.dtype == np.uint8 else rows

    def __sklearn_is_fitted__(self) -> bool:
        return True  # it needs no fit

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.three_d_array = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def with_shifts(
    X: ArrayLike, y: ArrayLike, *, image_shape: tuple[int, ...] | None = None
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return images with copies that are shifted by one pixel: up, down, left and right.

    A metric that is learned from five times the images, and a classifier that compares with all of
    them, take a shifted image for what it is. Hold nothing out of them for early stopping
    (``validation_fraction=0``): for each image held out a copy would be left to train on.

    Parameters
    ----------
    X : array-like of shape (n, height, width), (n, channels, height, width) or (n, n_features)
    y : array-like of shape (n,)
    image_shape : tuple of int, optional
        (height, width) or (channels, height, width) of images that come as flat rows.

    Returns
    -------
    X, y : ndarrays of 5 n images and labels
        First the images as they are, then all copies shifted one way, and so on. Pixels that come
        in at a border are those that were there.

    Examples
    --------
    >>> from ccml.preprocessing import with_shifts
    >>> X, y = with_shifts([[[1, 2], [3, 4]]], ["a"])
    >>> X[1].tolist(), X[3].tolist()  # up, left
    ([[3, 4], [3, 4]], [[2, 2], [4, 4]])
    """
    X, y = np.asarray(X), np.asarray(y)
    if y.shape != X.shape[:1]:
        raise ValueError(f"with_shifts needs a label for each image; got {X.shape} and {y.shape}.")
    _, height, width = shape = image_of("with_shifts", X.shape[1:], image_shape)
    images = X.reshape(-1, *shape)
    rows, columns = np.arange(height), np.arange(width)
    copies = [
        images[:, :, (rows + down).clip(0, height - 1)][
            :, :, :, (columns + right).clip(0, width - 1)
        ]
        for down, right in ((0, 0), (1, 0), (-1, 0), (0, 1), (0, -1))
    ]
    return np.concatenate(copies).reshape(-1, *X.shape[1:]), np.tile(y, len(copies))


def _normalized(images: NDArray[np.float64], sigma: float) -> NDArray[np.float64]:
    """Normalise images of shape (n, height, width), each by itself."""

    def blurred(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return gaussian_filter(values, sigma, mode="reflect", axes=(1, 2))

    constant = np.ptp(images, axis=(1, 2)) == 0
    images = images - images.mean(axis=(1, 2), keepdims=True)
    images[constant] = 0  # whatever the mean was rounded to
    images /= np.where(constant, 1, np.abs(images).max(axis=(1, 2)))[:, None, None]
    deviation = images.std(axis=(1, 2))
    images /= np.where(constant, 1, deviation)[:, None, None]
    images -= blurred(images)
    return images / np.maximum(np.sqrt(blurred(images**2)), 1)
