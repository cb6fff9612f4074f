"""Neighbourhood components analysis for k neighbours."""

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
class KNCA(MetricLearner):
    """Learn a map in which k neighbours likely vote for a point's own class.

    Stochastic k-neighbourhood selection [1]_ is `NCA` for k > 1: each point i chooses a set S of k
    neighbours with probability ∝ exp(-sum over S of ||A x_i - A x_j||^2), and the probability
    that the set votes for its class is maximised. The sums over all sets are exact.

    Choose it where KNN with k > 1 is to be used afterwards. It is the most expensive of the
    learners, about k times as much as `NCA`, so neighbours are chosen from smaller pools of rows.

    The parameters that aren't listed here and the attributes are those of `CCML`.

    Parameters
    ----------
    n_components : int, optional
    n_neighbors : int
        The k of the vote. With 1 the objective is that of `NCA`.
    selection : {"majority", "all"}
        Which sets are right: those where the own class has more rows than any other, or those
        where it has all.
    loss : {"log-likelihood", "expected-accuracy"}
        Maximise the mean log-probability of a right set, or the mean probability.

    References
    ----------
    .. [1] D. Tarlow, K. Swersky, L. Charlin, I. Sutskever and R. Zemel, "Stochastic
       k-neighborhood selection for supervised and unsupervised learning", ICML 2013.

    Examples
    --------
    >>> from ccml.learners import KNCA
    >>> from sklearn.datasets import load_iris
    >>> from ccml.evaluation import knn_error
    >>> X, y = load_iris(return_X_y=True)
    >>> Z = KNCA(2, n_neighbors=3, random_state=0).fit_transform(X[::2], y[::2])
    >>> knn_error(Z, y[::2], n_neighbors=3) < 0.05
    True
    """

    _: KW_ONLY
    selection: Literal["majority", "all"] = "majority"
    loss: Literal["log-likelihood", "expected-accuracy"] = "log-likelihood"

    _pool_rows: ClassVar = 2000

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_option("KNCA", "selection", self.selection, objectives.SELECTIONS)
        check_option("KNCA", "loss", self.loss, objectives.LOSSES)

    def _objective(
        self, embedding: nn.Module, training: Rows, rng: np.random.Generator
    ) -> Callable[..., Tensor]:
        return partial(
            objectives.knca,
            n_neighbors=self.n_neighbors,
            selection=self.selection,
            loss=self.loss,
        )
