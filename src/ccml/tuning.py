"""Better parameters, looked for on validation rows."""

import time
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ccml import modelling
from ccml._study import StudyFileError, distributions, opened_study, optuna
from ccml._validation import check_number
from ccml.modelling import OF_THE_RUN, Options, Parts
from ccml.reading import DataFileError, Rows

__all__ = ["Found", "StudyFileError", "tuned"]

_VALIDATION = 0.25  # of the rows that aren't held out
_FEW_ROWS, _SPLITS_OF_FEW = 2000, 3  # one split of a few hundred rows would choose by chance
_MOST_NEIGHBORS, _MOST_COMPONENTS = 15, 200
_AUTO_COMPONENTS = 64  # at most, where n_components is None; ITML takes all
_TIE = 1e-6  # what KNN's error counts: less than a row of CCKNN's
_HOPELESS = 10  # trials, all failed


@dataclass(frozen=True)
class Found:
    """How far a search has come; errors are those of CCKNN on validation rows, None if it fails."""

    trials: int
    failed: int
    given_error: float | None  # of the options as they were given
    error: float | None  # of the best
    parameters: dict[str, float]  # of the best; none if that is what was given


def tuned(
    rows: Rows,
    options: Options,
    *,
    minutes: float,
    study: str | PathLike[str],
    fixed: Collection[str] = (),
    on_trial: Callable[[Found], None] = lambda found: None,
) -> Options:
    """Search for parameters with a lower CCKNN error on validation rows.

    The rows that `ccml.modelling.make` holds out are never used: validation rows are a quarter of
    the others. The first trial is ``options`` as given, so what is found is no worse on them. It
    needs ``pip install 'ccml[tune]'``.

    Parameters
    ----------
    rows : Rows
    options : Options
        Its ``n_components``, unless None, and its ``parameters`` are kept.
    minutes : float
        About how long to search. The first trial always comes to its end. 0 takes the best of the
        trials that the study has.
    study : path
        SQLite file that keeps the trials; a search goes on from those that are there.
    fixed : collection of str
        What else to keep, such as "n_neighbors".
    on_trial : callable
        Is told what is `Found`, at the beginning and after every trial.

    Returns
    -------
    Options
        Those given, with the best parameters.

    Raises
    ------
    StudyFileError
        The file is damaged, or has the trials of another search.
    """
    deadline = time.monotonic() + 60 * check_number("tuned", "minutes", minutes, minimum=0)
    part = modelling.training_part(rows, options.seed)
    validations, n_features = _validations(part, options)
    space, given = _space(part, options, fixed, n_features)
    facts = _fingerprint(part, options, fixed)
    with opened_study(Path(study), facts, seed=options.seed) as trials:
        search = _Search(trials, space, options, part, validations)
        if not any("given" in trial.user_attrs for trial in search.finished()):
            trials.enqueue_trial(given, user_attrs={"given": True})
            search.try_one(deadline=np.inf)
        on_trial(search.found())
        while space and time.monotonic() < deadline and not search.is_hopeless():
            search.try_one(deadline)
            on_trial(search.found())
        best = search.best()
    if "failure" in best.user_attrs:
        raise ValueError(f"No parameters work here. Those given: {best.user_attrs['failure']}")
    return search.options_of(best)


class _OutOfTimeError(Exception):
    pass


@dataclass(frozen=True)
class _Search:
    """A study, and what its trials are made of."""

    study: optuna.Study
    space: dict[str, distributions.BaseDistribution]
    options: Options
    part: Rows
    validations: list[Parts]

    def try_one(self, deadline: float) -> None:
        """Make a trial. One that fails is as bad as can be; one that is cut short isn't counted."""

        def stop_in_time(*_: Any) -> None:
            if time.monotonic() > deadline:
                raise _OutOfTimeError

        trial = self.study.ask(self.space)
        options = self.options_of(trial)
        parameters = options.parameters | {"callbacks": [stop_in_time], "verbose": False}
        parameters.pop("checkpoint", None)  # which is for the fit to come
        try:
            knn, ccknn = self._errors(replace(options, parameters=parameters))
        except ConvergenceWarning:  # the only one that isn't ignored: Ctrl-C, which learners catch
            raise KeyboardInterrupt from None
        except _OutOfTimeError:
            self.study.tell(trial, state=optuna.trial.TrialState.FAIL)
        except Exception as error:  # whatever parameters can do to a learner
            trial.set_user_attr("failure", f"{type(error).__name__}: {error}")
            self.study.tell(trial, np.inf)
        else:
            trial.set_user_attr("error", ccknn)
            self.study.tell(trial, ccknn + _TIE * knn)

    def _errors(self, options: Options) -> tuple[float, float]:
        errors = []
        for parts in self.validations:
            metric = modelling.build(self.part.kind, self.part.X, options)[-2]
            metric.fit(parts.X, parts.y)
            errors.append(modelling.errors_of(metric, parts, options.n_neighbors))
        knn, ccknn = np.mean(errors, axis=0).tolist()
        return knn, ccknn

    def options_of(self, trial: optuna.Trial | optuna.trial.FrozenTrial) -> Options:
        if "given" in trial.user_attrs:
            return self.options
        more = dict(trial.params)
        own = {name: more.pop(name) for name in ("n_components", "n_neighbors") if name in more}
        return replace(self.options, **own, parameters=self.options.parameters | more)

    def finished(self) -> list[optuna.trial.FrozenTrial]:
        return self.study.get_trials(deepcopy=False, states=[optuna.trial.TrialState.COMPLETE])

    def best(self) -> optuna.trial.FrozenTrial:
        return min(self.finished(), key=lambda trial: (trial.value, trial.number))

    def is_hopeless(self) -> bool:
        return len(self.finished()) >= _HOPELESS and "failure" in self.best().user_attrs

    def found(self) -> Found:
        finished, best = self.finished(), self.best()
        given = next(trial for trial in finished if "given" in trial.user_attrs)
        return Found(
            trials=len(finished),
            failed=sum("failure" in trial.user_attrs for trial in finished),
            given_error=given.user_attrs.get("error"),
            error=best.user_attrs.get("error"),
            parameters={} if best.number == given.number else best.params,
        )


