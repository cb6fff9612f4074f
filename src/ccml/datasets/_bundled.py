"""The data sets that scikit-learn brings along: wine and digits."""

from typing import Any

import numpy as np

from ccml.datasets._dataset import Dataset
from ccml.datasets._split import train_validation_test


def load_wine() -> Dataset:
    """Load wine: 178 rows, 13 features, 3 classes."""
    from sklearn.datasets import load_wine as bundled

    return _dataset("wine", bundled(), image_shape=None)


def load_digits() -> Dataset:
    """Load digits: 1,797 images of 8 x 8 pixels, 10 classes."""
    from sklearn.datasets import load_digits as bundled

    return _dataset("digits", bundled(), image_shape=(8, 8))


def _dataset(name: str, bunch: Any, image_shape: tuple[int, int] | None) -> Dataset:
    y = np.asarray(bunch.target, dtype=np.int64)
    train, validation, test = train_validation_test(y)
    return Dataset(
        name=name,
        X=np.asarray(bunch.data, dtype=np.float64),
        y=y,
        train=train,
        validation=validation,
        test=test,
        class_names=tuple(map(str, bunch.target_names)),
        feature_names=tuple(bunch.feature_names),
        image_shape=image_shape,
        official_split=False,
    )
