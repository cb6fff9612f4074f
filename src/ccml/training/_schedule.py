"""When to slow down, when to stop, and which weights were best."""

from typing import Any

Score = tuple[float, float]

_CUTS = 3
_FACTOR = 0.2


class Plateau:
    """Cut the learning rate when the score stops falling, and stop after the third time.

    A score is a pair of numbers, lower is better: the first decides, and where it is equal the
    second.

    Parameters
    ----------
    patience : int
        Epochs without a better score until the rate is cut.
    weights : object
        The weights at the start.
    tolerance : float
        The second number has to be lower by more than this to be better.

    Examples
    --------
    >>> from ccml.training import Plateau
    >>> plateau = Plateau(patience=2, weights="start")
    >>> [plateau.update(score, weights="later") for score in ((0.4, 0.3), (0.4, 0.3), (0.4, 0.3))]
    [False, False, True]
    >>> plateau.rate
    0.2
    """

    def __init__(self, patience: int, weights: Any, tolerance: float = 0.0) -> None:
        self.patience = patience
        self.tolerance = tolerance
        self.best_weights = weights
        self.best_score: Score = (float("inf"), float("inf"))
        self.rate = 1.0  # factor on the learning rate
        self.stopped = False
        self._cuts = 0
        self._waited = 0

    def update(self, score: Score, weights: Any) -> bool:
        """Take the score after an epoch and the weights that had it; say if the rate was cut."""
        (first, second), (best_first, best_second) = score, self.best_score
        if first < best_first or (first == best_first and second < best_second - self.tolerance):
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
