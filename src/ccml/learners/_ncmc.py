"""Nearest class mean classification: its metric."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn

from ccml import objectives
from ccml._validation import check_count, check_option
from ccml.centroids import class_centroids
from ccml.learners._base import MetricLearner
from ccml.training import Rows, refuse_several


@dataclass(eq=False, repr=False)
class NCMC(MetricLearner):
    """Learn a linear map in which a point is nearest to the mean of its own class.

    The metric of nearest class mean classification [1]_: a class c has the probability

        p(c | x) ∝ sum over its centroids m of exp(-||A x - A m||^2 / 2)

    and the probability of the right class is maximised. With one centroid, the mean, this is
    multi-class logistic regression with weights of low rank; with several, by k-means within each
    class, a class may have several clusters.

    Choose it for many classes and for new ones: with `NearestMeanClassifier` a new class needs
    only its mean. An epoch costs rows x classes, the least of the learners.

    The parameters that aren't listed here and the attributes are those of `CCML`.

    Parameters
    ----------
    n_components : int, optional
    n_neighbors : int
        Of the CCKNN error on held-out rows that early stopping goes by.
    n_centroids : int
        Centroids of each class; a class with fewer rows has as many as rows.
    loss : {"log-likelihood", "expected-accuracy"}
        Maximise the mean of log p, or that of p.

    References
    ----------
    .. [1] T. Mensink, J. Verbeek, F. Perronnin and G. Csurka, "Distance-based image
       classification: generalizing to new classes at near-zero cost", TPAMI 35(11), 2013.

    Examples
    --------
    >>> from ccml import NearestMeanClassifier
    >>> from ccml.learners import NCMC
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> X, y = load_iris(return_X_y=True)
    >>> model = make_pipeline(NCMC(2, random_state=0), NearestMeanClassifier())
    >>> model.fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.95
    True
    """

    _: KW_ONLY
    n_centroids: int = 1
    loss: Literal["log-likelihood", "expected-accuracy"] = "log-likelihood"

    _pool_rows: ClassVar = 2000  # a point is compared with centroids, not with rows

    def _check_parameters(self) -> None:
        refuse_several("NCMC")  # its centroids are found in one
        super()._check_parameters()
        check_option("NCMC", "embedding", self.embedding, ["linear"])  # of means of the inputs
        check_count("NCMC", "n_centroids", self.n_centroids)
        check_option("NCMC", "loss", self.loss, objectives.LOSSES)

    def _objective(
        self, embedding: nn.Module, training: Rows, rng: np.random.Generator
    ) -> Callable[..., Tensor]:
        found = class_centroids(training.X, training.y, self.n_centroids, training.weight, rng)
        centroids = torch.tensor(found.points, dtype=torch.float32, device=self.device)
        centroid_classes = torch.tensor(found.classes, device=self.device)

        def objective(
            embeddings: Tensor, labels: Tensor, *, sample_weight: Tensor | None, pool: object
        ) -> Tensor:
            return objectives.nearest_mean(
                embeddings,
                labels,
                embedding(centroids),
                centroid_classes,
                loss=self.loss,
                sample_weight=sample_weight,
            )

        return objective
