"""What a row of Table I is on a data set: its rows to train and test on, its steps, its settings.

As in the paper: wine by 10-fold cross-validation, the others by their official split, trained on
training and validation rows together; PCA with 99 % of the variance for all but the networks, which
see the images as they are; local contrast normalisation of NORB's. Of wine's columns, whose units
differ by a thousand, the paper says nothing: they are standardised.

What isn't a default is in ``settings/``, a file for each data set, as chosen on validation rows
(`ccml.experiments.choose`).
"""

import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.decomposition import PCA
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from ccml import datasets
from ccml.datasets import Dataset
from ccml.learners import CCML, ITML, KNCA, LMNN, NCA, NCMC, ConvCCML, ConvNetClassifier
from ccml.preprocessing import LocalContrastNormalization, with_shifts

EUCLIDEAN = ("Euclidean", "Euclidean-best-PCA")
LINEAR: dict[str, Callable[..., BaseEstimator]] = {
    "ITML": ITML,
    "NCMC": NCMC,
    "LMNN": LMNN,
    "NCA": NCA,
    "KNCA": KNCA,
    "CCML": CCML,
    "CCML-log": partial(CCML, loss="log-likelihood"),
    "CCML-accuracy": partial(CCML, loss="expected-accuracy"),
    "CCML-per-class": partial(CCML, objective="per-class"),
    "CCML-heard": CCML,  # on ISOLET, as chosen on validation rows: of speakers who are trained on
    "CCML-shifts": CCML,
}
NETWORKS: dict[str, Callable[..., BaseEstimator]] = {  # for images only
    "ConvNet-1": partial(ConvNetClassifier, layers=1),
    "ConvNet-2": partial(ConvNetClassifier, layers=2),
    "ConvCCML-1": partial(ConvCCML, layers=1),
    "ConvCCML-2": partial(ConvCCML, layers=2),
    "ConvCCML-2-shifts": partial(ConvCCML, layers=2, max_shift=2),  # the paper has no shifts
}
_LEARNERS = LINEAR | NETWORKS
SHIFTED = ("CCML-shifts", "ConvCCML-2-shifts")  # whose gallery has shifted copies of the images
ROWS = (*EUCLIDEAN, *LINEAR, *NETWORKS)
NAMES = ("wine", "isolet", "mnist", "norb", "digits")

_SETTINGS = Path(__file__).parent / "settings"
_NOTED = ("note", "validation", "seconds")  # beside the settings


@dataclass(frozen=True)
class Settings:
    """The k of each rule, what PCA keeps, and the learner's parameters that aren't defaults."""

    knn: int = 5
    ccknn: int = 5
    pca: float | int | None = 0.99  # a fraction of the variance, or a number of components
    pca_ccknn: float | int | None = None  # CCKNN's own, where it has one
    learner: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def pca_of(self, rule: str) -> float | int | None:
        """Say what PCA keeps for a rule."""
        return self.pca_ccknn if rule == "ccknn" and self.pca_ccknn is not None else self.pca

    def as_dict(self) -> dict[str, Any]:
        """Values for a JSON or TOML file."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def settings_of(dataset: str, row: str, folder: Path | None = None) -> Settings:
    """Read what was chosen; from another folder where that has the row, if one is given."""
    values = _committed(dataset)[row]
    if folder is not None and (folder / f"{dataset}.toml").exists():
        values = table(folder / f"{dataset}.toml").get(row, values)
    chosen = {name: value for name, value in values.items() if name not in _NOTED}
    if chosen.get("pca") == 0:  # TOML has no None
        chosen["pca"] = None
    return Settings(**chosen)


def note_of(dataset: str, row: str) -> str:
    """Say what to know of how a row's settings were chosen, if not as those of the others."""
    return str(_committed(dataset)[row].get("note", ""))


def expected_seconds(dataset: str, row: str) -> float:
    """Say how long a row took for one seed, on one core, where its figure was measured."""
    return float(_committed(dataset)[row].get("seconds", 0))


def table(path: Path) -> dict[str, Any]:
    """Read a file of settings: row -> name -> value."""
    return tomllib.loads(path.read_text(encoding="utf-8"))


def rows_of(dataset: str) -> tuple[str, ...]:
    """List the rows of the table that a data set has, in the table's order."""
    return tuple(row for row in ROWS if row in _committed(dataset))


@cache  # a live table asks for it many times a second
def _committed(dataset: str) -> dict[str, Any]:
    return table(_SETTINGS / f"{dataset}.toml")


@cache
def load(name: str) -> Dataset:
    """Load a data set; NORB's stand-in if NORB can't be had."""
    try:
        return datasets.load(name)
    except FileNotFoundError:
        if name != "norb":
            raise
        return datasets.load("norb-stand-in")


def pipeline(
    name: str,
    data: Dataset,
    row: str,
    settings: Settings,
    seed: int,
    *,
    rule: str = "knn",
    callbacks: tuple[Callable[..., None], ...] = (),
) -> Pipeline:
    """Put together what maps rows of a data set into the space of a metric."""
    steps: list[BaseEstimator | str] = []
    if name == "wine":
        steps.append(StandardScaler())
    if name == "norb":
        steps.append(LocalContrastNormalization(image_shape=data.image_shape))
    n_kept = settings.pca_of(rule)
    if n_kept is not None and row not in NETWORKS:
        # The eigenvectors of the covariance: ten times as fast as an SVD of all rows.
        steps.append(PCA(n_kept, svd_solver="covariance_eigh"))
    if row in EUCLIDEAN:
        return make_pipeline(*steps)
    parameters = dict(settings.learner) | {"random_state": seed}
    if row in NETWORKS:
        parameters["image_shape"] = data.image_shape
    if row != "ITML":  # which has its own solver
        parameters["callbacks"] = callbacks
    return make_pipeline(*steps, _LEARNERS[row](**parameters))


def own_parameters(row: str) -> dict[str, Any]:
    """Return the parameters that make a row what it is, whatever its settings."""
    make = _LEARNERS.get(row)
    return dict(make.keywords) if isinstance(make, partial) else {}


@dataclass(frozen=True)
class Fold:
    """Row numbers to train on, and to test on."""

    train: NDArray[np.intp]
    test: NDArray[np.intp]


def folds(name: str, data: Dataset, seed: int) -> Iterator[Fold]:
    """Yield the folds; together they test every test row once."""
    if name != "wine":
        yield Fold(np.concatenate([data.train, data.validation]), data.test)
        return
    shuffled = StratifiedKFold(10, shuffle=True, random_state=seed)
    for train, test in shuffled.split(data.X, data.y):
        yield Fold(train, test)


def rows_as(row: str, X: NDArray[Any]) -> NDArray[Any]:
    """Bytes stay bytes for networks, which keep them until a batch is due."""
    return X if row in NETWORKS or X.dtype != np.uint8 else X.astype(np.float32)


def gallery_rows(
    row: str, data: Dataset, rows: NDArray[np.intp]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return what test rows are compared with: training rows, and after them copies if any."""
    X, y = rows_as(row, data.X[rows]), data.y[rows]
    return with_shifts(X, y, image_shape=data.image_shape) if row in SHIFTED else (X, y)
