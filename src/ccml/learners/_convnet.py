"""The paper's convolutional baseline: the same network, trained to classify by itself."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from ccml._dask import by_blocks
from ccml.embeddings import ACTIVATIONS, Conv, Embedding
from ccml.learners._trained import TrainedEmbedding
from ccml.training import Rows, ScoreRule, seeded_torch, softmax_score


@dataclass(eq=False, repr=False)
class ConvNetClassifier(ClassifierMixin, TrainedEmbedding):
    """A convolutional network with a softmax layer, trained by cross-entropy.

    The network is that of `ConvCCML`, so that the two can be compared. Choose it where only the
    label matters; `ConvCCML` is at least as accurate and its decisions can be shown as
    neighbours. The last hidden layer, before its activation, can be used as a metric too: it is
    what `transform` gives.

    The parameters that aren't listed here and the other attributes are those of `CCML`. Early
    stopping goes by the network's own error.

    Parameters
    ----------
    n_components : int, optional
        Units of the last hidden layer; 64 by default.
    layers : {1, 2}
    activation : {"relu", "tanh"}
    image_shape : tuple of int, optional
        (height, width) or (channels, height, width) of images that come as flat rows.
    max_shift : int
        In training, shift each image at random by up to so many pixels.

    Attributes
    ----------
    classes_ : ndarray
        The labels.

    Examples
    --------
    >>> from ccml import ConvNetClassifier
    >>> from sklearn.datasets import load_digits
    >>> digits = load_digits()
    >>> X, y = digits.images, digits.target  # (1797, 8, 8)
    >>> model = ConvNetClassifier(layers=1, random_state=0).fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.9
    True
    """

    _: KW_ONLY
    layers: Literal[1, 2] = 2
    activation: Literal["relu", "tanh"] = "relu"
    image_shape: tuple[int, ...] | None = None
    max_shift: int = 0

    @by_blocks
    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the likeliest class of each image."""
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(axis=1)]

    @by_blocks
    def predict_proba(self, X: ArrayLike) -> NDArray[np.floating[Any]]:
        """Return the probability of each class of ``classes_``, (n_samples, n_classes)."""
        check_is_fitted(self)
        return self._fitted_softmax().probabilities(self.transform(X))

    def _batch_sizes(self) -> tuple[int, int]:
        return 32, 200  # no neighbours are needed, and small batches learn in fewer epochs

    def _module(self) -> Embedding:
        return Conv(
            self.layers,
            activation=self.activation,
            image_shape=self.image_shape,
            max_shift=self.max_shift,
        )

    def _objective(
        self, embedding: nn.Module, training: Rows, rng: np.random.Generator
    ) -> Callable[..., Tensor]:
        with torch.no_grad():
            example = torch.from_numpy(training.X[:1]).to(self.device)
            n_units = embedding(example).shape[1]
        with seeded_torch(rng):
            return _Softmax(n_units, int(training.y.max()) + 1, self.activation)

    def _score(self, embedding: nn.Module, objective: Callable[..., Tensor]) -> ScoreRule:
        assert isinstance(objective, _Softmax)
        return softmax_score(objective.probabilities)

    def _publish_objective(self, objective: Callable[..., Tensor], labels: NDArray[Any]) -> None:
        assert isinstance(objective, _Softmax)
        self.classes_ = labels
        self.weights_ |= {
            f"softmax.{name}": value.cpu().numpy().copy()
            for name, value in objective.state_dict().items()
        }

    def _fitted_softmax(self) -> "_Softmax":
        with torch.random.fork_rng([]):  # it draws weights that are then replaced
            softmax = _Softmax(self.n_components_, len(self.classes_), self.activation)
        softmax.load_state_dict(
            {name: torch.tensor(self.weights_[f"softmax.{name}"]) for name in softmax.state_dict()}
        )
        return softmax.to(self.device)


class _Softmax(nn.Module):
    """The last layer, and the loss that all layers are trained by."""

    def __init__(self, n_units: int, n_classes: int, activation: str) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[activation]()
        self.linear = nn.Linear(n_units, n_classes)

    def forward(
        self, embeddings: Tensor, labels: Tensor, *, sample_weight: Tensor | None, pool: object
    ) -> Tensor:
        losses = nn.functional.cross_entropy(self._logits(embeddings), labels, reduction="none")
        if sample_weight is None:
            return losses.mean()
        return (losses * sample_weight).sum() / sample_weight.sum()

    @torch.no_grad()
    def probabilities(self, Z: NDArray[np.float32]) -> NDArray[np.float32]:
        """Probabilities of the classes, (n, C), of points of the last hidden layer."""
        logits = self._logits(torch.from_numpy(Z).to(self.linear.weight.device))
        return logits.softmax(1).cpu().numpy()

    def _logits(self, embeddings: Tensor) -> Tensor:
        logits: Tensor = self.linear(self.activation(embeddings))
        return logits
