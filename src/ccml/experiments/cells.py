"""A cell of Table I for one seed: a row on a data set, trained once, and all that is told of it.

Both errors, the retrieval curves of Figure 3 and the neighbours of Figure 4 come from one fit.
"""

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from io import BytesIO
from json import dumps, loads
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import mode
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline

from ccml._atomic import whole_file
from ccml.datasets import Dataset
from ccml.experiments import protocol, provenance
from ccml.experiments.protocol import Fold, Settings
from ccml.learners import ConvNetClassifier
from ccml.neighbors import ClassIndex

RULES = ("knn", "ccknn")
DEPTH = 100  # neighbours that the curves go to
SHOWN = 5  # neighbours that are kept of each query
_FORMAT = 1
_DETERMINED_BY = ("numpy", "scipy", "scikit-learn", "torch", "numba")


@dataclass(frozen=True)
class Cell:
    """What is to be computed."""

    dataset: str
    row: str
    seed: int
    settings: Settings

    def key(self, data: Dataset) -> str:
        """Name by all that determines the outcome: data, settings, seed, code and versions."""
        model = protocol.pipeline(self.dataset, data, self.row, self.settings, self.seed)
        facts = {
            "format": _FORMAT,
            "data": [data.name, _digest_of(self.dataset)],
            "copies": self.row in protocol.SHIFTED,
            "steps": [[type(step).__name__, _parameters(step)] for step in model],
            "rules": [self.settings.knn, self.settings.ccknn, self.settings.pca_ccknn],
            "seed": self.seed,  # of the folds
            "versions": {name: version(name) for name in _DETERMINED_BY},
            "code": provenance.code(),
        }
        return sha256(dumps(facts, sort_keys=True).encode()).hexdigest()[:24]


@dataclass(frozen=True, eq=False)
class Outcome:
    """What came of a cell."""

    wrong: NDArray[np.bool_]  # (2, n_test): whether KNN and CCKNN err on each test row
    ndcg: NDArray[np.float64]  # (DEPTH,): at k = 1, 2, ...; nothing from cross-validation
    precision: NDArray[np.float64]  # (DEPTH,)
    nearest: NDArray[np.int32]  # (n_test, SHOWN): rows of the data set
    about: dict[str, Any]  # seconds, commit, machine, n_components, notes

    @property
    def errors(self) -> NDArray[np.float64]:
        """Error of KNN and of CCKNN, in percent."""
        return 100 * self.wrong.mean(axis=1)

    def save(self, path: Path) -> None:
        """Write it, whole or not at all."""
        buffer = BytesIO()
        arrays = {name: getattr(self, name) for name in ("ndcg", "precision", "nearest")}
        about = np.frombuffer(dumps(self.about).encode(), dtype=np.uint8)
        np.savez_compressed(buffer, wrong=np.packbits(self.wrong, axis=1), about=about, **arrays)
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as file:
            file.write(buffer.getvalue())

    @classmethod
    def load(cls, path: Path) -> "Outcome":
        """Read what `save` wrote."""
        # Of a damaged file, np.load leaves open what it has opened itself.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            about = loads(arrays["about"].tobytes())
            wrong = np.unpackbits(arrays["wrong"], axis=1, count=about["n_test"]).astype(bool)
            return cls(wrong, arrays["ndcg"], arrays["precision"], arrays["nearest"], about)


def compute(cell: Cell, on_epoch: Callable[[int], None] = lambda epoch: None) -> Outcome:
    """Train, and test on every test row once."""
    data, start = protocol.load(cell.dataset), time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        parts = [
            _tested(cell, data, fold, on_epoch)
            for fold in protocol.folds(cell.dataset, data, cell.seed)
        ]
    test = np.concatenate([part.rows for part in parts])
    order = np.argsort(test) if len(parts) > 1 else slice(None)  # wine's rows, not its folds'
    about = {
        "seconds": round(time.perf_counter() - start, 1),
        "commit": provenance.commit(),
        "machine": provenance.machine(),
        "n_test": len(test),
        "n_components": parts[0].n_components,
        "stand_in": data.name != cell.dataset,
        "notes": sorted({str(warning.message) for warning in caught}),
    }
    whole = parts[0] if len(parts) == 1 else None
    return Outcome(
        wrong=np.concatenate([part.wrong for part in parts], axis=1)[:, order],
        ndcg=whole.ndcg if whole else np.empty(0),
        precision=whole.precision if whole else np.empty(0),
        nearest=whole.nearest if whole else np.empty((0, SHOWN), dtype=np.int32),
        about=about,
    )


