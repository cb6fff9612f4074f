"""Dimensionality reduction by learning an invariant mapping."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial

import numpy as np
from torch import Tensor, nn

from ccml import objectives
from ccml._validation import check_number
from ccml.learners._base import MetricLearner
from ccml.training import Rows


@dataclass(eq=False, repr=False)
class DrLIM(MetricLearner):
    """Learn a map that brings a class together and keeps others a margin apart.

    The contrastive loss of DrLIM [1]_ takes pairs of points at distance d = ||A x_i - A x_j||: one
    of a single class costs d^2 / 2, one of two classes max(0, margin - d)^2 / 2. Both kinds are
    averaged for each point and added.

    Choose it where every class should become one cluster, as for retrieval or for means: all
    pairs of a class attract each other, near or far, so a class with several clusters suffers.

    The parameters that aren't listed here and the attributes are those of `CCML`.

    Parameters
    ----------
    n_components : int, optional
    n_neighbors : int
        Of the CCKNN error on held-out rows that early stopping goes by.
    margin : float
        In units of the typical distance to a neighbour of one's class at the start.

    References
    ----------
    .. [1] R. Hadsell, S. Chopra and Y. LeCun, "Dimensionality reduction by learning an invariant
       mapping", CVPR 2006.

    Examples
    --------
    >>> from ccml.learners import DrLIM
    >>> from sklearn.datasets import load_iris
    >>> from ccml.evaluation import map_at_r
    >>> X, y = load_iris(return_X_y=True)
    >>> Z = DrLIM(2, random_state=0).fit_transform(X[::2], y[::2])
    >>> map_at_r(Z, y[::2]) > map_at_r(X[::2], y[::2])
    True
    """

    _: KW_ONLY
    margin: float = 3.0

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("DrLIM", "margin", self.margin, above=0)

    def _objective(
        self, embedding: nn.Module, training: Rows, rng: np.random.Generator
    ) -> Callable[..., Tensor]:
        return partial(objectives.contrastive, margin=self.margin)
