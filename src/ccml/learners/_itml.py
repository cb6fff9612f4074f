"""Information-theoretic metric learning."""

import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from ccml._dask import refuse_dask
from ccml._validation import check_count, check_number, check_option
from ccml.learners._bregman import Constraints, project
from ccml.learners._checks import check_callbacks, check_classes
from ccml.learners._initialization import column_scale, leading_directions
from ccml.learners._linear import LinearMetric
from ccml.training import Callback, Rows, progress_bar, refuse_several

_PRIORS = ("auto", "identity", "covariance")
_NEAR, _FAR = 5, 95  # percentiles of all distances that a pair is to be below or above
_SAMPLE = 2000  # pairs to take the percentiles of
_SCALE_NEIGHBORS = 5
_ENDINGS = {
    "max_epochs": (
        "ITML hadn't converged after max_epochs={max_epochs}; raise max_epochs, or tol if the loss "
        "in history_ has settled."
    ),
    "interrupted": "ITML was interrupted after {n_iter} epochs; it keeps the metric up to there.",
}


@dataclass(eq=False, repr=False)
class ITML(LinearMetric):
    """Learn the metric nearest to a prior under which like pairs are near and unlike ones far.

    Information-theoretic metric learning [1]_ minimises the LogDet divergence of M to a prior M_0
    under constraints on pairs of rows::

        min  tr(M M_0^-1) - log det(M M_0^-1)
        with (x_i - x_j)^T M (x_i - x_j) <= u  for similar pairs,
             (x_i - x_j)^T M (x_i - x_j) >= l  for dissimilar pairs

    where u and l are the 5th and 95th percentile of the distances under the prior, and may be
    missed at a cost. It projects onto one constraint after the other (Bregman projections), each
    in a rank-one update, so M is positive definite throughout.

    Choose it where all that is known are pairs (`fit_pairs`), or where the metric should stay
    near one that is known. It is global: a pair counts the same wherever it is.

    Parameters
    ----------
    n_components : int, optional
        Keep only as many leading directions of the metric; by default all.
    n_constraints : int or "auto"
        Pairs to draw from the labels, half of them similar; "auto" is 40 C^2 for C classes, at
        least 4,000 and at most 40,000.
    gamma : float
        What a missed constraint costs against leaving the prior; the larger, the more it counts.
    prior : {"auto", "identity", "covariance"} or array (n_features, n_features)
        M_0: the identity, the inverse of the covariance, or a positive definite matrix. "auto"
        is the identity where the columns are in one unit and one over their variances else, as
        the labels tell (of given pairs, always the identity).
    max_epochs : int
        Times to go through all constraints.
    tol : float
        End when an epoch changes the metric by less than this, relatively.
    random_state : int, RandomState or None
        For drawing pairs.
    verbose : bool
        Show a progress bar.
    callbacks : sequence of callables, optional
        Each is called as ``callback(epoch, loss, None)`` after every epoch.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        ``components_.T @ components_`` is M.
    history_ : dict of ndarray
        ``"loss"`` of each epoch: by how much constraints were missed, relative to u or l, on
        average. ``"validation_error"`` is empty: no rows are held out.
    n_iter_ : int
        Number of epochs.
    bounds_ : tuple of float
        u and l, for distances of the rows as they were given.

    References
    ----------
    .. [1] J. V. Davis, B. Kulis, P. Jain, S. Sra and I. S. Dhillon, "Information-theoretic metric
       learning", ICML 2007.

    Examples
    --------
    >>> from ccml.learners import ITML
    >>> from sklearn.datasets import load_iris
    >>> from ccml.evaluation import knn_error
    >>> X, y = load_iris(return_X_y=True)
    >>> Z = ITML(random_state=0).fit_transform(X[::2], y[::2])
    >>> knn_error(Z, y[::2]) < 0.05
    True

    From pairs, without labels: which two rows, and whether they are alike.

    >>> ITML().fit_pairs(X, [(0, 1), (0, 80), (80, 81)], [True, False, True]).transform(X).shape
    (150, 4)
    """

    n_components: int | None = None
    _: KW_ONLY
    n_constraints: int | Literal["auto"] = "auto"
    gamma: float = 0.1
    prior: str | ArrayLike = "auto"
    max_epochs: int = 200
    tol: float = 0.01
    random_state: Any = None
    verbose: bool = False
    callbacks: Sequence[Callback] | None = None

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the metric from pairs drawn by the labels.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Class labels of any type.
        sample_weight : array-like of shape (n_samples,), optional
            How likely each row is drawn into a pair.

        Returns
        -------
        self
        """
        self._check_parameters()
        X, y, weight = self._check_data(X, y, sample_weight)
        check_classes(self, y)
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        classes = np.unique(y, return_inverse=True)[1]
        n_constraints = self.n_constraints
        if n_constraints == "auto":
            n_constraints = int(np.clip(40 * (classes.max() + 1) ** 2, 4000, 40_000))
        pairs, similar = _draw(classes, n_constraints, weight, rng)
        return self._learn(X, classes, pairs, similar, rng)

    def fit_pairs(self, X: ArrayLike, pairs: ArrayLike, similar: ArrayLike) -> Self:
        """Learn the metric from given pairs.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        pairs : array-like of shape (n_pairs, 2)
            Indices of rows of ``X``.
        similar : array-like of shape (n_pairs,)
            True for pairs that should be near, False for those that should be far.

        Returns
        -------
        self
        """
        self._check_parameters()
        refuse_dask("ITML.fit_pairs", X)
        X = validate_data(self, X, dtype=[np.float64, np.float32], ensure_min_samples=2)
        self._check_width(X)
        pairs, similar = np.asarray(pairs), np.asarray(similar)
        if (
            pairs.ndim != 2 or pairs.shape[1] != 2 or len(pairs) == 0
            or pairs.dtype.kind not in "iu" or pairs.min() < 0 or pairs.max() >= len(X)
        ):  # fmt: skip
            raise ValueError(
                f"ITML.fit_pairs needs pairs of indices of rows, from 0 to {len(X) - 1}, in an "
                f"array of shape (n_pairs, 2); got shape {pairs.shape}."
            )
        if similar.shape != (len(pairs),) or similar.dtype != np.bool_:
            raise ValueError(
                f"ITML.fit_pairs needs True or False for each of the {len(pairs)} pairs; got "
                f"similar of shape {similar.shape} and type {similar.dtype}."
            )
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        return self._learn(X, None, pairs, similar, rng)

    def _learn(
        self,
        X: NDArray[Any],
        classes: NDArray[np.intp] | None,
        pairs: NDArray[np.intp],
        similar: NDArray[np.bool_],
        rng: np.random.Generator,
    ) -> Self:
        """Solve in the coordinates in which the prior is the identity."""
        whitening = self._whitening(X, classes, rng)  # (n_features, n_features), M_0 = W^T W
        differences = _differences(X, pairs, whitening)
        lengths = (differences**2).sum(axis=1)
        # Nothing can part equal rows. Like and unlike pairs in turns converge several times faster.
        usable = rng.permutation(np.flatnonzero(lengths > 0))
        some_pairs = rng.integers(len(X), size=(_SAMPLE, 2))
        bounds = _percentiles((_differences(X, some_pairs, whitening) ** 2).sum(axis=1))
        constraints = Constraints(
            differences[usable], similar[usable], bounds[1 - similar[usable].astype(np.intp)]
        )
        M, losses, ended = self._project(constraints)
        variances, axes = np.linalg.eigh(M)
        components = (np.sqrt(variances.clip(0)) * axes).T @ whitening
        # Rotated to the principal axes of the mapped rows, the first components say most.
        mapped = components @ np.atleast_2d(np.cov(X, rowvar=False)) @ components.T
        rotation = leading_directions(mapped, self.n_components or len(mapped))
        components = rotation.T @ components
        self.components_: NDArray[Any] = components.astype(X.dtype)
        self.bounds_ = tuple(float(bound) for bound in bounds)
        self.history_ = {"loss": np.array(losses), "validation_error": np.array([])}
        self.n_iter_ = len(losses)
        if ended != "converged":
            message = _ENDINGS[ended].format(max_epochs=self.max_epochs, n_iter=self.n_iter_)
            warnings.warn(message, ConvergenceWarning, stacklevel=3)
        return self

    def _project(self, constraints: Constraints) -> tuple[NDArray[np.float64], list[float], str]:
        """Go through the constraints until the metric settles; return the metric."""
        M = np.eye(constraints.differences.shape[1])
        losses: list[float] = []
        with ExitStack() as stack:
            callbacks = list(self.callbacks or ())
            if self.verbose:
                callbacks.append(stack.enter_context(progress_bar(self.max_epochs, "ITML")))
            try:
                for loss, change in project(M, constraints, self.gamma):
                    losses.append(loss)
                    for callback in callbacks:
                        callback(len(losses), loss, None)
                    if change < self.tol:
                        return M, losses, "converged"
                    if len(losses) == self.max_epochs:
                        break
            except KeyboardInterrupt:
                return M, losses, "interrupted"
        return M, losses, "max_epochs"

    def _whitening(
        self, X: NDArray[Any], classes: NDArray[np.intp] | None, rng: np.random.Generator
    ) -> NDArray[np.float64]:
        """Matrix W with M_0 = W^T W."""
        n_features = X.shape[1]
        if isinstance(self.prior, str):
            centred = X - X.mean(axis=0, dtype=np.float64)
            if self.prior == "auto" and classes is not None:
                return np.diag(column_scale(Rows(centred, classes), _SCALE_NEIGHBORS, rng))
            if self.prior != "covariance":
                return np.eye(n_features)
            covariance = centred.T @ centred / len(X)
            variances, axes = np.linalg.eigh(covariance)
            # Of directions without variance nothing is known; they count as little as any.
            floor = variances[-1] * len(variances) * np.finfo(X.dtype).eps
            variances = np.where(variances > floor, variances, variances[-1] or 1)
            return (axes / np.sqrt(variances)).T
        prior = np.asarray(self.prior)
        if prior.dtype.kind in "fiu" and prior.shape == (n_features, n_features):
            prior = prior.astype(np.float64)
            if np.isfinite(prior).all() and np.allclose(prior, prior.T):
                variances, axes = np.linalg.eigh(prior)
                if variances[0] > 0:
                    return (np.sqrt(variances) * axes).T
        raise ValueError(
            f"ITML(prior=...) has to be a symmetric, positive definite array of shape "
            f"({n_features}, {n_features}); got shape {prior.shape}."
        )

    def _check_parameters(self) -> None:
        refuse_several("ITML")
        if isinstance(self.prior, str):
            check_option("ITML", "prior", self.prior, _PRIORS)
        if self.n_components is not None:
            check_count("ITML", "n_components", self.n_components)
        if not isinstance(self.n_constraints, str) or self.n_constraints != "auto":
            check_count("ITML", "n_constraints", self.n_constraints, minimum=2)
        check_number("ITML", "gamma", self.gamma, above=0)
        check_count("ITML", "max_epochs", self.max_epochs)
        check_number("ITML", "tol", self.tol, above=0)
        check_callbacks("ITML", self.callbacks)


def _draw(
    classes: NDArray[np.intp],
    n_pairs: int,
    weight: NDArray[Any] | None,
    rng: np.random.Generator,
) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Draw pairs of different rows by their weights, half of one class and half of two."""
    by_class = np.argsort(classes, kind="stable")
    weight = np.ones(len(classes)) if weight is None else weight.astype(np.float64)
    # Rows lie side by side by class, as wide as their weight; a number says who is there.
    upto = np.concatenate([[0], np.cumsum(weight[by_class])])
    counts = np.bincount(classes)
    starts = np.concatenate([[0], np.cumsum(counts)])
    low, high = upto[starts[:-1]], upto[starts[1:]]

    def place(at: NDArray[np.float64]) -> NDArray[np.intp]:
        return np.clip(np.searchsorted(upto, at, side="right") - 1, 0, len(classes) - 1)

    similar = np.arange(n_pairs) < n_pairs // 2
    left = place(rng.uniform(0, upto[-1], n_pairs))
    # Only a class of two or more has similar pairs.
    paired = np.flatnonzero(counts[classes[by_class]] > 1)
    chances = weight[by_class[paired]]
    left[similar] = rng.choice(paired, similar.sum(), p=chances / chances.sum())
    # The partner lies in a range from which a part is cut out: the own class without oneself, or
    # all rows without the own class. Begin behind the part, and go round.
    own = classes[by_class[left]]
    begin, end = np.where(similar, low[own], 0), np.where(similar, high[own], upto[-1])
    cut_begin = np.where(similar, upto[left], low[own])
    cut_end = np.where(similar, upto[left + 1], high[own])
    at = cut_end + rng.uniform(0, (end - begin) - (cut_end - cut_begin))
    right = place(np.where(at >= end, at - (end - begin), at))
    pairs = by_class[np.stack([left, right], axis=1)]
    sound = (left != right) & ((classes[pairs[:, 0]] == classes[pairs[:, 1]]) == similar)
    return pairs[sound], similar[sound]  # but for rounding, all of them


def _differences(
    X: NDArray[Any], pairs: NDArray[np.intp], whitening: NDArray[np.float64]
) -> NDArray[np.float64]:
    return (X[pairs[:, 0]].astype(np.float64) - X[pairs[:, 1]]) @ whitening.T


def _percentiles(distances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Squared distances that near and far pairs are to have: u and l."""
    distances = distances[distances > 0]
    if len(distances) == 0:  # all rows are the same
        return np.ones(2)
    return np.percentile(distances, [_NEAR, _FAR])