@dataclass(frozen=True, eq=False)
class _Tested:
    """A fold's part of an outcome."""

    rows: NDArray[np.intp]
    wrong: NDArray[np.bool_]
    ndcg: NDArray[np.float64]
    precision: NDArray[np.float64]
    nearest: NDArray[np.int32]
    n_components: list[int]


def _tested(cell: Cell, data: Dataset, fold: Fold, on_epoch: Callable[[int], None]) -> _Tested:
    def callback(epoch: int, *_: object) -> None:
        on_epoch(epoch)

    settings = cell.settings
    space = own = _fitted(cell, data, fold, callbacks=(callback,))
    if settings.pca_ccknn is not None:
        own = _fitted(cell, data, fold, rule="ccknn")
    ndcg, precision = space.curves()
    return _Tested(
        rows=fold.test,
        wrong=np.array([space.knn_wrong(settings.knn), own.ccknn_wrong(settings.ccknn)]),
        ndcg=ndcg,
        precision=precision,
        # Copies of rows follow them, all in the same order.
        nearest=fold.train[space.found[:, :SHOWN] % len(fold.train)].astype(np.int32),
        n_components=[space.n_components, own.n_components],
    )


def errors_by_k(cell: Cell, data: Dataset, fold: Fold, ks: Sequence[int]) -> list[list[float]]:
    """Train on a fold; return the error of each rule as a fraction, for each k."""
    space = _fitted(cell, data, fold)
    return [
        [float(np.mean(wrong(k))) for k in ks] for wrong in (space.knn_wrong, space.ccknn_wrong)
    ]


def _fitted(cell: Cell, data: Dataset, fold: Fold, **options: Any) -> "_Space":
    model = protocol.pipeline(cell.dataset, data, cell.row, cell.settings, cell.seed, **options)
    X, y = protocol.gallery_rows(cell.row, data, fold.train)
    # Networks draw shifts of their own.
    n_learned = len(fold.train) if cell.row in protocol.NETWORKS else len(X)
    model.fit(X[:n_learned], y[:n_learned])
    queries = protocol.rows_as(cell.row, data.X[fold.test])
    return _Space(model, (X, y), queries, data.y[fold.test])


class _Space:
    """A fold in the space of a metric, searched once."""

    def __init__(
        self,
        model: Pipeline,
        gallery: tuple[NDArray[Any], NDArray[Any]],
        queries: NDArray[Any],
        truth: NDArray[Any],
    ) -> None:
        embedded = model.transform(gallery[0])
        self.index, self.labels, self.truth = ClassIndex(embedded, gallery[1]), gallery[1], truth
        self.queries = model.transform(queries)
        self.n_components = int(embedded.shape[1])
        self.found = self.index.nearest(self.queries, min(DEPTH, len(embedded))).indices
        self.own_rule: NDArray[np.bool_] | None = None  # of a classifier, whatever k
        if isinstance(model[-1], ConvNetClassifier):
            self.own_rule = model.predict(queries) != truth

    def knn_wrong(self, k: int) -> NDArray[np.bool_]:
        if self.own_rule is not None:
            return self.own_rule
        # Of classes with equal votes the first wins, as in scikit-learn.
        return mode(self.labels[self.found[:, :k]], axis=1).mode != self.truth

    def ccknn_wrong(self, k: int) -> NDArray[np.bool_]:
        if self.own_rule is not None:
            return self.own_rule
        return self.index.predict(self.queries, k) != self.truth

    def curves(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean nDCG@k and precision@k for every k up to DEPTH."""
        relevant = self.labels[self.found] == self.truth[:, None]  # (n_test, DEPTH)
        ranks = np.arange(1, relevant.shape[1] + 1)
        discounts = 1 / np.log2(ranks + 1)
        counts = dict(zip(*np.unique(self.labels, return_counts=True), strict=True))
        n_relevant = np.array([counts.get(label, 0) for label in self.truth])
        ideal = np.cumsum(discounts)[np.clip(np.minimum(n_relevant[:, None], ranks) - 1, 0, None)]
        ndcg = np.cumsum(relevant * discounts, axis=1) / ideal
        return ndcg.mean(axis=0), (np.cumsum(relevant, axis=1) / ranks).mean(axis=0)


def _parameters(step: BaseEstimator) -> dict[str, str]:
    """Of a step, with those of its parts; callbacks only look on."""
    values = step.get_params(deep=False).items()
    return {name: repr(value) for name, value in values if name != "callbacks"}


@cache
def _digest_of(name: str) -> str:
    data = protocol.load(name)
    parts = (data.X, data.y, data.train, data.validation, data.test)
    digest = sha256()
    for array in parts:
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
