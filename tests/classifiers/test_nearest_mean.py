"""The nearest class mean, with one centroid and with several."""

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.datasets import load_iris, make_blobs
from sklearn.neighbors import NearestCentroid

from ccml import NearestMeanClassifier
from ccml.centroids import class_centroids


@pytest.fixture
def iris():
    return load_iris(return_X_y=True)


def test_one_mean_is_scikit_learns_nearest_centroid(iris):
    X, y = iris
    ours, theirs = NearestMeanClassifier().fit(X, y), NearestCentroid().fit(X, y)
    np.testing.assert_allclose(ours.centroids_, theirs.centroids_)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))


def test_probabilities_are_those_of_ncmc(iris):
    X, y = iris
    model = NearestMeanClassifier(2, random_state=0).fit(X, y)
    distances = ((X[:, None] - model.centroids_) ** 2).sum(axis=2)
    of_centroids = softmax(-distances / 2, axis=1)
    expected = np.stack(
        [of_centroids[:, model.centroid_labels_ == c].sum(axis=1) for c in model.classes_], axis=1
    )
    np.testing.assert_allclose(model.predict_proba(X), expected)
    np.testing.assert_array_equal(model.predict(X), expected.argmax(axis=1))


def test_several_centroids_find_the_clusters_of_a_class():
    X, cluster = make_blobs(200, 2, centers=[[0, 0], [10, 0], [0, 10], [10, 10]], random_state=0)
    y = np.isin(cluster, [1, 2]).astype(int)  # across the corners: the means coincide
    assert NearestMeanClassifier().fit(X, y).score(X, y) < 0.8
    model = NearestMeanClassifier(2, random_state=0).fit(X, y)
    assert model.score(X, y) == 1
    np.testing.assert_allclose(model.centroids_.sum(axis=0), [20, 20], atol=1)


def test_a_new_class_needs_only_its_mean(iris):
    X, y = iris
    known = y < 2
    model = NearestMeanClassifier().fit(X[known], y[known])
    model.partial_fit([X[~known].mean(axis=0)], [2])
    np.testing.assert_array_equal(model.predict(X), NearestMeanClassifier().fit(X, y).predict(X))


def test_rows_in_parts_give_the_mean_of_all(iris):
    X, y = iris
    weight = np.random.default_rng(0).uniform(1, 2, len(y))
    together = NearestMeanClassifier().fit(X, y, weight)
    model = NearestMeanClassifier()
    for part in (slice(0, 60), slice(60, 61), slice(61, 150)):
        model.partial_fit(X[part], y[part], sample_weight=weight[part])
    np.testing.assert_allclose(model.centroids_, together.centroids_)
    np.testing.assert_allclose(model.centroid_weights_, together.centroid_weights_)


def test_rows_move_the_nearest_centroid_of_their_class():
    X = [[0.0], [1.0], [10.0], [11.0], [50.0]]
    model = NearestMeanClassifier(2, random_state=0).fit(X, [0, 0, 0, 0, 1])
    assert sorted(model.centroids_.ravel()) == [0.5, 10.5, 50.0]
    model.partial_fit([[3.5]], [0])
    assert sorted(model.centroids_.ravel()) == [1.5, 10.5, 50.0]


def test_weighted_centroids():
    X, y = np.array([[0.0], [4.0], [9.0]]), np.array([0, 0, 1])
    model = NearestMeanClassifier().fit(X, y, [3.0, 1.0, 1.0])
    assert model.centroids_.ravel().tolist() == [1.0, 9.0]
    assert NearestMeanClassifier().fit(X, y, [1.0, 0.0, 1.0]).centroids_[0] == 0


def test_centroids_of_equal_rows_and_of_small_classes():
    X, y = np.zeros((5, 2)), np.array([0, 0, 0, 0, 1])
    points, classes, weights = class_centroids(X, y, 3, None, np.random.default_rng(0))
    assert (points == 0).all()
    assert set(classes) == {0, 1}
    assert weights.sum() == 5


@pytest.mark.parametrize("n_centroids", [0, 1.5, "2"])
def test_bad_parameters(iris, n_centroids):
    with pytest.raises(ValueError, match="n_centroids="):
        NearestMeanClassifier(n_centroids).fit(*iris)


def test_bad_weights(iris):
    with pytest.raises(ValueError, match="Negative values"):
        NearestMeanClassifier().fit(*iris, sample_weight=-np.ones(150))
    with pytest.raises(ValueError, match="one type of label"):
        NearestMeanClassifier().fit(*iris).partial_fit([[0.0] * 4], ["new"])
