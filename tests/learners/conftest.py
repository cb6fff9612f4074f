"""Data that every learner is tried on."""

import numpy as np
import pytest


@pytest.fixture(scope="module")
def striped():
    """Three classes told apart by two of eight columns; the others are louder noise."""
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=400)
    X = rng.normal(size=(400, 8))
    X[:, 2:] *= 6
    X[:, 0] += 5 * (y == 1)
    X[:, 1] += 5 * (y == 2)
    return X, y
