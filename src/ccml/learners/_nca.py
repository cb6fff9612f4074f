"""Neighbourhood components analysis."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import ClassVar, Literal

import numpy as np
from torch import Tensor, nn

from ccml import objectives
from ccml._validation import check_option
from ccml.learners._base import MetricLearner
from ccml.training import Rows


@dataclass(eq=False, repr=False)
class NCA(MetricLearner):
    """Learn a map in which a point likely has a neighbour of its own class.

    Neighbourhood components analysis [1]_ lets each point i choose one neighbour j with
    probability p_ij ∝ exp(-||A x_i - A x_j||^2), j ≠ i, and maximises the expected leave-one-out
    accuracy: the mean over i of p_i, the sum of p_ij over the j of its class.

    Choose it as the standard to compare with. Every point pulls and pushes, if only a little, so
    it costs more than `CCML` and looks at a wider neighbourhood. Unlike scikit-learn's, it is
    trained in mini-batches (or with ``batch_size`` at least the number of rows, on all at once),
    in memory that doesn't grow with the square of the rows.

    The parameters that aren't listed here and the attributes are those of `CCML`.

    Parameters
    ----------
    n_components : int, optional
    n_neighbors : int
        Of the CCKNN error on held-out rows that early stopping goes by; NCA itself has no k.
    loss : {"log-likelihood", "expected-accuracy"}
        Maximise the mean of log p_i, or that of p_i.

    References
    ----------
    .. [1] J. Goldberger, S. Roweis, G. Hinton and R. Salakhutdinov, "Neighbourhood components
       analysis", NIPS 2004.

    Examples
    --------
    >>> from ccml.learners import NCA
    >>> from sklearn.datasets import load_iris
    >>> from ccml.evaluation import knn_error
    >>> X, y = load_iris(return_X_y=True)
    >>> Z = NCA(2, random_state=0).fit_transform(X[::2], y[::2])
    >>> knn_error(Z, y[::2]) < 0.05
    True
    """

    _: KW_ONLY
    loss: Literal["log-likelihood", "expected-accuracy"] = "log-likelihood"

    _pool_rows: ClassVar = 20_000  # all rows of a pool count, so a smaller one changes the loss

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_option("NCA", "loss", self.loss, objectives.LOSSES)

    def _objective(
        self, embedding: nn.Module, training: Rows, rng: np.random.Generator
    ) -> Callable[..., Tensor]:
        return partial(objectives.nca, loss=self.loss)
