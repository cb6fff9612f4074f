"""Large margin nearest neighbours."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import ClassVar

import numpy as np
from torch import Tensor, nn

from ccml import objectives
from ccml._validation import check_number
from ccml.learners._base import MetricLearner
from ccml.training import Rows


@dataclass(eq=False, repr=False)
class LMNN(MetricLearner):
    """Learn a map in which other classes stay a margin beyond one's nearest neighbours.

    Large margin nearest neighbours [1]_ pulls the k nearest points of its class, its targets,
    towards each point i, and pushes away impostors, points l of other classes that are less than
    a margin farther than a target j::

        (1 - push) mean_j d_ij + push mean_j sum_l max(0, margin + d_ij - d_il)

    with the squared distances d_ij = ||A x_i - A x_j||^2, averaged over i. Targets and impostors
    are found anew at every step, under the metric as it is then.

    Choose it for KNN: what is far enough is left alone, so it keeps the shape of the classes. A
    class of k or fewer rows has as many targets as it can; without impostors only the pull is
    left.

    The parameters that aren't listed here and the attributes are those of `CCML`.

    Parameters
    ----------
    n_components : int, optional
    n_neighbors : int
        Targets of each point.
    margin : float
        In the units of squared distances after the initial scaling, where a neighbour of one's
        class is typically at 1.
    push : float
        Weight of the impostors against the pull of the targets, from 0 to 1.
    init : {"auto", "best", "lda", "pca", "random", "identity"} or array
        As in `CCML`, but "auto" is "best": LMNN changes the metric less than the others, so the
        start matters more.

    References
    ----------
    .. [1] K. Q. Weinberger and L. K. Saul, "Distance metric learning for large margin nearest
       neighbor classification", JMLR 10, 2009.

    Examples
    --------
    >>> from ccml.learners import LMNN
    >>> from sklearn.datasets import load_iris
    >>> from ccml.evaluation import knn_error
    >>> X, y = load_iris(return_X_y=True)
    >>> Z = LMNN(2, n_neighbors=3, random_state=0).fit_transform(X[::2], y[::2])
    >>> knn_error(Z, y[::2], n_neighbors=3) < 0.05
    True
    """

    _: KW_ONLY
    margin: float = 1.0
    push: float = 0.9

    _auto_init: ClassVar = "best"

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("LMNN", "margin", self.margin, above=0)
        check_number("LMNN", "push", self.push, minimum=0, maximum=1)

    def _objective(
        self, embedding: nn.Module, training: Rows, rng: np.random.Generator
    ) -> Callable[..., Tensor]:
        return partial(
            objectives.large_margin,
            n_neighbors=self.n_neighbors,
            margin=self.margin,
            push=self.push,
        )
