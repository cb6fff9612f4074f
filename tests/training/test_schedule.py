"""When the learning rate is cut, and which weights are kept."""

from ccml.training import Plateau


def test_three_plateaus_end_it():
    plateau = Plateau(patience=2, weights="start")
    plateau.update((0.3, 0.3), "first")
    cuts = [plateau.update((0.4, 0.2), "later") for _ in range(6)]
    assert cuts == [False, True] * 3
    assert plateau.stopped
    assert plateau.best_weights == "first"
    assert plateau.best_score == (0.3, 0.3)


def test_improvement_starts_the_wait_anew():
    plateau = Plateau(patience=2, weights=None)
    for error in (0.5, 0.6, 0.4, 0.6, 0.3, 0.6):
        assert not plateau.update((error, 0.0), error)
    assert plateau.best_weights == 0.3
    assert plateau.rate == 1


def test_equal_errors_are_told_apart_by_the_expected_error():
    plateau = Plateau(patience=1, weights=None)
    plateau.update((0.0, 0.20), "a")
    plateau.update((0.0, 0.10), "b")
    assert plateau.best_weights == "b"
    assert plateau.update((0.0, 0.0999), "c")  # less than a thousandth isn't progress
    assert plateau.best_weights == "b"


def test_nothing_better_leaves_the_start():
    plateau = Plateau(patience=1, weights="start")
    plateau.update((float("inf"), float("inf")), "worse")
    assert plateau.best_weights == "start"
