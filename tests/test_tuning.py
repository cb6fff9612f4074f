"""Tuning: chosen on validation rows alone, never worse there, and never lost."""

import sys
import warnings
from dataclasses import replace
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import optuna
import pandas as pd
import pytest

from ccml import _study, learners, modelling, tuning
from ccml.classifiers import CCKNNClassifier
from ccml.learners import CCML
from ccml.modelling import Options, make
from ccml.reading import DataFileError, Rows
from ccml.tuning import StudyFileError, tuned

pytestmark = pytest.mark.filterwarnings("ignore:.* hadn't converged")  # of fits outside a search

SHORT = {"max_epochs": 2}
OPTIONS = Options(seed=3, parameters=SHORT)
RNG = np.random.default_rng(0)
Y = np.repeat(["a", "b", "c"], 30)
X = RNG.normal(size=(90, 6)) + 1.5 * (Y[:, None] == ["a", "b", "c", "-", "-", "-"])
ROWS = Rows("vectors", X, Y)


@pytest.fixture
def study(tmp_path):
    return tmp_path / "model of mine?.ccml.study.db"


@pytest.fixture(scope="module")
def one_trial(tmp_path_factory):
    path = tmp_path_factory.mktemp("studies") / "one.db"
    tuned(ROWS, OPTIONS, minutes=0, study=path)
    return path.read_bytes()


