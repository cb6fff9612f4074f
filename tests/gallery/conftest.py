"""Galleries in a folder that goes away, and a model that needs no training."""

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ccml import Gallery


@pytest.fixture(scope="session")
def model():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 6)) * [1, 2, 3, 1, 2, 3]
    return make_pipeline(StandardScaler(), PCA(4, random_state=0)).fit(X)


@pytest.fixture
def data():
    """Rows of four classes, of which one has fewer than the k of the tests, and queries."""
    rng = np.random.default_rng(1)
    y = np.repeat(["ant", "bee", "cat", "dog"], [30, 30, 2, 18])
    X = rng.normal(size=(80, 6)) + np.repeat(rng.normal(size=(4, 6)), [30, 30, 2, 18], axis=0)
    return X, y, rng.normal(size=(25, 6))


@pytest.fixture
def opened(tmp_path, model):
    """Open a gallery in the test's folder; all are closed at its end."""
    galleries = []

    def open_gallery(uri="gallery.db", model=model, **options):
        place = uri if "://" in uri else str(tmp_path / uri)
        galleries.append(Gallery(model, place, **options))
        return galleries[-1]

    yield open_gallery
    for gallery in galleries:
        gallery.close()
