"""Optuna's trials of a search in an SQLite file, from which it can go on."""

import sqlite3
import warnings
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from sklearn.exceptions import ConvergenceWarning

try:
    import optuna
    from optuna import distributions
    from optuna.trial import TrialState
    from sqlalchemy import URL
    from sqlalchemy.exc import SQLAlchemyError
except ImportError as error:
    raise ImportError("Tuning needs the package optuna: pip install 'ccml[tune]'.") from error


__all__ = ["StudyFileError", "distributions", "opened_study", "optuna"]


class StudyFileError(ValueError):
    """A file can't keep the trials of this search; the message says why, and what to do."""


@contextmanager
def opened_study(
    path: Path, fingerprint: Mapping[str, str], *, seed: int, name: str = "ccml"
) -> Iterator[optuna.Study]:
    """Open or make the study of a search, in silence.

    ``fingerprint`` says what all trials have in common; a study with another one is refused.
    """
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.CRITICAL)
    try:
        _check_file(path)
        with warnings.catch_warnings(), _storage(path) as storage:
            warnings.simplefilter("ignore")
            # Ctrl-C, which learners catch.
            warnings.filterwarnings("error", ".* was interrupted", ConvergenceWarning)
            study = optuna.create_study(storage=storage, study_name=name, load_if_exists=True)
            _check_same_search(path, study, dict(fingerprint))
            for trial in study.get_trials(deepcopy=False, states=[TrialState.RUNNING]):
                study.tell(trial.number, state=TrialState.FAIL)  # killed
            # Going on with the first seed would draw again what was drawn at first.
            study.sampler = optuna.samplers.TPESampler(seed=(seed + len(study.trials)) % 2**32)
            yield study
    except (sqlite3.Error, SQLAlchemyError, optuna.exceptions.StorageInternalError) as error:
        reason = str(error.__cause__ or error).splitlines()[0]
        if "disk is full" in reason:
            raise StudyFileError(
                f"{path} can't be written ({reason}). What was tried is kept: make room, and run "
                "it again."
            ) from error
        raise StudyFileError(
            f"{path} is damaged or can't be written ({reason}). Delete it, or choose another "
            "study=."
        ) from error
    finally:
        optuna.logging.set_verbosity(verbosity)


@contextmanager
def _storage(path: Path) -> Iterator[optuna.storages.RDBStorage]:
    url = URL.create("sqlite", database=str(path))  # which also knows what to do with a "?"
    storage = optuna.storages.RDBStorage(url.render_as_string())
    try:
        yield storage
    finally:
        storage.remove_session()
        storage.engine.dispose()


def _check_file(path: Path) -> None:
    if path.exists():
        with closing(sqlite3.connect(path)) as file:
            (answer,) = file.execute("PRAGMA quick_check(1)").fetchone()
        if answer != "ok":
            raise sqlite3.DatabaseError(answer)


def _check_same_search(path: Path, study: optuna.Study, fingerprint: dict[str, str]) -> None:
    known = study.user_attrs.get("search")
    if known is None:
        study.set_user_attr("search", fingerprint)
    elif known != fingerprint:
        other = [name for name, fact in fingerprint.items() if known.get(name) != fact]
        raise StudyFileError(
            f"{path} has the trials of another search: other {', '.join(other)}. Delete it, or "
            "choose another study=."
        )
