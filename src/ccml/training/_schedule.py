"""When to slow down, when to stop, and which weights were best."""

from typing import Any

Score = tuple[float, float]

_CUTS = 3
_FACTOR = 0.2
_TOLERANCE = 1e-3


class Plateau:
    """Cut the learning rate when the score stops improving, and stop after the third time.

    A score is a pair, lower is better: the first number decides, and where it is equal the
    second, if it is better by a thousandth. With few validation rows the error alone (first)
    stands still for long while the expected error (second) still falls.

    Examples
    --------
    >>> from ccml.training import Plateau
    >>> plateau = Plateau(patience=2, weights=None)
    >>> [plateau.update((error, 0.0), weights=None) for error in (0.5, 0.4, 0.4, 0.4)]
    [False, False, False, True]
    >>> plateau.rate
    0.2
    """

    def __init__(self, patience: int, weights: Any) -> None:
        self.patience = patience
        self.rate = 1.0  # factor on the learning rate
        self.best_score: Score = (float("inf"), float("inf"))
        self.best_weights = weights
        self.stopped = False
        self._cuts = 0
        self._waited = 0

    def update(self, score: Score, weights: Any) -> bool:
        """Take the score after an epoch and the weights that had it; say if the rate was cut."""
        best_error, best_soft = self.best_score
        error, soft = score
        if error < best_error or (error == best_error and soft < best_soft - _TOLERANCE):
            self.best_score, self.best_weights, self._waited = score, weights, 0
            return False
        self._waited += 1
        if self._waited < self.patience:
            return False
        self._waited = 0
        self._cuts += 1
        self.rate *= _FACTOR
        self.stopped = self._cuts == _CUTS
        return True
