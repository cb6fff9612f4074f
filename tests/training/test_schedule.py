"""When the learning rate is cut, and which weights are kept."""

from ccml.training import Plateau


def test_three_plateaus_end_it():
    plateau = Plateau(patience=2, weights="start")
    plateau.update((0.3, 0.3), "first")
    cuts = [plateau.update((0.3, 0.3), "later") for _ in range(6)]
    assert cuts == [False, True] * 3
    assert plateau.stopped
    assert plateau.best_weights == "first"
    assert plateau.best_score == (0.3, 0.3)


def test_improvement_starts_the_wait_anew():
    plateau = Plateau(patience=2, weights=None)
    for score in (0.5, 0.6, 0.4, 0.6, 0.3, 0.6):
        assert not plateau.update((score, 0.0), score)
    assert plateau.best_weights == 0.3
    assert plateau.rate == 1


def test_equal_errors_are_told_apart_by_the_second_number():
    plateau = Plateau(patience=1, weights=None, tolerance=0.01)
    plateau.update((0.1, 0.20), "a")
    plateau.update((0.1, 0.15), "b")
    assert plateau.best_weights == "b"
    assert plateau.update((0.1, 0.145), "c")  # less than the tolerance is no progress
    assert plateau.update((0.2, 0.001), "d")
    assert plateau.best_weights == "b"


def test_nothing_better_leaves_the_start():
    plateau = Plateau(patience=1, weights="start")
    plateau.update((float("inf"), float("inf")), "no better")
    assert plateau.best_weights == "start"
