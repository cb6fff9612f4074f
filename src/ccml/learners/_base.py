"""What every metric learner shares: the linear map and its start, or another embedding."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Tags
from torch import Tensor, nn

from ccml._validation import check_count, check_option
from ccml.embeddings import Embedding, Linear
from ccml.learners._initialization import (
    INITS,
    SCALE_NEIGHBORS,
    column_deviation,
    column_mean,
    column_scale,
    neighbour_scale,
)
from ccml.learners._linear import LinearMetric
from ccml.learners._trained import TrainedEmbedding
from ccml.learners._units import Units
from ccml.training import Rows, ScoreRule, ccknn_score

_MAX_COMPONENTS = 64  # unless the user asks for more
_MAX_POOL_ELEMENTS = 2**23  # of the pool's inputs, 32 MB
_SCORED_ROWS = 20_000  # that are embedded after every epoch, where that isn't one product


@dataclass(eq=False, repr=False)
class MetricLearner(TrainedEmbedding, LinearMetric):
    """A transformer that learns its map from labels by minimising an objective.

    A subclass adds the parameters of its objective, checks them in `_check_parameters`, and gives
    `_objective`.
    """

    _: KW_ONLY
    n_neighbors: int = 5
    embedding: str | Embedding = "linear"
    init: str | ArrayLike = "auto"
    warm_start: bool = False

    _pool_rows: ClassVar = 10_000  # about: pools are made equal
    _auto_init: ClassVar = "lda"

    def transform(self, X: ArrayLike) -> NDArray[np.floating[Any]]:
        """Map rows into the learned space, where Euclidean distance is the learned one."""
        return self._way().transform(self, X)

    transform.__doc__ = TrainedEmbedding.transform.__doc__

    def get_mahalanobis_matrix(self) -> NDArray[np.floating[Any]]:
        """Return the matrix M of the learned distance (x - x')^T M (x - x')."""
        if not self._is_linear():
            raise AttributeError(
                f"{type(self).__name__}(embedding={self.embedding!r}) has no matrix; only "
                "embedding='linear' has one. Use transform()."
            )
        return super().get_mahalanobis_matrix()

    def __sklearn_tags__(self) -> Tags:
        return self._way().__sklearn_tags__(self)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_) if self._is_linear() else int(self.n_components_)

    def _is_fitted(self) -> bool:
        return hasattr(self, "components_" if self._is_linear() else "weights_")

    def _is_linear(self) -> bool:
        return isinstance(self.embedding, str)

    def _way(self) -> type[LinearMetric] | type[TrainedEmbedding]:
        return LinearMetric if self._is_linear() else TrainedEmbedding

    def _starts_warm(self) -> bool:
        return self.warm_start

    def _takes_images(self) -> bool:
        return not self._is_linear()

    def _module(self) -> Embedding:
        assert not isinstance(self.embedding, str)
        return self.embedding

    def _score(self, embedding: nn.Module, objective: Callable[..., Tensor]) -> ScoreRule:
        return ccknn_score(self.n_neighbors, None if self._is_linear() else _SCORED_ROWS)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        name = type(self).__name__
        if self._is_linear():
            check_option(name, "embedding", self.embedding, ["linear"])
        if isinstance(self.init, str):
            check_option(name, "init", self.init, INITS)
        check_count(name, "n_neighbors", self.n_neighbors)
        if not self._is_linear() and not isinstance(self.batch_size, str) and self.batch_size < 4:
            raise ValueError(
                f"{name}(batch_size={self.batch_size}) can't hold two rows of two classes, and "
                "with this embedding neighbours come from the batch. Use hundreds, at least 4."
            )
        if not self._is_linear() and not _is_auto(self.init):
            raise ValueError(
                f"{name}(init={self.init!r}) is for embedding='linear'. Another embedding starts "
                "from its own weights; leave init at 'auto'."
            )

    def _check_data(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.float32] | None]:
        return self._way()._check_data(self, X, y, sample_weight)

    def _start(
        self, rows: Rows, rng: np.random.Generator, *, warm: bool, auto_init: str | None = None
    ) -> tuple[Units, nn.Module]:
        if not self._is_linear():
            return super()._start(rows, rng, warm=warm)
        centre = column_mean(rows)
        init = self.init if not _is_auto(self.init) else auto_init or self._auto_init
        warm = warm and hasattr(self, "components_")
        rows = rows._replace(X=rows.X - centre)  # and no longer the copy of the rows to train on
        scale, matrix = self._start_linear(rows, rng, init, warm)
        return Units(centre, scale), Linear(matrix)

    def _start_linear(
        self, rows: Rows, rng: np.random.Generator, init: str | ArrayLike, warm: bool
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Scale of the columns of centred rows, and the matrix to start from in scaled columns.

        They are such that typical neighbours are about 1 apart and the matrix has entries of
        order 1, so the learning rate means the same whatever the units of X. A ``warm``
        start is what was fitted before, as it is. The rows are scaled in place.
        """
        scale = column_scale(rows, SCALE_NEIGHBORS, rng)
        X = rows.X
        X *= scale
        if warm:
            start = self._given_components("warm_start", self.components_) / scale
        else:
            if isinstance(init, str):
                n_components = self.n_components or min(X.shape[1], _MAX_COMPONENTS)
                start = INITS[init](rows, n_components, rng)
                varies = column_deviation(rows) > 0
                if varies.any():
                    start[:, ~varies] = 0  # nothing is known of a constant column
            else:
                start = self._given_components("init", init) / scale
            start *= neighbour_scale(lambda sample: sample @ start.T, rows, SCALE_NEIGHBORS, rng)
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

    def _batch_sizes(self) -> tuple[int, int]:
        return (32, 512) if self._is_linear() else super()._batch_sizes()

    def _pool_size(self, input_shape: tuple[int, ...]) -> int:
        if not self._is_linear():
            return super()._pool_size(input_shape)
        return min(self._pool_rows, _MAX_POOL_ELEMENTS // input_shape[0])

    def _auto_learning_rate(self) -> float:
        return 0.03 if self._is_linear() else super()._auto_learning_rate()

    def _publish_map(self, units: Units, embedding: nn.Module, X: NDArray[Any]) -> None:
        for name in ("components_", "weights_", "input_shape_", "n_components_"):
            self.__dict__.pop(name, None)  # of another embedding, perhaps
        if not self._is_linear():
            super()._publish_map(units, embedding, X)
            return
        matrix: torch.Tensor = embedding.components  # type: ignore[assignment]
        components = matrix.detach().cpu().numpy().astype(np.float64) * units.scale
        self.components_: NDArray[Any] = components.astype(X.dtype)


def _is_auto(init: str | ArrayLike) -> bool:
    return isinstance(init, str) and init == "auto"


def _is_usable(components: NDArray[Any]) -> bool:
    return bool(np.isfinite(components).all() and components.any())
