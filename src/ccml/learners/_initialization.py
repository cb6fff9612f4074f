"""Where the linear map starts, and in which units it is trained."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ccml.neighbors import ClassIndex
from ccml.training import Rows

Matrix = NDArray[np.float64]
Classes = NDArray[np.intp]
Init = Callable[[Rows, int, np.random.Generator], Matrix]  # from centred rows

SCALE_NEIGHBORS = 5  # fixed, so that the start doesn't depend on the objective's parameters
_SAMPLE = 2000  # rows that a question of scale is decided on
_MAX_COVARIANCE = 2000  # columns; wider data is first reduced to as many principal directions
_SHRINKAGE = 1e-3  # of the within-class covariance towards a multiple of the identity


def column_scale(rows: Rows, k: int, rng: np.random.Generator) -> Matrix:
    """Find what to multiply the columns by: one number for all of them, or one for each.

    Columns in one unit (pixels, principal components) are better left as they are; columns in
    different units have to be standardised. Which it is shows in the leave-one-out CCKNN error.
    """
    deviation = column_deviation(rows)
    standardise = 1 / np.where(deviation > 0, deviation, 1)
    together = np.full_like(standardise, 1 / (np.sqrt(np.mean(deviation**2)) or 1))
    sample, y = _sample(rows, rng)
    scales = (together, standardise)
    errors = [_leave_one_out_error(sample * scale, y, k) for scale in scales]
    return scales[int(np.argmin(errors))]


def column_mean(rows: Rows) -> Matrix:
    """Find the mean of every column, over the rows of all processes."""
    return rows.total(rows.X.sum(axis=0, dtype=np.float64)) / len(rows.y)


def column_deviation(rows: Rows) -> Matrix:
    """Find the standard deviation of every column, over the rows of all processes."""
    centre = rows.total(rows.X.sum(axis=0)) / len(rows.y)
    squares = rows.X - centre
    squares *= squares
    return np.sqrt(rows.total(squares.sum(axis=0)) / len(rows.y))


def _sample(rows: Rows, rng: np.random.Generator, size: int = _SAMPLE) -> tuple[Matrix, Classes]:
    """Draw rows and their classes, the same in all processes."""
    some = rows.take(rng.permutation(len(rows.y))[:size])
    return some.whole(some.X), some.y


def _leave_one_out_error(X: Matrix, y: Classes, k: int) -> float:
    chosen = ClassIndex(X, y).predict(X, k, exclude_self=True)
    return float(np.mean(chosen != y))


def neighbour_scale(
    embed: Callable[[NDArray[Any]], NDArray[Any]], rows: Rows, k: int, rng: np.random.Generator
) -> float:
    """Factor that makes the median distance to the k nearest of one's own class about 1."""
    sample = rows.take(rng.permutation(len(rows.y))[:_SAMPLE])
    embedded = sample.whole(embed(sample.X))
    index = ClassIndex(embedded, sample.y)
    distances = index.class_distances(embedded, k, exclude_self=True)
    own = distances[sample.y[:, None] == index.classes]
    own = own[np.isfinite(own)]
    for typical in (np.median(own), np.mean(own)) if len(own) else ():
        if typical > 0:
            return float(1 / np.sqrt(typical))
    return 1.0


def _pca(rows: Rows, n_components: int, rng: np.random.Generator) -> Matrix:
    """Directions of the largest variance."""
    return leading_directions(_covariance(rows), n_components).T


def _lda(rows: Rows, n_components: int, rng: np.random.Generator) -> Matrix:
    """Directions of the largest variance once the classes are spheres.

    The first C - 1 are Fisher's discriminants; others follow where more are asked for.
    """
    X, y, counts = rows.X, rows.own_y, np.bincount(rows.y)
    members = sparse.csr_array((np.ones(len(y)), (y, np.arange(len(y)))), (len(counts), len(y)))
    means = rows.total(members @ X) / counts[:, None]
    within = _covariance(rows._replace(X=X - means[y]))
    within += _SHRINKAGE * (np.trace(within) / len(within) or 1) * np.eye(len(within))
    variances, axes = np.linalg.eigh(within)
    whitening = axes / np.sqrt(variances)
    total = whitening.T @ _covariance(rows) @ whitening
    return (whitening @ leading_directions(total, n_components)).T


def _best(rows: Rows, n_components: int, rng: np.random.Generator) -> Matrix:
    """LDA or PCA, whichever has the lower leave-one-out CCKNN error."""
    sample, y = _sample(rows, rng)
    starts = [init(rows, n_components, rng) for init in (_lda, _pca)]
    errors = [_leave_one_out_error(sample @ start.T, y, 5) for start in starts]
    return starts[int(np.argmin(errors))]


def _random(rows: Rows, n_components: int, rng: np.random.Generator) -> Matrix:
    """Independent Gaussian entries."""
    return rng.normal(size=(n_components, rows.X.shape[1]))


def _identity(rows: Rows, n_components: int, rng: np.random.Generator) -> Matrix:
    """Take the first columns as they are."""
    return np.eye(n_components, rows.X.shape[1])


def _covariance(rows: Rows) -> Matrix:
    """Of columns that have mean zero."""
    return rows.total(rows.X.T @ rows.X) / len(rows.y)


def leading_directions(covariance: Matrix, n_directions: int) -> Matrix:
    """Eigenvectors of the largest eigenvalues, as columns, each with a sign that doesn't vary."""
    directions = np.linalg.eigh(covariance)[1][:, ::-1][:, :n_directions]
    largest = np.abs(directions).argmax(axis=0)
    return directions * np.sign(directions[largest, np.arange(directions.shape[1])])


def _in_principal_subspace(init: Init) -> Init:
    """Let ``init`` work in fewer columns where there are many more than can have a covariance."""

    def reduced(rows: Rows, n_components: int, rng: np.random.Generator) -> Matrix:
        n_features = rows.X.shape[1]
        if n_features <= _MAX_COVARIANCE:
            return init(rows, n_components, rng)
        sample, _ = _sample(rows, rng, _MAX_COVARIANCE)
        variances, rotation = np.linalg.eigh(sample @ sample.T)  # as many as rows, not columns
        kept = variances > 1e-10 * variances[-1]
        if not kept.any():  # all rows are the same
            return _random(rows, n_components, rng)
        axes = (sample.T @ rotation[:, kept]) / np.sqrt(variances[kept])  # (n_features, n_axes)
        n_found = min(n_components, axes.shape[1])
        found = init(rows._replace(X=rows.X @ axes), n_found, rng) @ axes.T
        # Beyond the rank of the data every direction is as good as another.
        others = rng.normal(size=(n_components - n_found, n_features)) / np.sqrt(n_features)
        return np.vstack([found, np.linalg.norm(found[-1]) * others])

    return reduced


INITS: dict[str, Init] = {
    "auto": _in_principal_subspace(_lda),
    "pca": _in_principal_subspace(_pca),
    "lda": _in_principal_subspace(_lda),
    "best": _in_principal_subspace(_best),
    "random": _random,
    "identity": _identity,
}
