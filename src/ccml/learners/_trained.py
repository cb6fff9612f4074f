"""What is learned by gradient descent: check, encode, hold out, start, train, publish."""

import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn

from ccml._dask import by_blocks
from ccml._validation import check_count, check_number, check_option
from ccml.embeddings import MLP, Embedding, build
from ccml.learners._checks import (
    check_callbacks,
    check_checkpoint,
    check_classes,
    check_device,
    check_labelled,
)
from ccml.learners._initialization import SCALE_NEIGHBORS, neighbour_scale
from ccml.learners._shares import Labelled, digest_of, read_shares
from ccml.learners._transformer import SupervisedTransformer
from ccml.learners._units import AS_THEY_ARE, Units, as_floats
from ccml.training import (
    Callback,
    Checkpoint,
    Ranks,
    Rows,
    ScoreRule,
    TrainingOptions,
    TrainingResult,
    embed,
    hold_out,
    joined,
    seeded_torch,
    train,
)

_MAX_VALIDATION_ROWS = 5000  # more would only make the epochs quadratic in the rows

_ENDINGS = {
    "max_epochs": "{name} hadn't converged after {n_iter} epochs; raise max_epochs={max_epochs}.",
    "interrupted": (
        "{name} was interrupted after {n_iter} epochs; it keeps the best weights up to there."
    ),
    "diverged": (
        "{name} diverged after {n_iter} epochs and keeps the best weights before that; "
        "lower learning_rate={learning_rate}."
    ),
}

# What may change between a checkpoint and the run that goes on from it.
_NOT_OF_THE_RUN = {
    "callbacks",
    "checkpoint",
    "checkpoint_seconds",
    "device",
    "max_epochs",
    "random_state",  # its seed counts
    "verbose",
}