@pytest.fixture
def started(study, one_trial):
    """A study that has the first trial."""
    study.write_bytes(one_trial)
    return study


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still, so that no test depends on how fast the machine is."""
    clock = SimpleNamespace(now=0.0)
    clock.monotonic = lambda: clock.now
    monkeypatch.setattr(tuning, "time", clock)
    return clock


@pytest.fixture
def search(clock):
    """Search until ``n`` reports are in, of which one is at the beginning."""

    def run(study, rows=ROWS, options=OPTIONS, n=3, **more):
        history = []

        def minute_by_minute(found):
            history.append(found)
            clock.now += 60

        best = tuned(rows, options, minutes=n, study=study, on_trial=minute_by_minute, **more)
        return best, history

    return run


def trials_of(study):
    """What an outsider reads in the file: parameters, states and errors."""
    with _study._storage(study) as storage:
        return optuna.load_study(study_name="ccml", storage=storage).trials


def outcomes(study):
    return [(trial.params, trial.value) for trial in trials_of(study) if trial.value is not None]


def held_out_of(rows, seed):
    kept = {tuple(row) for row in modelling.training_part(rows, seed).X}
    return np.array([tuple(row) not in kept for row in rows.X])


def test_held_out_rows_are_never_seen(search, study, tmp_path):
    held_out = held_out_of(ROWS, OPTIONS.seed)
    assert held_out.sum() == pytest.approx(0.2 * len(Y), abs=3)
    poisoned = replace(ROWS, X=np.where(held_out[:, None], np.inf, X))
    with pytest.raises(ValueError, match="infinite value"):
        make(poisoned, OPTIONS)
    other = tmp_path / "poisoned.db"
    search(study)
    search(other, rows=poisoned)
    assert outcomes(study) == outcomes(other)
    assert len(outcomes(study)) == 3
    assert all(value < 1 for _, value in outcomes(other))


def test_the_held_out_rows_are_those_of_make():
    """Where `make` measures is outside of what tuning learns from."""
    seen = []

    class Spy(CCML):
        def fit(self, X, y):
            seen.append(X)
            return super().fit(X, y)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learners, "CCML", Spy)
        make(ROWS, OPTIONS)
    np.testing.assert_array_equal(seen[0], modelling.training_part(ROWS, OPTIONS.seed).X)


def test_the_first_trial_is_what_was_given(search, study, monkeypatch):
    tried = []
    build = modelling.build
    monkeypatch.setattr(
        modelling,
        "build",
        lambda kind, X, options: tried.append(options) or build(kind, X, options),
    )
    best, history = search(study, n=0)
    assert best is OPTIONS
    assert history[-1].trials == 1
    assert history[-1].error == history[-1].given_error
    first = tried[-1]
    assert first.parameters.pop("callbacks")
    assert first == replace(OPTIONS, parameters=SHORT | {"verbose": False})


def test_the_error_is_that_of_ccknn_on_a_quarter_three_times(search, study):
    _, history = search(study, n=0)
    part, rng = modelling.training_part(ROWS, OPTIONS.seed), np.random.default_rng(OPTIONS.seed)
    errors = []
    for _ in range(3):
        train, others = modelling.split(part.y, 0.25, rng)
        assert len(others) == pytest.approx(0.25 * len(part.y), abs=3)
        metric = CCML(max_epochs=2, random_state=OPTIONS.seed)
        Z = metric.fit(part.X[train], part.y[train]).transform(part.X)
        chosen = CCKNNClassifier(5).fit(Z[train], part.y[train]).predict(Z[others])
        errors.append(np.mean(chosen != part.y[others]))
    assert history[-1].error == pytest.approx(np.mean(errors))


def test_what_is_found_is_no_worse_and_is_what_is_returned(search, study):
    best, history = search(study, n=6)
    found = history[-1]
    assert found.error <= found.given_error
    assert [len(history), found.trials] == [found.trials, len(outcomes(study))]
    values = {**best.parameters, "n_components": best.n_components, "n_neighbors": best.n_neighbors}
    assert found.parameters.items() <= values.items()
    assert best.parameters["max_epochs"] == 2
    lowest = min(value for _, value in outcomes(study))
    assert lowest == pytest.approx(found.error, abs=2e-6)


def test_equal_errors_go_to_the_lower_knn_error_and_then_to_what_was_given(
    search, study, monkeypatch
):
    knn = iter(np.repeat([0.3, 0.2, 0.4], 3))  # each on three splits
    monkeypatch.setattr(modelling, "errors_of", lambda metric, parts, k: (next(knn), 0.1))
    best, history = search(study)
    assert history[-1].trials == 3
    assert history[-1].parameters == trials_of(study)[1].params
    assert best is not OPTIONS
    monkeypatch.setattr(modelling, "errors_of", lambda metric, parts, k: (0.3, 0.1))
    assert search(study.with_name("equal.db"))[0] is OPTIONS


def test_a_search_goes_on_from_its_trials(search, study):
    _, first = search(study)
    before = outcomes(study)
    _, again = search(study)
    assert [found.trials for found in first + again] == [1, 2, 3, 3, 4, 5]
    assert outcomes(study)[: len(before)] == before
    drawn = [tuple(params.values()) for params, _ in outcomes(study)]
    assert len(set(drawn)) == len(drawn)  # none for the second time
    assert search(study, n=0)[1] == again[-1:]


def test_the_same_seed_tries_the_same(search, study):
    search(study)
    search(study.with_name("again.db"))
    search(study.with_name("other.db"), options=replace(OPTIONS, seed=4))
    one, two, other = (outcomes(study.with_name(n)) for n in (study.name, "again.db", "other.db"))
    assert one == two
    assert one[1][0] != other[1][0]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"rows": replace(ROWS, X=X + 1)}, "other values"),
        ({"rows": replace(ROWS, y=np.char.upper(Y))}, "other class counts, labels"),
        ({"rows": replace(ROWS, X=X[:, :5])}, "other shape, values"),
        ({"options": replace(OPTIONS, learner="NCA")}, "other learner"),
        ({"options": replace(OPTIONS, embedding="mlp")}, "other embedding"),
        ({"options": replace(OPTIONS, n_components=2)}, "other n_components"),
        ({"options": replace(OPTIONS, parameters={"max_epochs": 3})}, "other parameters"),
        ({"fixed": ["n_neighbors"]}, "other fixed"),
    ],
)
def test_another_search_is_refused(search, started, change, what):
    with pytest.raises(StudyFileError, match=rf"{what}\. Delete it, or choose another study="):
        search(started, **change)
    assert len(outcomes(started)) == 1


def test_how_it_runs_may_change(search, started):
    run = {"verbose": False, "device": "cpu", "checkpoint": str(started.with_name("checkpoint"))}
    best, history = search(started, options=replace(OPTIONS, parameters=SHORT | run))
    assert history[-1].trials == 3
    assert not started.with_name("checkpoint").exists()  # it is for the fit to come
    assert best.parameters["checkpoint"] == run["checkpoint"]


def test_tables_are_told_apart_by_their_values(search, study):
    frame = pd.DataFrame(X, columns=list("uvwxyz")).assign(
        city=np.where(Y == "a", "Rome", "Oslo"), gap=np.where(Y == "b", np.nan, 1.0)
    )
    table = Rows("table", frame, Y)
    search(study, rows=table, n=0)
    assert search(study, rows=table, n=0)[1][-1].trials == 1
    with pytest.raises(StudyFileError, match="other values"):
        search(study, rows=replace(table, X=frame.replace("Oslo", "Bergen")))
    with pytest.raises(StudyFileError, match="other columns"):
        search(study, rows=replace(table, X=frame.rename(columns={"city": "town"})))


@pytest.mark.parametrize("damage", [lambda old: b"nothing" * 999, lambda old: old[:9000]])
def test_a_damaged_study_is_refused(search, started, damage):
    started.write_bytes(damage(started.read_bytes()))
    with pytest.raises(StudyFileError, match=r"is damaged or can't be written \(.* Delete it, or"):
        search(started)


def test_a_folder_that_is_not_there(search, study):
    with pytest.raises(StudyFileError, match="unable to open"):
        search(study.parent / "nowhere" / study.name)


@pytest.mark.parametrize(
    ("options", "fixed", "searched"),
    [
        (OPTIONS, [], {"n_components", "n_neighbors", "weight_decay", "dropout"}),
        (replace(OPTIONS, n_components=2), ["n_neighbors"], {"weight_decay", "dropout"}),
        (Options(parameters=SHORT | {"dropout": 0.1}, embedding="mlp"), [],
         {"n_components", "n_neighbors", "weight_decay"}),
        (Options("ITML"), [], {"n_components", "n_neighbors", "gamma"}),
    ],
)  # fmt: skip
def test_what_is_given_is_not_searched(search, study, options, fixed, searched):
    best, history = search(study, options=options, fixed=fixed)
    trials = outcomes(study)
    assert len(trials) == 3
    assert all(params.keys() == searched for params, _ in trials)
    assert options.n_components in (None, best.n_components)
    assert history[-1].failed == 0


def test_nothing_to_search_is_one_trial(search, study):
    options = replace(OPTIONS, n_components=2, parameters=SHORT | {"weight_decay": 0, "dropout": 0})
    assert search(study, options=options, fixed=["n_neighbors"])[1][-1].trials == 1


def test_a_trial_that_fails_is_a_bad_one(search, study, monkeypatch):
    fit = CCML.fit

    def fails(self, X, y):
        if self.weight_decay != 0.003:
            raise RuntimeError("a bad day")
        return fit(self, X, y)

    monkeypatch.setattr(CCML, "fit", fails)
    best, history = search(study)
    assert best is OPTIONS
    assert (history[-1].trials, history[-1].failed) == (3, 2)


def test_if_nothing_works_it_says_why_and_soon(search, study, monkeypatch):
    def fails(self, X, y):
        raise RuntimeError("a bad day")

    monkeypatch.setattr(CCML, "fit", fails)
    with pytest.raises(ValueError, match="Those given: RuntimeError: a bad day"):
        search(study, n=60)
    assert len(outcomes(study)) == 10


def press_ctrl_c_in_the(nth, monkeypatch):
    """In an epoch, where learners catch it, of one of the fits."""
    fit, fits = CCML.fit, []

    def interrupted(self, X, y):
        fits.append(1)
        if len(fits) == nth:

            def press(*epoch):
                raise KeyboardInterrupt

            self.callbacks = [press]
        return fit(self, X, y)

    monkeypatch.setattr(CCML, "fit", interrupted)


@pytest.mark.parametrize(("nth", "kept"), [(1, 0), (3 * 2 + 2, 2)])
def test_ctrl_c_keeps_the_trials(search, study, monkeypatch, nth, kept):
    with monkeypatch.context() as patch:
        press_ctrl_c_in_the(nth, patch)
        with pytest.raises(KeyboardInterrupt):
            search(study, n=60)
    assert len(outcomes(study)) == kept
    _, history = search(study)
    assert history[0].trials == max(kept, 1)  # what was given is tried, if it wasn't
    assert history[0].given_error is not None
    assert history[-1].trials > kept


def test_time_cuts_trials_short_but_not_the_first(search, study, monkeypatch, clock):
    fit = CCML.fit

    def slow(self, X, y):
        clock.now += 3600
        return fit(self, X, y)

    monkeypatch.setattr(CCML, "fit", slow)
    _, history = search(study, n=3 * 60 + 2)
    assert history[-1].trials == 1
    assert [trial.state.name for trial in trials_of(study)] == ["COMPLETE", "FAIL"]


def test_too_few_rows_to_validate_on(search, study):
    few = Rows("vectors", X[[0, 1, 30, 31]], Y[[0, 1, 30, 31]])
    with pytest.raises(DataFileError, match="too few rows in each class to tune on"):
        search(study, rows=few)


def test_a_search_is_silent_and_leaves_optuna_as_it_was(search, study, capfd):
    optuna.logging.set_verbosity(optuna.logging.INFO)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search(study)
    assert optuna.logging.get_verbosity() == optuna.logging.INFO
    assert capfd.readouterr() == ("", "")


def test_without_optuna_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    for module in ("ccml._study", "ccml.tuning"):
        monkeypatch.delitem(sys.modules, module)
    with pytest.raises(ImportError, match=r"pip install 'ccml\[tune\]'"):
        import_module("ccml.tuning")
