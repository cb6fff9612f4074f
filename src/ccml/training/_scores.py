"""How good an embedding is on rows that it isn't trained on."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccml.neighbors import ClassIndex
from ccml.training._rows import Rows
from ccml.training._schedule import Score

Embed = Callable[[Rows], NDArray[np.float32]]
ScoreRule = Callable[[Embed, Rows, Rows], Score]


def ccknn_score(n_neighbors: int, max_rows: int | None = None) -> ScoreRule:
    """CCKNN error among the training rows, and its expectation under Eq. `org_cne`.

    With ``max_rows``, among about so many of them, where to embed all would take too long.
    """

    def score(embed: Embed, training: Rows, validation: Rows) -> Score:
        # The rows held back for training come class by class, so this takes its share of each.
        some = slice(None, None, -(-len(training.y) // (max_rows or len(training.y))))
        index = ClassIndex(embed(training.take(some)), training.y[some])
        distances = index.class_distances(embed(validation), n_neighbors)
        weights = np.exp(distances.min(axis=1, keepdims=True) - distances)  # (n, C)
        return _score_of(weights / weights.sum(axis=1)[:, None], index.classes, validation)

    return score


def softmax_score(probabilities: Callable[[NDArray[np.float32]], NDArray[Any]]) -> ScoreRule:
    """Error of the likeliest class, and the probability of all the others."""

    def score(embed: Embed, training: Rows, validation: Rows) -> Score:
        p = probabilities(embed(validation))
        return _score_of(p, np.arange(p.shape[1]), validation)

    return score


def _score_of(p: NDArray[Any], classes: NDArray[np.intp], validation: Rows) -> Score:
    """Error and expected error from probabilities of the classes, (n, C)."""
    is_own = classes == validation.y[:, None]
    return (
        float(np.average(classes[p.argmax(axis=1)] != validation.y, weights=validation.weight)),
        float(np.average(1 - (p * is_own).sum(axis=1), weights=validation.weight)),
    )
