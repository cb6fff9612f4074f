import numpy as np
import pytest

from ccml.datasets import make_sandwich


def neighbour_classes(X, y):
    """The class of every point's nearest neighbour."""
    squared = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    np.fill_diagonal(squared, np.inf)
    return y[squared.argmin(axis=1)]


def test_six_layers_of_nine_points():
    X, y = make_sandwich(random_state=0)
    assert X.shape == (54, 2)
    assert X.dtype == np.float64
    assert np.bincount(y).tolist() == [9] * 6


def test_points_are_1_apart_and_layers_0_7():
    X, y = make_sandwich(jitter=0)
    layers = X.reshape(6, 9, 2)
    np.testing.assert_allclose(np.diff(layers[:, :, 0], axis=1), 1)
    np.testing.assert_allclose(np.diff(layers[:, :, 1], axis=0), 0.7)
    np.testing.assert_allclose(X[:, 1], 0.7 * y)
    assert (neighbour_classes(X, y) != y).all()


def test_neighbours_mislead_until_x_is_shrunk():
    for seed in range(20):
        X, y = make_sandwich(random_state=seed)
        assert (neighbour_classes(X, y) != y).mean() > 0.8
        assert (neighbour_classes(X * [0.1, 1], y) == y).mean() > 0.8


def test_the_jitter_is_normal_noise_on_both_axes():
    X, _ = make_sandwich(n_classes=100, n_per_class=100, jitter=0.1, random_state=0)
    grid, _ = make_sandwich(n_classes=100, n_per_class=100, jitter=0)
    noise = X - grid
    np.testing.assert_allclose(noise.std(axis=0), 0.1, rtol=0.03)
    np.testing.assert_allclose(noise.mean(axis=0), 0, atol=0.005)
    assert abs(np.corrcoef(noise.T)[0, 1]) < 0.05


def test_a_seed_gives_the_same_points():
    first, _ = make_sandwich(random_state=3)
    second, _ = make_sandwich(random_state=3)
    other, _ = make_sandwich(random_state=4)
    np.testing.assert_array_equal(first, second)
    assert (first != other).all()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"n_classes": 0}, r"make_sandwich\(n_classes=0\) must be a whole number of at least 1"),
        ({"n_per_class": 2.5}, r"make_sandwich\(n_per_class=2.5\)"),
        ({"jitter": -0.1}, r"make_sandwich\(jitter=-0.1\) must be a number, at least 0"),
        ({"jitter": float("nan")}, r"make_sandwich\(jitter=nan\)"),
    ],
)
def test_wrong_arguments_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        make_sandwich(**wrong)
