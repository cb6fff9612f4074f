"""From rows to a model: what is done to them, how good it is, and what is remembered."""

import time
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from ccml import learners
from ccml._validation import check_count, check_option
from ccml.classifiers import CCKNNClassifier
from ccml.embeddings import MLP, Conv
from ccml.evaluation import ccknn_error, knn_error
from ccml.modelling._columns import check_finite, kind_of, unparsed
from ccml.preprocessing import Flatten
from ccml.reading import DataFileError, Rows
from ccml.training import hold_out

LEARNERS = ("CCML", "NCA", "KNCA", "LMNN", "NCMC", "DrLIM", "ITML")
EMBEDDINGS = ("auto", "linear", "mlp", "conv")
OF_THE_RUN = ("callbacks", "checkpoint", "checkpoint_seconds", "device", "verbose")
_HELD_OUT = 0.2  # of the rows, to see how good the model is
Places = NDArray[np.intp]
# Pixels that a convolutional network of so many layers needs.
_MIN_SIDE: dict[Literal[1, 2], int] = {1: 6, 2: 12}


@dataclass(frozen=True)
class Options:
    """How a model is made.

    Attributes
    ----------
    learner : one of `LEARNERS`
    n_neighbors : int
    n_components : int or None
    embedding : one of `EMBEDDINGS`
        "auto" is a convolutional network for images, and a matrix for all else.
    seed : int
    parameters : dict
        More parameters of the learner; those of the run (`OF_THE_RUN`) aren't kept in the model.
    """

    learner: str = "CCML"
    n_neighbors: int = 5
    n_components: int | None = None
    embedding: str = "auto"
    seed: int = 0
    parameters: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Errors:
    """Fractions of held-out rows that are given a wrong class, under three rules.

    ``plain`` is KNN without a learned metric.
    """

    plain: float
    knn: float
    ccknn: float


@dataclass(frozen=True)
class Made:
    """A model, and what is known of it."""

    model: Pipeline
    errors: Errors | None  # None if there were too few rows to hold some out
    about: dict[str, Any]
    notes: list[str]


class Parts(NamedTuple):
    """Rows to learn from, and others to see how good it is, in the form that a metric takes."""

    X: Any
    y: NDArray[Any]
    others: Any
    y_others: NDArray[Any]


def make(rows: Rows, options: Options) -> Made:
    """Learn a metric on most of the rows, see how good it is on the others, and keep all of them.

    The metric is learned from four fifths of the rows, and the errors are of the others. Then all
    rows, in their order, are what the classifier compares with.
    """
    y = _checked_classes(rows)
    X, notes = _checked_columns(rows)
    started = time.perf_counter()
    model = build(rows.kind, X, options)
    metric, classifier = model[-2], model[-1]
    parts = parts_of(model, X, y, *_outer_split(y, options.seed))
    metric.fit(parts.X, parts.y)
    errors = None
    if len(parts.others):
        k = min(options.n_neighbors, len(parts.X))
        flat = _flat(parts.X), parts.y, _flat(parts.others), parts.y_others
        errors = Errors(knn_error(*flat, n_neighbors=k), *errors_of(metric, parts, k))
    defaults = type(metric)().get_params(deep=False)
    metric.set_params(**{name: defaults[name] for name in OF_THE_RUN if name in defaults})
    classifier.fit(model[:-1].transform(X), y)
    notes += [
        f"{len(lost)} values of column {name!r} aren't {form}, as the others are, and count as "
        "missing"
        for name, form, lost in unparsed(model[0], X)
    ]
    about: dict[str, Any] = {
        "data": {"kind": rows.kind, "rows": len(rows), "shape": list(np.shape(X)[1:])},
        "class_counts": dict(zip(*_counts(y), strict=True)),
        "errors": None if errors is None else vars(errors),
        "held_out": len(parts.others),
        "seconds": round(time.perf_counter() - started, 1),
    }
    if rows.kind == "table":
        about["columns"] = {name: kind_of(X[name]) for name in X.columns}
    if rows.names is not None:
        about["names"] = rows.names
    return Made(model, errors, about, [*rows.notes, *notes])


def training_part(rows: Rows, seed: int) -> Rows:
    """Return the rows that `make` learns the metric from, without those that it holds out."""
    y = _checked_classes(rows)
    train, _ = _outer_split(y, seed)
    part = Rows(rows.kind, _take(rows.X, train), y[train])
    return Rows(part.kind, _checked_columns(part)[0], part.y)


def split(y: NDArray[Any], fraction: float, rng: np.random.Generator) -> tuple[Places, Places]:
    """Split rows into two parts that are alike in their classes; the second may be empty."""
    _, codes = np.unique(y, return_inverse=True)
    return hold_out(codes, fraction * len(y), rng)


