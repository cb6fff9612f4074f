"""A few points that stand for a class: its mean, or the centroids of its clusters."""

import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.cluster.vq import kmeans2

_ROUNDS = 20  # of k-means; centroids needn't be perfect, and most are settled by then


class Centroids(NamedTuple):
    """Points, the class of each from 0 on, and the weight of the rows behind each."""

    points: NDArray[np.float64]
    classes: NDArray[np.intp]
    weights: NDArray[np.float64]


def class_centroids(
    X: NDArray[Any],
    y: NDArray[np.intp],
    n_centroids: int,
    weight: NDArray[Any] | None,
    rng: np.random.Generator,
) -> Centroids:
    """Find the mean of every class, or ``n_centroids`` means of clusters by k-means.

    A class with fewer rows than ``n_centroids`` has one for each. Clusters are found without the
    weights; each centroid is the weighted mean of its rows.

    Examples
    --------
    >>> import numpy as np
    >>> from ccml.centroids import class_centroids
    >>> X, y = np.array([[0.0], [2.0], [5.0]]), np.array([0, 0, 1])
    >>> points, classes, weights = class_centroids(X, y, 1, None, np.random.default_rng(0))
    >>> points.ravel(), classes, weights
    (array([1., 5.]), array([0, 1]), array([2., 1.]))
    """
    weight = np.ones(len(y)) if weight is None else weight.astype(np.float64)
    cluster = y if n_centroids == 1 else _clusters(X, y, n_centroids, rng)
    numbers, cluster = np.unique(cluster, return_inverse=True)
    members = sparse.csr_array((weight, (cluster, np.arange(len(y)))))  # (n_clusters, n)
    weights = members.sum(axis=1)
    return Centroids((members @ X) / weights[:, None], numbers // n_centroids, weights)


def _clusters(
    X: NDArray[Any], y: NDArray[np.intp], n_centroids: int, rng: np.random.Generator
) -> NDArray[np.intp]:
    """Give each row its cluster: ``n_centroids`` times its class, and up."""
    cluster = np.empty(len(y), dtype=np.intp)
    with warnings.catch_warnings():
        # Of equal rows some clusters stay empty, and are none.
        warnings.filterwarnings("ignore", message="One of the clusters is empty")
        for label in np.unique(y):
            rows = np.flatnonzero(y == label)
            k = min(n_centroids, len(rows))
            found = kmeans2(X[rows], k, iter=_ROUNDS, minit="points", rng=rng)[1]
            cluster[rows] = n_centroids * label + found
    return cluster
