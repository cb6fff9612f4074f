"""Settings for Table I, searched for on validation rows.

Command: ``ccml reproduce table1 --tune MINUTES``, minutes for each row of each data set. What it
chooses is written to ``OUT/settings``, a file for each data set with the rows that were searched
for; what is to be used by all goes into the file of that name in ``src/ccml/experiments/settings``.

Validation rows are those of the data set (`Dataset.validation`), but for two. ISOLET is tested on
speakers whom nobody has heard, so each of the four groups of training speakers is left out in turn.
Wine has too few rows, so: 10-fold cross-validation with ten other foldings (seeds 100 to 109)
than those of the table. Of these two, a trial ends after a group or a folding if it is worse so far
than most others were.
"""

import json
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ccml._atomic import whole_file
from ccml._study import distributions, opened_study, optuna
from ccml.datasets import Dataset
from ccml.experiments import protocol, provenance
from ccml.experiments.cells import Cell, errors_by_k
from ccml.experiments.protocol import Fold, Settings
from ccml.objectives import LOSSES

NEIGHBORS = (1, 3, 5, 9, 15)  # each rule's k
_SEEDS_OF_WINE = range(100, 110)
_AUTO_COMPONENTS = 64  # at most, where n_components is None
# What a trial remembers:
_START = "start"  # its settings, where they were there before the search
_ERRORS = "errors"  # on validation rows: of each rule, for each k


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
    """Search for the settings of each row among the cells, and write them to ``out/settings``.

    Data that isn't there is passed over; whoever then computes the cells hears of it.
    """
    out.mkdir(parents=True, exist_ok=True)
    with _alone_in(out):
        for dataset, row in dict.fromkeys((cell.dataset, cell.row) for cell in cells):
            try:
                protocol.load(dataset)
            except OSError:
                continue
            chosen = choose(dataset, row, out / "trials.db", minutes=minutes)
            _write(out / "settings", chosen)
            on_chosen(chosen)


@contextmanager
def _alone_in(out: Path) -> Iterator[None]:
    """Keep another search out of a folder, until this process ends in whatever way."""
    with closing(sqlite3.connect(out / "trials.lock", timeout=0, isolation_level=None)) as lock:
        try:
            lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                raise
            raise ValueError(
                f"Another search is at work in {out}. Wait for it, or give this one another --out."
            ) from None
        yield


def choose(dataset: str, row: str, trials: Path, *, minutes: float) -> Chosen:
    """Search for the settings of a row, beginning with those used now and those of other rows."""
    deadline = time.monotonic() + 60 * minutes
    search = _Search(dataset, row)
    # Another search, such as one that begins with what this one finds, is another study.
    name = f"{dataset} {row} {sha256(str(search.facts).encode()).hexdigest()[:12]}"
    with opened_study(trials, search.facts, seed=0, name=name) as study:
        search.enqueue_starts(study)
        while not search.has_tried_what_is_used(study):
            search.try_one(study)
        while search.space and time.monotonic() < deadline:
            search.try_one(study)
        finished = _finished(study)
    if not any(_ERRORS in trial.user_attrs for trial in finished):
        raise ValueError(f"The settings of {row} on {dataset} don't work: see {trials}.")
    return search.best_of(finished)


