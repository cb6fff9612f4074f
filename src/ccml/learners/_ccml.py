"""Class-conditional metric learning."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from torch import Tensor, nn

from ccml import objectives
from ccml._validation import check_option
from ccml.embeddings import Conv
from ccml.learners._base import MetricLearner
from ccml.learners._partial_fit import PartialFit
from ccml.training import Rows, share_queries

_OBJECTIVES = {"local": objectives.local, "per-class": objectives.per_class}


@dataclass(eq=False, repr=False)
class CCML(PartialFit, MetricLearner):
    """Learn a map in which each point's nearest neighbours are of its own class.

    Class-conditional metric learning [1]_ makes the class-conditional nearest-neighbour rule
    (`CCKNNClassifier`) differentiable: a point belongs to a class with a probability that falls
    with its mean squared distance to its k nearest points of that class. The map is trained by
    gradient descent on the probability of the right class. Only the nearest points pull and push,
    so classes may have several clusters; with a larger k the metric becomes more global.

    Parameters
    ----------
    n_components : int, optional
        Dimensions of the learned space; by default the number of features, at most 64.
    n_neighbors : int
        The k of the objective.
    objective : {"local", "per-class"}
        Own class against all others together (Eq. `new_cne`), or a softmax over all classes (Eq.
        `org_cne`).
    loss : {"log-likelihood", "expected-accuracy"}
        What to maximise: the log-probability of the right class, or the probability itself (the
        expected accuracy, Eq. `expectation`), which gives up on points that it can't get right.
    embedding : "linear", MLP, Conv, torch.nn.Module or function
        The form of the map: a matrix, an embedding of `ccml.embeddings`, a module of your own, or
        a function that makes one from the shape of an input. A module is copied, not changed.
        What an embedding other than "linear" and `MLP` gets is the inputs as they are, bytes
        (uint8) scaled by 1/255.
    init : {"auto", "lda", "pca", "best", "random", "identity"} or array (n_components, n_features)
        Where a linear map starts; "auto" is "lda": principal directions once the classes are
        spheres. "best" is "lda" or "pca", by leave-one-out error. Its overall scale is set from
        the data. A stream starts from "pca": a first chunk is too small for "lda".
    batch_size : int or "auto"
        Queries in a step. Their neighbours come from a larger pool of rows if the embedding is
        "linear", and else from the batch.
    max_epochs : int
    learning_rate : float or "auto"
        Of Adam; for a linear map relative to the size of its entries at the start. "auto" is 0.03
        for a linear map and 0.003 for other embeddings. It is cut whenever ``n_epochs_no_change``
        epochs bring nothing better; training ends at the third time.
    weight_decay : float
        Cost of the squared norm of the map, relative to that of the initial map.
    decayed_layers : {"last", "all"}
        The layers that ``weight_decay`` is for.
    dropout : float
        Fraction of the columns that each step doesn't see. With hundreds of columns 0.2 makes the
        metric generalise better, in about twice the epochs.
    validation_fraction : float
        Fraction of the rows, at most 5,000, held out to find the best epoch by CCKNN error. With
        0 the training loss is used, and every row is trained on.
    n_epochs_no_change : int
    warm_start : bool
        Start from what the previous fit ended with.
    random_state : int, RandomState or None
        With the same value, the same data and the same machine, the result is bitwise the same.
    device : str
        Where torch computes: "cpu", "cuda", ...
    verbose : bool
        Show a progress bar.
    callbacks : sequence of callables, optional
        Each is called as ``callback(epoch, loss, validation_error)`` after every epoch.
    checkpoint : path, optional
        A file in which `fit` saves its state, and from which it goes on if it was killed: call it
        again with the same data, parameters and ``random_state``, and it ends with the same
        weights, bit for bit, as if nothing had happened. ``max_epochs`` may be raised.
    checkpoint_seconds : float
        Time between saves.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The learned map, where it is linear: ``transform(X)`` is ``X @ components_.T``.
    weights_ : dict of ndarray
        The learned weights, where the embedding isn't linear.
    history_ : dict of ndarray
        ``"loss"`` and ``"validation_error"`` of each epoch.
    n_iter_ : int
        Number of epochs.

    References
    ----------
    .. [1] D. J. Im and G. W. Taylor, "Learning a metric for class-conditional KNN",
       arXiv:1607.03050, 2016.

    Examples
    --------
    >>> from ccml import CCML, CCKNNClassifier
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.model_selection import cross_val_score
    >>> from sklearn.pipeline import make_pipeline
    >>> X, y = load_wine(return_X_y=True)  # columns in very different units
    >>> model = make_pipeline(CCML(random_state=0), CCKNNClassifier())
    >>> bool(cross_val_score(model, X, y, cv=5).mean() > 0.95)
    True
    """

    _: KW_ONLY
    objective: Literal["local", "per-class"] = "local"
    loss: Literal["log-likelihood", "expected-accuracy"] = "log-likelihood"

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_option("CCML", "objective", self.objective, _OBJECTIVES)
        check_option("CCML", "loss", self.loss, objectives.LOSSES)

    def _objective(
        self, embedding: nn.Module, training: Rows, rng: np.random.Generator
    ) -> Callable[..., Tensor]:
        function = _OBJECTIVES[self.objective]
        return share_queries(
            partial(function, n_neighbors=self.n_neighbors, loss=self.loss), training.share
        )


def ConvCCML(  # noqa: N802, it stands for a class
    n_components: int | None = None,
    *,
    layers: Literal[1, 2] = 2,
    activation: Literal["relu", "tanh"] = "relu",
    image_shape: tuple[int, ...] | None = None,
    max_shift: int = 0,
    **parameters: Any,
) -> CCML:
    """Return ``CCML(embedding=Conv(...))``, the paper's convolutional form, for images.

    Parameters
    ----------
    n_components : int, optional
        64 by default.
    layers, activation, image_shape, max_shift
        Of `ccml.embeddings.Conv`.
    **parameters
        Of `CCML`.

    Examples
    --------
    >>> from ccml import ConvCCML
    >>> ConvCCML(layers=1)
    CCML(embedding=Conv(layers=1, n_filters=10, activation='relu', image_shape=None, max_shift=0))
    """
    embedding = Conv(layers, activation=activation, image_shape=image_shape, max_shift=max_shift)
    return CCML(n_components, embedding=embedding, **parameters)
