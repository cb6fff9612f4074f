"""Settings for Table I, searched for on validation rows.

Command: ``ccml reproduce table1 --tune MINUTES``, minutes for each row of each data set. What it
chooses is written to ``OUT/settings``; a file that is to be used by all goes to
``src/ccml/experiments/settings``.

Validation rows are those of the data set (`Dataset.validation`), but for two. ISOLET is tested on
speakers whom nobody has heard, so each of the four groups of training speakers is left out in turn.
Wine has too few rows, so: 10-fold cross-validation with ten other foldings (seeds 100 to 109)
than those of the table. Of these two, a trial ends after a group or a folding if it is worse so far
than most others were.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ccml._atomic import whole_file
from ccml._study import distributions, opened_study, optuna
from ccml.datasets import Dataset
from ccml.experiments import protocol
from ccml.experiments.cells import Cell, errors_by_k
from ccml.experiments.protocol import Fold, Settings
from ccml.objectives import LOSSES

NEIGHBORS = (1, 3, 5, 9)  # each rule's k
_SEEDS_OF_WINE = range(100, 110)
_LEARNER = "learner"  # its parameters, where a trial has them from the settings
_ERRORS = "errors"  # on validation rows, which a trial remembers: of each rule, for each k


@dataclass(frozen=True)
class Chosen:
    """The best settings of a search, and their validation errors in percent."""

    dataset: str
    row: str
    settings: Settings
    knn: float
    ccknn: float
    n_trials: int


def choose_all(
    cells: Sequence[Cell],
    out: Path,
    *,
    minutes: float,
    on_chosen: Callable[[Chosen], None] = lambda chosen: None,
) -> None:
    """Search for the settings of each row among the cells, and write them to ``out/settings``."""
    out.mkdir(parents=True, exist_ok=True)
    for dataset, row in dict.fromkeys((cell.dataset, cell.row) for cell in cells):
        chosen = choose(dataset, row, out / "trials.db", minutes=minutes)
        _write(out / "settings", chosen)
        on_chosen(chosen)


def choose(dataset: str, row: str, trials: Path, *, minutes: float) -> Chosen:
    """Search for the settings of a row, beginning with those used now and those of other rows."""
    deadline = time.monotonic() + 60 * minutes
    data = protocol.load(dataset)
    now = protocol.settings_of(dataset, row)
    space = _space(data, row)
    facts = {"row": row, "data": f"{data.name}, {data.X.shape}", "kept": str(now)}
    with opened_study(trials, facts, seed=0, name=f"{dataset} {row}") as study:

        def try_one() -> None:
            trial = study.ask(space)
            try:
                for n_rounds, errors in enumerate(
                    _errors_so_far(dataset, data, row, _of_trial(now, trial))
                ):
                    score = float(np.mean([min(of_rule) for of_rule in errors]))
                    trial.report(score, n_rounds)
                    if _is_worse_than_most(score, n_rounds, _done(study)):
                        study.tell(trial, state=optuna.trial.TrialState.PRUNED)
                        return
            except ConvergenceWarning:  # the only one that isn't ignored: Ctrl-C
                raise KeyboardInterrupt from None
            except ValueError as error:  # parameters that don't go together
                trial.set_user_attr("failure", str(error))
                study.tell(trial, 1.0)
            else:
                trial.set_user_attr(_ERRORS, errors)
                study.tell(trial, score)

        if not _done(study):
            for learner in _known(dataset, row, now, space):
                settings = replace(now, learner=learner)
                place = _place(space, dataset, data, row, settings)
                study.enqueue_trial(place, user_attrs={_LEARNER: learner})
            try_one()
        while space and time.monotonic() < deadline:
            try_one()
        done, n_trials = _done(study), sum(trial.state.is_finished() for trial in study.trials)
    if not done:
        raise ValueError(f"The settings of {row} on {dataset} don't work: see {trials}.")
    return _best(dataset, row, now, done, n_trials)


def _done(study: Any) -> list[Any]:
    return [trial for trial in study.trials if _ERRORS in trial.user_attrs]


def _is_worse_than_most(score: float, n_rounds: int, trials: Sequence[Any]) -> bool:
    """Compare with what others had after as many rounds.

    Optuna's pruners go by a trial's best round, and of scores so far that is often the first.
    """
    others = [trial.intermediate_values[n_rounds] for trial in trials]
    return len(others) > 1 and score > np.median(others)


def _best(dataset: str, row: str, now: Settings, trials: Sequence[Any], n_trials: int) -> Chosen:
    """Take the trial with the lowest errors of both rules; each rule has its own k.

    Euclidean distances have nothing to train, so each rule has its own number of components too.
    """

    def error_of(trial: Any, rule: int) -> float:
        return min(trial.user_attrs[_ERRORS][rule])

    def best_by(*rules: int) -> Any:
        return min(trials, key=lambda trial: sum(error_of(trial, rule) for rule in rules))

    best = [best_by(0), best_by(1)] if row in protocol.EUCLIDEAN else [best_by(0, 1)] * 2
    settings = [_of_trial(now, trial) for trial in best]
    of_rules = [trial.user_attrs[_ERRORS][rule] for rule, trial in enumerate(best)]
    ks = [NEIGHBORS[int(np.argmin(errors))] for errors in of_rules]
    own = settings[1].pca_of("ccknn")
    chosen = replace(settings[0], knn=ks[0], ccknn=ks[1])
    if own != chosen.pca:
        chosen = replace(chosen, pca_ccknn=own)
    knn, ccknn = (100 * min(errors) for errors in of_rules)
    return Chosen(dataset, row, chosen, knn, ccknn, n_trials)


def _space(data: Dataset, row: str) -> dict[str, Any]:
    """Say what to search for a row."""
    integer, real = distributions.IntDistribution, distributions.FloatDistribution
    one_of = distributions.CategoricalDistribution
    if row == "Euclidean":  # 99 % of the variance, by definition
        return {}
    most = min(data.X.shape[1], 300)
    if row == "Euclidean-best-PCA":
        return {"pca": integer(2, most, log=True)}
    if row == "ITML":
        return {"gamma": real(1e-3, 10, log=True)}
    is_network = row in protocol.NETWORKS
    rates = (3e-4, 1e-3, 3e-3, 0.01, 0.03) if is_network else (3e-3, 0.01, 0.03, 0.1, 0.3)
    space = {
        "n_components": integer(2, min(most, 120), log=True),
        "learning_rate": one_of(("auto", *rates)),
        "weight_decay": real(1e-4, 1, log=True),
        "batch_size": one_of(("auto", 200, 500, 1000, 2000)),
    }
    if not is_network:
        space["dropout"] = real(0, 0.5, step=0.05)
        space["validation_fraction"] = one_of((0, 0.1))
    if row == "NCMC":
        space["n_centroids"] = integer(1, 20, log=True)
    elif row not in ("NCA", "ConvNet-1", "ConvNet-2"):
        space["n_neighbors"] = integer(1, 50, log=True)
    if row in ("NCMC", "NCA", "KNCA", "CCML"):  # the others have a loss of their own, by name
        space["loss"] = one_of(tuple(LOSSES))
    if row == "CCML":
        space["objective"] = one_of(("local", "per-class"))
    return space


def _known(
    dataset: str, row: str, now: Settings, space: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """Yield parameters to begin with: those used now, and what other rows share with the space."""
    given = dict(now.learner)
    seen = [given]
    yield given
    for other in protocol.rows_of(dataset):
        theirs = protocol.settings_of(dataset, other).learner
        learner = given | {name: value for name, value in theirs.items() if name in space}
        is_alike = (other in protocol.NETWORKS) == (row in protocol.NETWORKS)
        if is_alike and learner not in seen:
            seen.append(learner)
            yield learner


def _place(
    space: dict[str, Any], dataset: str, data: Dataset, row: str, settings: Settings
) -> dict[str, Any]:
    """Say where in the space settings are, as far as they say."""
    learner = protocol.pipeline(dataset, data, row, settings, seed=0)[-1]
    known = learner.get_params() | {"pca": settings.pca}
    return {name: known[name] for name in space if known[name] is not None}


def _of_trial(now: Settings, trial: Any) -> Settings:
    if _LEARNER in trial.user_attrs:
        return replace(now, learner=trial.user_attrs[_LEARNER])
    more = dict(trial.params)
    pca = more.pop("pca", now.pca)
    return replace(now, pca=pca, pca_ccknn=None, learner=dict(now.learner) | more)


def _errors_so_far(
    dataset: str, data: Dataset, row: str, settings: Settings
) -> Iterator[list[list[float]]]:
    """Yield the mean error of each rule, for each k of NEIGHBORS, after every round of folds."""
    errors: list[list[list[float]]] = []
    for folds in _rounds(dataset, data):
        for fold in folds:
            cell = Cell(dataset, row, len(errors), settings)
            errors.append(errors_by_k(cell, data, fold, NEIGHBORS))
        yield np.mean(errors, axis=0).tolist()


def _rounds(dataset: str, data: Dataset) -> Iterator[list[Fold]]:
    if dataset == "isolet":
        rows = np.concatenate([data.train, data.validation])
        speakers = data.factors["speakers"][rows]
        for group in np.unique(speakers):
            yield [Fold(rows[speakers != group], rows[speakers == group])]
        return
    if dataset != "wine":
        yield [Fold(data.train, data.validation)]
        return
    for seed in _SEEDS_OF_WINE:
        yield list(protocol.folds(dataset, data, seed))


def _write(folder: Path, chosen: Chosen) -> None:
    """Put a row's settings into the file of its data set."""
    path = folder / f"{chosen.dataset}.toml"
    table = protocol.table(path) if path.exists() else {}
    values = chosen.settings.as_dict()
    values["pca"] = chosen.settings.pca or 0
    validation = {"knn": round(chosen.knn, 2), "ccknn": round(chosen.ccknn, 2)}
    table[chosen.row] = values | {"validation": validation | {"trials": chosen.n_trials}}
    folder.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as file:
        file.write("\n".join(_toml(row, table[row]) for row in table).encode())


def _toml(row: str, values: dict[str, Any]) -> str:
    """Write a table of plain values, and of tables of them."""

    def text(value: Any) -> str:
        if isinstance(value, dict):
            return "{" + ", ".join(f"{key} = {text(of)}" for key, of in value.items()) + "}"
        return json.dumps(value)

    lines = [f"{name} = {text(value)}" for name, value in values.items() if value != {}]
    return "\n".join([f"[{row}]", *lines]) + "\n"