class Scaled(nn.Module):
    """A module whose output is multiplied so that neighbours are about 1 apart."""

    factor: Tensor

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net
        self.register_buffer("factor", torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        """Map inputs to points."""
        points: Tensor = self.net(x)
        return self.factor * points


@dataclass(eq=False, repr=False)  # scikit-learn has its own; the fields are its parameters
class TrainedEmbedding(SupervisedTransformer, ABC):
    """A transformer by an embedding whose weights minimise an objective.

    The fields are the parameters that all of them share; `CCML` documents them.
    """

    n_components: int | None = None
    _: KW_ONLY
    batch_size: int | Literal["auto"] = "auto"
    max_epochs: int = 200
    learning_rate: float | Literal["auto"] = "auto"
    weight_decay: float = 0.003
    decayed_layers: Literal["last", "all"] = "last"
    dropout: float = 0.0
    validation_fraction: float = 0.1
    n_epochs_no_change: int = 5
    random_state: Any = None
    device: str = "cpu"
    verbose: bool = False
    callbacks: Sequence[Callback] | None = None
    checkpoint: str | os.PathLike[str] | None = None
    checkpoint_seconds: float = 60.0

    @abstractmethod
    def _module(self) -> Embedding:
        """Return what maps, where it isn't a matrix."""

    @abstractmethod
    def _objective(
        self, embedding: nn.Module, training: Rows, rng: np.random.Generator
    ) -> Callable[..., Tensor]:
        """Return what `train` is to minimise."""

    @abstractmethod
    def _score(self, embedding: nn.Module, objective: Callable[..., Tensor]) -> ScoreRule:
        """Return what early stopping goes by."""

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the map.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or images
            Images, of shape (n, height, width) or (n, channels, height, width), are for an
            embedding that takes them. Bytes (uint8) are then scaled by 1/255.
        y : array-like of shape (n_samples,)
            Class labels of any type.
        sample_weight : array-like of shape (n_samples,), optional
            How much each row counts as a query. A row of weight 0 is left out altogether.

        Returns
        -------
        self
        """
        self._check_parameters()
        with joined(self.device) as ranks:
            data = self._read(ranks, X, y, sample_weight)
            rows = data.rows
            seed = ranks.first(check_random_state(self.random_state).randint(2**31))
            rng = np.random.default_rng(seed)
            kept, held_out = self._split(rows.y, rng)
            with ranks.together():
                units, embedding = self._start(rows.take(kept), rng, warm=self._starts_warm())
            units = _agree_on_start(ranks, units, embedding, rng)
            training, validation = (
                _in_units(rows.take(places), units) for places in (kept, held_out)
            )
            objective = self._objective(embedding, training, rng)
            options = self._training_options(
                len(kept), rows.X.shape[1:], self._checkpoint(data, seed, embedding)
            )
            result = train(
                embedding,
                objective,
                training,
                validation if len(held_out) else None,
                self._score(embedding, objective),
                options,
                rng,
            )
        self._publish_map(units, embedding, rows.X)
        self._publish_objective(objective, data.labels)
        self._publish_history(result, options.learning_rate, reports=ranks.is_first)
        return self

    def _read(
        self, ranks: Ranks, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None
    ) -> Labelled:
        """Check what this process has, and put it together with what the others have."""
        with ranks.together():
            X, y, weight = self._check_data(X, y, sample_weight)
        data = read_shares(type(self).__name__, ranks, X, y, weight)
        check_classes(self, data.labels[data.rows.y])
        return data

    @by_blocks
    def transform(self, X: ArrayLike) -> NDArray[np.floating[Any]]:
        """Map rows into the learned space, where Euclidean distance is the learned one.

        Parameters
        ----------
        X : array-like of the shape that `fit` had

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            Lazy, if ``X`` is a dask array or dataframe. In float32, if a network computes it.
        """
        check_is_fitted(self, "weights_")
        X = self._check_inputs(X)
        return embed(self._fitted_module(), self._fitted_units()(X), self.device)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags

    @property
    def _n_features_out(self) -> int:
        return int(self.n_components_)

    def _check_parameters(self) -> None:
        name = type(self).__name__
        if self.n_components is not None:
            check_count(name, "n_components", self.n_components)
        if not isinstance(self.batch_size, str) or self.batch_size != "auto":
            check_count(name, "batch_size", self.batch_size, minimum=2)
        check_count(name, "max_epochs", self.max_epochs)
        check_count(name, "n_epochs_no_change", self.n_epochs_no_change)
        if not isinstance(self.learning_rate, str) or self.learning_rate != "auto":
            check_number(name, "learning_rate", self.learning_rate, above=0)
        check_number(name, "weight_decay", self.weight_decay, minimum=0)
        check_option(name, "decayed_layers", self.decayed_layers, ["last", "all"])
        check_number(name, "dropout", self.dropout, minimum=0, below=1)
        check_number(name, "validation_fraction", self.validation_fraction, minimum=0, below=1)
        check_number(name, "checkpoint_seconds", self.checkpoint_seconds, minimum=0)
        if self.checkpoint is not None:
            check_checkpoint(name, self.checkpoint, self.random_state)
            if self._starts_warm():
                raise ValueError(
                    f"{name} can't have both checkpoint and warm_start: to start from what a run "
                    "ended with and to go on from where it was killed are two things."
                )
        check_device(name, self.device)
        check_callbacks(name, self.callbacks)

    def _check_data(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.float32] | None]:
        X, y, weight = check_labelled(self, X, y, sample_weight, images=self._takes_images())
        return as_floats(X), y, weight

    def _check_inputs(self, X: ArrayLike) -> NDArray[Any]:
        self._check_input_shape(X)
        dtypes = [np.float64, np.float32, np.uint8]
        return as_floats(validate_data(self, X, dtype=dtypes, allow_nd=True, reset=False))

    def _check_input_shape(self, X: Any) -> None:
        shape: tuple[int, ...] = getattr(X, "shape", ())
        name = type(self).__name__
        if len(shape) < 2 or tuple(shape[1:]) == self.input_shape_:
            return
        if len(shape) == 2 and len(self.input_shape_) == 1:  # in scikit-learn's words
            raise ValueError(
                f"X has {shape[1]} features, but {name} is expecting {self.input_shape_[0]} "
                "features as input."
            )
        raise ValueError(
            f"X is of shape {tuple(shape)}; {name} was fitted on inputs of shape "
            f"{self.input_shape_}."
        )

    def _split(
        self, classes: NDArray[np.intp], rng: np.random.Generator
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Rows to train on and rows to hold out for early stopping."""
        n_rows = min(self.validation_fraction * len(classes), _MAX_VALIDATION_ROWS)
        if n_rows == 0:
            return np.arange(len(classes)), np.arange(0)
        return hold_out(classes, n_rows, rng)

    def _start(
        self, rows: Rows, rng: np.random.Generator, *, warm: bool
    ) -> tuple[Units, nn.Module]:
        """Units of the columns, and the module to start from: neighbours are about 1 apart."""
        if warm and hasattr(self, "weights_"):
            self._check_input_shape(rows.X)
            return self._fitted_units(), self._fitted_module()
        spec = self._module()
        units = Units.of(rows, rng) if isinstance(spec, MLP) else AS_THEY_ARE
        with seeded_torch(rng, self.device):
            net = build(spec, rows.X.shape[1:], self.n_components, self.device)
            module = Scaled(net).to(self.device)
        rows.ranks.copy_first(module)

        def embedded(sample: NDArray[Any]) -> NDArray[np.float32]:
            Z = embed(module, units(sample), self.device)
            if not np.isfinite(Z).all():
                raise ValueError(f"The embedding maps rows of X to NaN or infinity: {spec!r}.")
            return Z

        factor = neighbour_scale(embedded, rows, SCALE_NEIGHBORS, rng)
        module.factor.fill_(factor)
        return units, module

    def _training_options(
        self, n_rows: int, input_shape: tuple[int, ...], checkpoint: Checkpoint | None
    ) -> TrainingOptions:
        batch_size = self.batch_size
        if batch_size == "auto":
            batch_size = int(np.clip(n_rows // 20, *self._batch_sizes()))
        rate = self.learning_rate
        return TrainingOptions(
            batch_size=batch_size,
            pool_size=max(batch_size, self._pool_size(input_shape)),
            max_epochs=self.max_epochs,
            learning_rate=self._auto_learning_rate() if rate == "auto" else rate,
            weight_decay=self.weight_decay,
            decayed_layers=self.decayed_layers,
            n_epochs_no_change=self.n_epochs_no_change,
            dropout=self.dropout,
            device=self.device,
            verbose=bool(self.verbose),
            title=type(self).__name__,
            callbacks=self.callbacks or (),
            checkpoint=checkpoint,
        )

    def _starts_warm(self) -> bool:
        return False

    def _takes_images(self) -> bool:
        return True

    def _batch_sizes(self) -> tuple[int, int]:
        """Least and greatest that is chosen by itself."""
        return 128, 1000  # neighbours come from the batch

    def _pool_size(self, input_shape: tuple[int, ...]) -> int:
        return 0  # the batch alone: to embed more rows for each step would cost too much

    def _auto_learning_rate(self) -> float:
        return 0.003

    def _checkpoint(self, data: Labelled, seed: int, embedding: nn.Module) -> Checkpoint | None:
        if self.checkpoint is None:
            return None
        parameters = {
            name: digest_of(value) if isinstance(value, np.ndarray) else repr(value)
            for name, value in self.get_params(deep=False).items()
            if name not in _NOT_OF_THE_RUN and not callable(value)
        }
        weights = {name: tuple(value.shape) for name, value in embedding.state_dict().items()}
        identity = parameters | {
            "learner": type(self).__name__,
            "seed of random_state": str(seed),
            "network": repr(embedding),
            "shapes of the weights": str(weights),
            "data": data.digest or digest_of(*data.rows[:3]),
        }
        return Checkpoint(self.checkpoint, self.checkpoint_seconds, identity)

    def _publish_map(self, units: Units, embedding: nn.Module, X: NDArray[Any]) -> None:
        """Keep what `transform` needs, as arrays."""
        state = {name: value.cpu().numpy().copy() for name, value in embedding.state_dict().items()}
        self.weights_: dict[str, NDArray[Any]] = units._asdict() | state
        self.input_shape_ = X.shape[1:]
        self.n_components_ = embed(embedding, units(X[:1]), self.device).shape[1]

    def _publish_objective(self, objective: Callable[..., Tensor], labels: NDArray[Any]) -> None:
        """Keep what else was learned."""

    def _publish_history(
        self, result: TrainingResult, learning_rate: float, *, reports: bool
    ) -> None:
        self.history_ = {"loss": result.loss, "validation_error": result.validation_error}
        self.n_iter_ = len(result.loss)
        if result.ended != "converged" and reports:
            message = _ENDINGS[result.ended].format(
                name=type(self).__name__,
                n_iter=self.n_iter_,
                max_epochs=self.max_epochs,
                learning_rate=learning_rate,
            )
            warnings.warn(message, ConvergenceWarning, stacklevel=3)

    def _fitted_units(self) -> Units:
        return Units(self.weights_["centre"], self.weights_["scale"])

    def _fitted_module(self) -> nn.Module:
        with torch.random.fork_rng([]):  # it draws weights that are then replaced
            net = build(self._module(), self.input_shape_, self.n_components_, self.device)
        module = Scaled(net)
        wanted = {name: value.shape for name, value in module.state_dict().items()}
        found = {name: self.weights_[name].shape for name in wanted if name in self.weights_}
        if wanted != found or self.n_components not in (None, self.n_components_):
            raise ValueError(
                f"{type(self).__name__} was fitted with another embedding or n_components than it "
                "has now. Fit it again, without warm_start."
            )
        module.load_state_dict({name: torch.tensor(self.weights_[name]) for name in wanted})
        return module.to(self.device)


def _in_units(rows: Rows, units: Units) -> Rows:
    weight = rows.weight
    if weight is not None:
        weight = weight / weight.mean() if len(weight) else None
    return Rows(units(rows.X), rows.y, weight, rows.share)


def _agree_on_start(
    ranks: Ranks, units: Units, embedding: nn.Module, rng: np.random.Generator
) -> Units:
    """Start all processes from what the first has found, however the others rounded."""
    ranks.copy_first(embedding)
    units, rng.bit_generator.state = ranks.first((units, rng.bit_generator.state))
    return units
