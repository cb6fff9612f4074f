"""What every learner shares: check, encode, hold out, initialise, train, publish."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from torch import Tensor

from ccml._validation import check_count, check_number, check_option
from ccml.embeddings import Linear
from ccml.learners._initialization import (
    INITS,
    column_scale,
    neighbour_scale,
)
from ccml.learners._linear import LinearMetric, check_callbacks
from ccml.training import Callback, Rows, TrainingOptions, TrainingResult, hold_out, train

_MAX_COMPONENTS = 64  # unless the user asks for more
_MAX_VALIDATION_ROWS = 5000  # more would only make the epochs quadratic in the rows
_SCALE_NEIGHBORS = 5  # fixed, so that the start doesn't depend on the objective's parameters
_MAX_POOL_ELEMENTS = 2**23  # of the pool's inputs, 32 MB

_ENDINGS = {
    "max_epochs": "{name} hadn't converged after max_epochs={max_epochs}; raise max_epochs.",
    "interrupted": (
        "{name} was interrupted after {n_iter} epochs; it keeps the best weights up to there."
    ),
    "diverged": (
        "{name} diverged after {n_iter} epochs and keeps the best weights before that; "
        "lower learning_rate={learning_rate}."
    ),
}


@dataclass(eq=False, repr=False)  # scikit-learn has its own; the fields are its parameters
class MetricLearner(LinearMetric, ABC):
    """A transformer that learns its map from labels by minimising an objective.

    The fields are the parameters that all learners share; `CCML` documents them. A subclass adds
    those of its objective, checks them in `_check_parameters`, and gives `_objective`.
    """

    n_components: int | None = None
    _: KW_ONLY
    n_neighbors: int = 5
    embedding: str = "linear"
    init: str | ArrayLike = "auto"
    batch_size: int | Literal["auto"] = "auto"
    max_epochs: int = 200
    learning_rate: float = 0.03
    weight_decay: float = 0.003
    dropout: float = 0.0
    validation_fraction: float = 0.1
    n_epochs_no_change: int = 5
    warm_start: bool = False
    random_state: Any = None
    device: str = "cpu"
    verbose: bool = False
    callbacks: Sequence[Callback] | None = None

    _pool_rows: ClassVar = 10_000  # about: pools are made equal

    @abstractmethod
    def _objective(
        self, embedding: Linear, training: Rows, rng: np.random.Generator
    ) -> Callable[..., Tensor]:
        """Return what `train` is to minimise."""

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the map.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Class labels of any type.
        sample_weight : array-like of shape (n_samples,), optional
            How much each row counts as a query. A row of weight 0 is left out altogether.

        Returns
        -------
        self
        """
        self._check_parameters()
        X, y, weight = self._check_data(X, y, sample_weight)
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        classes = np.unique(y, return_inverse=True)[1]
        kept, held_out = self._split(classes, rng)
        centre = X[kept].mean(axis=0, dtype=np.float64)
        scale, start = self._initialise(X[kept] - centre, classes[kept], rng)
        inputs = ((X - centre) * scale).astype(np.float32)
        embedding = Linear(start)
        training, validation = (
            Rows(inputs[rows], classes[rows], _weights_of(weight, rows))
            for rows in (kept, held_out)
        )
        result = train(
            embedding,
            self._objective(embedding, training, rng),
            training,
            validation if len(held_out) else None,
            self._training_options(len(kept), X.shape[1]),
            rng,
        )
        components = embedding.components.detach().cpu().numpy().astype(np.float64) * scale
        self._publish(components.astype(X.dtype), result)
        return self

    def _check_parameters(self) -> None:
        name = type(self).__name__
        check_option(name, "embedding", self.embedding, ["linear"])
        if isinstance(self.init, str):
            check_option(name, "init", self.init, INITS)
        if self.n_components is not None:
            check_count(name, "n_components", self.n_components)
        if not isinstance(self.batch_size, str) or self.batch_size != "auto":
            check_count(name, "batch_size", self.batch_size, minimum=2)
        check_count(name, "n_neighbors", self.n_neighbors)
        check_count(name, "max_epochs", self.max_epochs)
        check_count(name, "n_epochs_no_change", self.n_epochs_no_change)
        check_number(name, "learning_rate", self.learning_rate, above=0)
        check_number(name, "weight_decay", self.weight_decay, minimum=0)
        check_number(name, "dropout", self.dropout, minimum=0, below=1)
        check_number(name, "validation_fraction", self.validation_fraction, minimum=0, below=1)
        _check_device(name, self.device)
        check_callbacks(name, self.callbacks)

    def _split(
        self, classes: NDArray[np.intp], rng: np.random.Generator
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Rows to train on and rows to hold out for early stopping."""
        n_rows = min(self.validation_fraction * len(classes), _MAX_VALIDATION_ROWS)
        if n_rows == 0:
            return np.arange(len(classes)), np.arange(0)
        return hold_out(classes, n_rows, rng)

    def _initialise(
        self, X: NDArray[np.float64], classes: NDArray[np.intp], rng: np.random.Generator
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Scale of the columns of centred rows, and the matrix to start from in scaled columns.

        They are such that typical neighbours are about 1 apart and the matrix has entries of
        order 1, so the learning rate means the same whatever the units of X.
        """
        scale = column_scale(X, classes, _SCALE_NEIGHBORS, rng)
        X = X * scale
        if self.warm_start and hasattr(self, "components_"):
            start = self._given_components("warm_start", self.components_) / scale
        else:
            if isinstance(self.init, str):
                n_components = self.n_components or min(X.shape[1], _MAX_COMPONENTS)
                start = INITS[self.init](X, classes, n_components, rng)
                varies = X.std(axis=0) > 0
                if varies.any():
                    start[:, ~varies] = 0  # nothing is known of a constant column
            else:
                start = self._given_components("init", self.init) / scale
            start *= neighbour_scale(start, X, classes, _SCALE_NEIGHBORS, rng)
        typical = np.sqrt(np.mean(start**2)) or 1
        return scale * typical, start / typical

    def _given_components(self, parameter: str, components: ArrayLike) -> NDArray[np.float64]:
        given = np.asarray(components)
        n_components = self.n_components or (len(given) if given.ndim else 1)
        wanted = (n_components, self.n_features_in_)
        if given.dtype.kind not in "fiu" or given.shape != wanted or not _is_usable(given):
            raise ValueError(
                f"{type(self).__name__}({parameter}=...) starts from an array of shape "
                f"{given.shape}; it has to be of shape (n_components, n_features) = {wanted}, "
                "finite and not all zero."
            )
        return given.astype(np.float64)

    def _training_options(self, n_rows: int, n_features: int) -> TrainingOptions:
        batch_size = self.batch_size
        if batch_size == "auto":
            batch_size = int(np.clip(n_rows // 20, 32, 512))
        pool_size = min(self._pool_rows, _MAX_POOL_ELEMENTS // n_features)
        return TrainingOptions(
            n_neighbors=self.n_neighbors,
            batch_size=batch_size,
            pool_size=max(batch_size, pool_size),
            max_epochs=self.max_epochs,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            n_epochs_no_change=self.n_epochs_no_change,
            dropout=self.dropout,
            device=self.device,
            verbose=bool(self.verbose),
            title=type(self).__name__,
            callbacks=self.callbacks or (),
        )

    def _publish(self, components: NDArray[Any], result: TrainingResult) -> None:
        self.components_: NDArray[Any] = components
        self.history_ = {"loss": result.loss, "validation_error": result.validation_error}
        self.n_iter_ = len(result.loss)
        if result.ended != "converged":
            message = _ENDINGS[result.ended].format(
                name=type(self).__name__,
                n_iter=self.n_iter_,
                max_epochs=self.max_epochs,
                learning_rate=self.learning_rate,
            )
            warnings.warn(message, ConvergenceWarning, stacklevel=3)


def _is_usable(components: NDArray[Any]) -> bool:
    return bool(np.isfinite(components).all() and components.any())


def _weights_of(weight: NDArray[np.float32] | None, rows: NDArray[np.intp]) -> Any:
    if weight is None or len(rows) == 0:
        return None
    return weight[rows] / weight[rows].mean()


def _check_device(name: str, device: Any) -> None:
    try:
        torch.zeros(1, device=torch.device(device)).item()  # "meta" has no values to give
    except (RuntimeError, AssertionError, TypeError, NotImplementedError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise ValueError(
            f"{name}(device={device!r}) isn't a device that can be used here ({reason}). "
            "Use device='cpu'."
        ) from None