def parts_of(model: Pipeline, X: Any, y: NDArray[Any], train: Places, others: Places) -> Parts:
    """Bring both parts into the form that the metric of a model takes, as the first part says."""
    before = model[:-2]
    if len(before) == 0:
        return Parts(_take(X, train), y[train], _take(X, others), y[others])
    plain = before.fit_transform(_take(X, train), y[train])
    rest = before.transform(_take(X, others)) if len(others) else plain[:0]
    return Parts(plain, y[train], rest, y[others])


def errors_of(metric: Any, parts: Parts, k: int) -> tuple[float, float]:
    """Return the errors of KNN and CCKNN on the other rows under a fitted metric."""
    k = min(k, len(parts.X))
    near = metric.transform(parts.X), parts.y, metric.transform(parts.others), parts.y_others
    return knn_error(*near, n_neighbors=k), ccknn_error(*near, n_neighbors=k)


def build(kind: str, X: Any, options: Options) -> Pipeline:
    """Put together what suits a kind of rows, not fitted."""
    check_option("Options", "learner", options.learner, LEARNERS)
    check_option("Options", "embedding", options.embedding, EMBEDDINGS)
    steps: list[tuple[str, BaseEstimator]] = []
    if kind == "table":
        if any(kind_of(X[name]) != "number" for name in X.columns):
            from skrub import TableVectorizer

            steps.append(("vectorize", TableVectorizer()))
        steps += [("impute", SimpleImputer(strategy="median")), ("scale", StandardScaler())]
    elif kind == "vectors" and X.dtype.kind == "f" and np.isnan(X).any():
        steps.append(("impute", SimpleImputer(strategy="median")))
    embedding = _embedding(kind, np.shape(X)[1:], options.embedding)
    if kind == "images" and not isinstance(embedding, Conv):
        steps.append(("flatten", Flatten()))
    return Pipeline(
        [
            *steps,
            ("metric", _metric(options, embedding)),
            ("classify", CCKNNClassifier(options.n_neighbors)),
        ]
    )


def checked_labels(rows: Rows) -> NDArray[Any]:
    """Return the labels of rows that have to have them."""
    if rows.y is None:
        raise DataFileError(
            "There are no labels. Give target= for a table, labels= for arrays, or put images into "
            "a subfolder for each class."
        )
    return rows.y


def _checked_classes(rows: Rows) -> NDArray[Any]:
    y = checked_labels(rows)
    if len(np.unique(y)) < 2:
        raise DataFileError(f"All {len(rows)} rows have the same label, {y[0].item()!r}.")
    return y


def _checked_columns(rows: Rows) -> tuple[Any, list[str]]:
    """Leave out columns without any value."""
    check_finite(rows.X)
    if rows.kind != "table":
        return rows.X, []
    empty = [column for column in rows.X.columns if rows.X[column].isna().all()]
    X = rows.X.drop(columns=empty)
    if X.shape[1] == 0:
        raise DataFileError("There is no column with values beside the target.")
    return X, [f"column {name!r} has no values and is left out" for name in empty]


def _metric(options: Options, embedding: str | MLP | Conv) -> BaseEstimator:
    parameters = options.parameters | {"random_state": options.seed}
    if options.n_components is not None:
        parameters["n_components"] = options.n_components
    learner = getattr(learners, options.learner)
    names = learner._get_param_names()
    if "n_neighbors" in names:
        parameters["n_neighbors"] = options.n_neighbors
    if embedding != "linear":
        if "embedding" not in names:
            raise DataFileError(f"{options.learner} learns a matrix only. Use embedding='linear'.")
        parameters["embedding"] = embedding
    unknown = [name for name in parameters if name not in names]
    if unknown:
        raise DataFileError(f"{options.learner} has no parameter {unknown[0]!r}.")
    return learner(**parameters)


def _embedding(kind: str, shape: tuple[int, ...], name: str) -> str | MLP | Conv:
    if name == "conv" or (name == "auto" and kind == "images"):
        if kind != "images":
            raise DataFileError(f"A convolutional network needs images; these are {kind}.")
        smallest = min(shape[-2:])
        fitting = [layers for layers, side in _MIN_SIDE.items() if smallest >= side]
        if fitting:
            return Conv(layers=max(fitting))
        if name == "conv":
            raise DataFileError(f"Images of {smallest} pixels are too small for a network.")
    return MLP() if name == "mlp" else "linear"


def _outer_split(y: NDArray[Any], seed: int) -> tuple[Places, Places]:
    rng = np.random.default_rng(check_count("Options", "seed", seed, minimum=0))
    return split(y, _HELD_OUT, rng)


def _counts(y: NDArray[Any]) -> tuple[list[str], list[int]]:
    labels, counts = np.unique(y, return_counts=True)
    return [str(label) for label in labels], counts.tolist()


def _take(X: Any, rows: NDArray[np.intp]) -> Any:
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def _flat(X: Any) -> NDArray[np.float64]:
    return np.asarray(X, dtype=np.float64).reshape(len(X), -1)