class _Search:
    """What is tried for a row on a data set, and how good it is."""

    def __init__(self, dataset: str, row: str) -> None:
        self.dataset, self.row = dataset, row
        self.data = protocol.load(dataset)
        self.used = protocol.settings_of(dataset, row)
        self.space = _space(self.data, row)
        self.rounds = list(_rounds(dataset, self.data))
        self.starts = list(_starts(dataset, row, self.used, self.space))
        self.facts = {
            "data": f"{self.data.name}, {self.data.X.shape}",
            "settings in use": str(self.used),
            "space": str(self.space),
            "k": str(NEIGHBORS),
            "code": provenance.code(),
        }

    def enqueue_starts(self, study: Any) -> None:
        """Put in line what is to be tried first; again, what a killed run was trying."""
        known = [
            trial.user_attrs.get(_START)
            for trial in study.trials
            if trial.state != optuna.trial.TrialState.FAIL
        ]
        for start in self.starts:
            if asdict(start) not in known:
                study.enqueue_trial(self._place(start), user_attrs={_START: asdict(start)})

    def has_tried_what_is_used(self, study: Any) -> bool:
        used = asdict(self.starts[0])
        return any(trial.user_attrs.get(_START) == used for trial in _finished(study))

    def try_one(self, study: Any) -> None:
        """Train with the next settings, as long as they are no worse than most others."""
        trial = study.ask(self.space)
        errors: list[list[list[float]]] = []  # of a fold, of a rule, for a k
        try:
            for n_rounds, folds in enumerate(self.rounds, start=1):
                for fold in folds:
                    cell = Cell(self.dataset, self.row, len(errors), self._settings_of(trial))
                    errors.append(errors_by_k(cell, self.data, fold, NEIGHBORS))
                means = np.mean(errors, axis=0)
                score = float(means.min(axis=1).mean())
                trial.report(score, n_rounds)
                if n_rounds < len(self.rounds) and self._is_worse(study, trial, score, n_rounds):
                    study.tell(trial, state=optuna.trial.TrialState.PRUNED)
                    return
        except ConvergenceWarning:  # the only one that isn't ignored: Ctrl-C
            raise KeyboardInterrupt from None
        except ValueError as error:  # parameters that don't go together
            trial.set_user_attr("failure", str(error))
            study.tell(trial, 1.0)
        else:
            trial.set_user_attr(_ERRORS, means.tolist())
            study.tell(trial, score)

    def _is_worse(self, study: Any, trial: Any, score: float, n_rounds: int) -> bool:
        """Whether most other trials were better after as many rounds.

        Optuna's pruners go by a trial's best round, and of means so far that is often the first.
        """
        if self.row in protocol.EUCLIDEAN:  # where each rule has its own best trial
            return False
        others = [
            other.intermediate_values[n_rounds]
            for other in study.trials
            if other.number != trial.number and n_rounds in other.intermediate_values
        ]
        return len(others) > 1 and bool(score > np.median(others))

    def best_of(self, finished: Sequence[Any]) -> Chosen:
        """Take the trial with the lowest errors of both rules; each rule has its own k.

        Euclidean distances have nothing to train, so each rule has its own number of components.
        """
        trials = [trial for trial in finished if _ERRORS in trial.user_attrs]

        def error_of(trial: Any, rule: int) -> float:
            return min(trial.user_attrs[_ERRORS][rule])

        def best_by(*rules: int) -> Any:
            return min(trials, key=lambda trial: sum(error_of(trial, rule) for rule in rules))

        each_its_own = self.row in protocol.EUCLIDEAN
        best = [best_by(0), best_by(1)] if each_its_own else [best_by(0, 1)] * 2
        settings, of_ccknn = (self._settings_of(trial) for trial in best)
        of_rules = [trial.user_attrs[_ERRORS][rule] for rule, trial in enumerate(best)]
        ks = [NEIGHBORS[int(np.argmin(errors))] for errors in of_rules]
        chosen = replace(settings, knn=ks[0], ccknn=ks[1])
        if of_ccknn.pca != settings.pca:
            chosen = replace(chosen, pca_ccknn=of_ccknn.pca)
        knn, ccknn = (100 * min(errors) for errors in of_rules)
        return Chosen(self.dataset, self.row, chosen, knn, ccknn, n_trials=len(finished))

    def _settings_of(self, trial: Any) -> Settings:
        if _START in trial.user_attrs:
            return Settings(**trial.user_attrs[_START])
        learner = dict(self.used.learner) | trial.params
        pca = learner.pop("pca", self.used.pca)
        return replace(self.used, pca=pca, pca_ccknn=None, learner=learner)

    def _place(self, settings: Settings) -> dict[str, Any]:
        """Say where in the space settings are, as far as they say."""
        model = protocol.pipeline(self.dataset, self.data, self.row, settings, seed=0)
        known = model[-1].get_params() | {"pca": settings.pca}
        if "n_components" in self.space and known["n_components"] is None:
            known["n_components"] = min(_AUTO_COMPONENTS, self.space["n_components"].high)
        return {name: known[name] for name in self.space if known[name] is not None}


def _finished(study: Any) -> list[Any]:
    states = (optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED)
    return [trial for trial in study.trials if trial.state in states]


def _space(data: Dataset, row: str) -> dict[str, Any]:
    """Say what to search for a row."""
    integer, real = distributions.IntDistribution, distributions.FloatDistribution
    one_of = distributions.CategoricalDistribution
    if row in ("Euclidean", "CCML-heard"):  # 99 % of the variance; another choice
        return {}
    most = min(data.X.shape[1], 300)
    if row == "Euclidean-best-PCA":
        return {"pca": integer(2, most, log=True)}
    if row == "ITML":
        return {"gamma": real(1e-3, 10, log=True)}
    is_network = row in protocol.NETWORKS
    rates = (3e-4, 1e-3, 3e-3, 0.01, 0.03) if is_network else (3e-3, 0.01, 0.03, 0.1, 0.3)
    least = len(np.unique(data.y)) - 1  # LDA's: in fewer, classes lie over each other
    space = {
        "n_components": integer(least, min(most, 120), log=True),
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
        space["n_neighbors"] = integer(1, 100, log=True)
    if row in ("NCMC", "NCA", "KNCA", "CCML"):  # a variant of CCML is CCML but for what it varies
        space["loss"] = one_of(tuple(LOSSES))
    if row == "CCML":
        space["objective"] = one_of(("local", "per-class"))
    return space


def _starts(dataset: str, row: str, used: Settings, space: dict[str, Any]) -> Iterator[Settings]:
    """Yield settings to begin with: those used now, and what other rows share with the space."""
    first = replace(used, pca_ccknn=None)
    yield first
    if used.pca_ccknn is not None:
        yield replace(first, pca=used.pca_ccknn)
    seen = [first.learner]
    for other in protocol.rows_of(dataset):
        theirs = protocol.settings_of(dataset, other).learner
        shared = {name: value for name, value in theirs.items() if name in space}
        learner = dict(used.learner) | shared
        is_alike = (other in protocol.NETWORKS) == (row in protocol.NETWORKS)
        if is_alike and learner not in seen:
            seen.append(learner)
            yield replace(first, learner=learner)


def _rounds(dataset: str, data: Dataset) -> Iterator[list[Fold]]:
    if dataset == "isolet":
        rows = np.concatenate([data.train, data.validation])
        speakers = data.factors["speakers"][rows]
        for group in np.unique(speakers):
            yield [Fold(rows[speakers != group], rows[speakers == group])]
    elif dataset == "wine":
        for seed in _SEEDS_OF_WINE:
            yield list(protocol.folds(dataset, data, seed))
    else:
        yield [Fold(data.train, data.validation)]


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
