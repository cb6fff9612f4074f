"""The search for Table I's settings: on validation rows only, and resumable."""

import itertools
import os
from types import SimpleNamespace

import numpy as np
import pytest

from ccml import datasets
from ccml.experiments import choose, protocol
from ccml.experiments.cells import Cell


@pytest.fixture
def no_test_rows(monkeypatch):
    """Digits with worthless test rows."""
    data = datasets.load("digits")
    data.X[data.test] = np.nan
    monkeypatch.setattr(protocol, "load", lambda name: data)
    return data


def test_the_first_trial_is_what_is_used_now(tmp_path, no_test_rows):
    found = choose.choose("digits", "NCA", tmp_path / "trials.db", minutes=0)
    assert found.n_trials == 1
    assert found.settings.learner == protocol.settings_of("digits", "NCA").learner
    assert found.settings.knn in choose.NEIGHBORS
    assert 0 < found.knn < 5


def test_a_search_goes_on_and_never_gets_worse(tmp_path, no_test_rows):
    trials = tmp_path / "trials.db"
    first = choose.choose("digits", "Euclidean-best-PCA", trials, minutes=0)
    second = choose.choose("digits", "Euclidean-best-PCA", trials, minutes=0.03)
    third = choose.choose("digits", "Euclidean-best-PCA", trials, minutes=0)
    assert second.n_trials > 1
    assert second.knn <= first.knn
    assert second.ccknn <= first.ccknn
    assert third == second


def test_what_is_chosen_is_written_and_read(tmp_path, no_test_rows):
    cells = [
        Cell("digits", row, seed, protocol.settings_of("digits", row))
        for row in ("Euclidean", "ITML")
        for seed in (0, 1)
    ]
    told = []
    choose.choose_all(cells, tmp_path, minutes=0, on_chosen=told.append)
    assert [chosen.row for chosen in told] == ["Euclidean", "ITML"]
    for chosen in told:
        read = protocol.settings_of("digits", chosen.row, tmp_path / "settings")
        assert read == chosen.settings
        noted = protocol.table(tmp_path / "settings" / "digits.toml")[chosen.row]["validation"]
        assert noted["knn"] == round(chosen.knn, 2)
        assert noted["trials"] == 1


def test_two_searches_do_not_share_a_folder(tmp_path):
    cells = [Cell("digits", "Euclidean", 0, protocol.settings_of("digits", "Euclidean"))]

    def another(chosen):
        with pytest.raises(ValueError, match=r"Another search is at work in .* another --out"):
            choose.choose_all(cells, tmp_path, minutes=0)
        told.append(chosen)

    told = []
    choose.choose_all(cells, tmp_path, minutes=0, on_chosen=another)
    choose.choose_all(cells, tmp_path, minutes=0, on_chosen=told.append)
    assert len(told) == 2


def test_isolets_speakers_are_on_one_side_of_a_fold():
    if not os.environ.get("CCML_DATA"):
        pytest.skip("needs ISOLET: set CCML_DATA")
    isolet = protocol.load("isolet")
    folds = list(itertools.chain.from_iterable(choose._rounds("isolet", isolet)))
    assert len(folds) == 4
    for fold in folds:
        heard, unheard = (set(isolet.factors["speakers"][part]) for part in (fold.train, fold.test))
        assert heard | unheard == {1, 2, 3, 4}
        assert not heard & unheard


def test_wine_is_validated_on_other_folds_than_the_tables():
    wine = datasets.load("wine")
    searched = list(itertools.chain.from_iterable(choose._rounds("wine", wine)))
    of_table = [fold for seed in range(10) for fold in protocol.folds("wine", wine, seed)]
    assert len(searched) == 100
    assert not {fold.test.tobytes() for fold in searched} & {
        fold.test.tobytes() for fold in of_table
    }


@pytest.mark.parametrize("row", protocol.ROWS)
def test_what_is_searched_are_parameters_of_the_learner(row):
    digits = datasets.load("digits")
    space = choose._space(digits, row)
    learner = protocol.pipeline("digits", digits, row, protocol.Settings(), seed=0)[-1]
    assert set(space) - {"pca"} <= set(learner.get_params())


@pytest.fixture
def errors(monkeypatch):
    """Errors of each fold of each trial on wine, instead of training; time passes by the trial."""
    given, asked = [], []  # a trial's error; how many folds it was asked for

    def errors_by_k(cell, data, fold, ks):
        if cell.seed == 0:
            asked.append(0)
        asked[-1] += 1
        return [[given[len(asked) - 1]] * len(ks)] * 2

    monkeypatch.setattr(choose, "errors_by_k", errors_by_k)
    minutes = itertools.count(step=60)
    monkeypatch.setattr(choose, "time", SimpleNamespace(monotonic=lambda: next(minutes)))
    return given, asked


def test_a_trial_that_is_worse_than_most_ends_after_a_folding(tmp_path, errors):
    given, asked = errors
    given += [0.02, 0.03, 0.04, 0.05, 0.01]
    found = choose.choose("wine", "ITML", tmp_path / "trials.db", minutes=5)
    assert asked == [100, 100, 10, 10, 100]
    assert found.n_trials == 5
    assert found.knn == pytest.approx(1)


def test_of_euclidean_distances_each_rule_has_its_own_best_trial(tmp_path, monkeypatch, errors):
    of_rules = {40: (0.02, 0.03), 60: (0.03, 0.02)}

    def errors_by_k(cell, data, fold, ks):
        return [[error] * len(ks) for error in of_rules.get(cell.settings.pca, (0.5, 0.5))]

    monkeypatch.setattr(choose, "errors_by_k", errors_by_k)
    used = protocol.Settings(pca=40, pca_ccknn=60)
    monkeypatch.setattr(protocol, "settings_of", lambda *_: used)
    found = choose.choose("wine", "Euclidean-best-PCA", tmp_path / "trials.db", minutes=2)
    assert (found.settings.pca, found.settings.pca_ccknn) == (40, 60)
    assert (found.knn, found.ccknn) == pytest.approx((2, 2))


def test_what_is_used_is_tried_after_a_kill_too(tmp_path, monkeypatch, errors):
    given, asked = errors

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(choose, "errors_by_k", killed)
        with pytest.raises(KeyboardInterrupt):
            choose.choose("wine", "ITML", tmp_path / "trials.db", minutes=0)
    given.append(0.03)
    found = choose.choose("wine", "ITML", tmp_path / "trials.db", minutes=0)
    assert asked == [100]
    assert found.settings.learner == protocol.settings_of("wine", "ITML").learner
    assert found.n_trials == 1


def test_data_that_is_not_there_is_passed_over(tmp_path, monkeypatch):
    def load(name):
        if name == "mnist":
            raise FileNotFoundError(name)
        return datasets.load(name)

    monkeypatch.setattr(protocol, "load", load)
    cells = [
        Cell(name, "Euclidean", 0, protocol.settings_of(name, "Euclidean"))
        for name in ("mnist", "digits")
    ]
    told = []
    choose.choose_all(cells, tmp_path, minutes=0, on_chosen=told.append)
    assert [chosen.dataset for chosen in told] == ["digits"]


def test_a_search_begins_with_what_is_good_for_other_rows():
    used = protocol.settings_of("norb", "LMNN")
    space = choose._space(datasets.load("digits"), "LMNN")
    first, *others = choose._starts("norb", "LMNN", used, space)
    assert first == used
    learners = [start.learner for start in others]
    assert used.learner | {"weight_decay": 0.1} in learners  # CCML's
    assert not any("n_centroids" in learner for learner in learners)  # NCMC's own
