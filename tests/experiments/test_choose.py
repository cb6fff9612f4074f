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


def test_a_trial_that_is_worse_than_most_ends_after_a_folding(tmp_path, monkeypatch):
    n_folds = []  # of each trial

    def errors_by_k(cell, data, fold, ks):
        if cell.seed == 0:
            n_folds.append(0)
        n_folds[-1] += 1
        return [[len(n_folds) / 100] * len(ks)] * 2  # every trial is worse than those before

    monkeypatch.setattr(choose, "errors_by_k", errors_by_k)
    minutes = itertools.count(step=60)
    monkeypatch.setattr(choose, "time", SimpleNamespace(monotonic=lambda: next(minutes)))
    found = choose.choose("wine", "Euclidean-best-PCA", tmp_path / "trials.db", minutes=5)
    assert n_folds == [100, 100, 10, 10, 10]
    assert found.n_trials == 5
    assert found.settings.pca == protocol.settings_of("wine", "Euclidean-best-PCA").pca


def test_a_search_begins_with_what_is_good_for_other_rows():
    now = protocol.settings_of("norb", "LMNN")
    space = choose._space(datasets.load("digits"), "LMNN")
    first, *others = choose._known("norb", "LMNN", now, space)
    assert first == now.learner
    assert now.learner | {"weight_decay": 0.1} in others  # CCML's
    assert not any("n_centroids" in learner for learner in others)  # NCMC's own