def _validations(part: Rows, options: Options) -> tuple[list[Parts], int]:
    """Split rows to validate on; also say how many features a metric has at least."""
    y, rng = np.asarray(part.y), np.random.default_rng(options.seed)
    model = modelling.build(part.kind, part.X, options)
    n_splits = _SPLITS_OF_FEW if len(y) < _FEW_ROWS else 1
    splits = [modelling.split(y, _VALIDATION, rng) for _ in range(n_splits)]
    validations = [modelling.parts_of(model, part.X, y, *both) for both in splits if len(both[1])]
    if not validations:
        raise DataFileError("There are too few rows in each class to tune on. Fit without tuning.")
    # How many columns text becomes depends on the rows, and the fit to come has all of these.
    whole = modelling.parts_of(model, part.X, y, np.arange(len(y)), np.arange(0))
    return validations, min(int(np.prod(parts.X.shape[1:])) for parts in [*validations, whole])


def _space(
    part: Rows, options: Options, fixed: Collection[str], n_features: int
) -> tuple[dict[str, distributions.BaseDistribution], dict[str, float]]:
    """Say what to search, and where in it the given options are."""
    most = min(n_features, _MOST_COMPONENTS)
    space: dict[str, distributions.IntDistribution | distributions.FloatDistribution] = {
        "n_components": distributions.IntDistribution(min(2, most), most, log=True),
        "n_neighbors": distributions.IntDistribution(1, _MOST_NEIGHBORS),
        "weight_decay": distributions.FloatDistribution(1e-4, 1, log=True),
        "dropout": distributions.FloatDistribution(0, 0.5, step=0.05),
        "gamma": distributions.FloatDistribution(1e-3, 10, log=True),
    }
    metric = modelling.build(part.kind, part.X, options)[-2].get_params(deep=False)
    kept = {*fixed, *options.parameters}
    if options.n_components is not None:
        kept.add("n_components")
    if metric.get("embedding", "linear") != "linear":
        kept.add("dropout")  # of columns, or pixels: for a matrix
    automatic = most if options.learner == "ITML" else min(most, _AUTO_COMPONENTS)
    now = metric | {"n_neighbors": options.n_neighbors, "n_components": automatic}
    searched = {name: space[name] for name in space if name in now and name not in kept}
    given = {name: np.clip(now[name], at.low, at.high).item() for name, at in searched.items()}
    return dict(searched), given


def _fingerprint(part: Rows, options: Options, fixed: Collection[str]) -> dict[str, str]:
    """Say what the trials of a search have in common."""
    values, labels = part.X, np.asarray(part.y).tolist()
    if part.kind == "table":
        from pandas.util import hash_pandas_object

        values = hash_pandas_object(part.X, index=False)
    of_learner = {k: v for k, v in sorted(options.parameters.items()) if k not in OF_THE_RUN}
    facts = {
        "shape": part.X.shape,
        "columns": list(part.X.columns) if part.kind == "table" else None,
        "class counts": sorted(Counter(map(str, labels)).items()),
        "labels": sha256(repr(labels).encode()).hexdigest(),
        "values": sha256(np.ascontiguousarray(values).data).hexdigest(),
        **vars(options),
        "parameters": of_learner,
        "fixed": sorted(fixed),
    }
    return {name: str(fact) for name, fact in facts.items()}
