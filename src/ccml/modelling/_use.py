"""What a model says of rows, and how it gets more of them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from ccml.evaluation import ndcg, precision
from ccml.modelling._columns import inputs_of
from ccml.modelling._make import checked_labels
from ccml.neighbors import ClassIndex
from ccml.reading import DataFileError, Rows

UNKNOWN = "unknown"  # what a rejected row is called
Columns = dict[str, Any]


def embed(
    model: Pipeline, about: dict[str, Any], rows: Rows
) -> tuple[NDArray[np.floating[Any]], list[str]]:
    """Map rows into the learned space; also return notes on what isn't used of them.

    Parameters
    ----------
    model, about, rows
        As in `inputs_of`.
    """
    X, notes = inputs_of(model, about, rows)
    return model[:-1].transform(X), notes


def predict(
    model: Pipeline,
    about: dict[str, Any],
    rows: Rows,
    *,
    proba: bool = False,
    explain: int | None = None,
    reject: float | None = None,
) -> tuple[Columns, list[str]]:
    """Give each row its class.

    Parameters
    ----------
    model, about, rows
        As in `embed`.
    proba : bool
        Also the probability of each class, in a column "p_" and its name.
    explain : int, optional
        Also so many of the nearest rows of the winning class and of the runner-up, as lists.
    reject : float, optional
        Call a row `UNKNOWN` that is farther from every class than this fraction of the model's own
        rows are. The column "rejected" tells such a row from one of a class of that name.

    Returns
    -------
    columns : dict
        "row", "label", and those asked for.
    notes : list of str
    """
    Z, notes = embed(model, about, rows)
    classifier = model[-1]
    labels = classifier.predict(Z).astype(object)
    columns: Columns = {"row": rows.called, "label": labels}
    if reject is not None:
        rejected = classifier.is_unknown(Z, reject)
        # As text: "unknown" among numbers would be of two types.
        columns["label"] = np.where(rejected, UNKNOWN, labels.astype(str)).astype(object)
        columns["rejected"] = rejected
    if proba:
        names = map("p_{}".format, classifier.classes_)
        columns |= dict(zip(names, classifier.predict_proba(Z).T, strict=True))
    if explain is not None:
        columns |= _explained(classifier.explain(Z, explain), _known_names(about))
    return columns, notes


def search(
    model: Pipeline, about: dict[str, Any], rows: Rows, *, k: int, gallery: Rows | None = None
) -> tuple[Columns, list[str]]:
    """Find the nearest rows for queries: of the model's own, or in a gallery.

    Returns
    -------
    columns : dict
        "query", "rank", "row", "distance", and "label" of the model's own rows.
    notes : list of str
    """
    Z, notes = embed(model, about, rows)
    index, called = model[-1].index_, _known_names(about)
    if gallery is not None:
        Z_gallery, more = embed(model, about, gallery)
        notes = list(dict.fromkeys([*notes, *more]))
        index, called = ClassIndex(Z_gallery, np.zeros(len(Z_gallery), int)), gallery.called
    k = min(k, index.n_rows)
    distances, found = index.nearest(Z, k)
    columns = {
        "query": np.repeat(np.asarray(rows.called, dtype=object), k),
        "rank": np.tile(np.arange(1, k + 1), len(Z)),
        "row": np.asarray(called, dtype=object)[found.ravel()],
        "distance": np.sqrt(distances.ravel()),
    }
    if gallery is None:
        columns["label"] = index.labels[found.ravel()]
    return columns, notes


def evaluate(model: Pipeline, about: dict[str, Any], rows: Rows, *, k: int) -> dict[str, Any]:
    """Measure a model on labelled rows: decisions, their probabilities, and retrieval."""
    labels = checked_labels(rows)
    Z, _ = embed(model, about, rows)
    classifier = model[-1]
    y = _like(labels, classifier.classes_)
    known = np.isin(y, classifier.classes_)
    if not known.all():
        raise DataFileError(
            f"{(~known).sum()} rows have classes that the model doesn't know, such as "
            f"{y[~known][0].item()!r}. Add rows of them to the model first, or leave them out."
        )
    probabilities = classifier.predict_proba(Z)
    given = probabilities.argmax(axis=1)
    index, true = classifier.index_, np.searchsorted(classifier.classes_, y)
    confusion = np.zeros((len(classifier.classes_),) * 2, dtype=int)
    np.add.at(confusion, (true, given), 1)
    retrieval = index.rows, index.labels, Z, y
    return {
        "error": float((given != true).mean()),
        f"precision@{k}": precision(*retrieval, k=k),
        f"ndcg@{k}": ndcg(*retrieval, k=k),
        "calibration_error": _calibration_error(probabilities, true),
        "classes": classifier.classes_.tolist(),
        "confusion": confusion.tolist(),
    }


def add_rows(
    model: Pipeline, about: dict[str, Any], rows: Rows, source: str
) -> tuple[Pipeline, dict[str, Any], list[str]]:
    """Give the classifier of a model more rows, of its classes or of new ones.

    They are called after ``source``, since the numbers of rows are already those of others.

    Returns
    -------
    model, about, notes
        What is known of it now. The errors are still those from before.
    """
    labels = checked_labels(rows)
    Z, notes = embed(model, about, rows)
    model[-1].partial_fit(Z, _like(labels, model[-1].classes_))
    index = model[-1].index_
    counts = dict(zip(map(str, index.classes), index.class_counts.tolist(), strict=True))
    changed = {
        "data": about["data"] | {"rows": index.n_rows},
        "class_counts": counts,
        "names": [*_names(about), *(f"{source}:{name}" for name in rows.called)],
    }
    return model, about | changed, [*rows.notes, *notes]


def _known_names(about: dict[str, Any]) -> list[Any]:
    """Say what the rows of a model are called, in one type of name."""
    names = _names(about)
    if len({type(name) for name in names}) > 1:  # numbers of rows, and names of those added
        return [str(name) for name in names]
    return names


def _names(about: dict[str, Any]) -> list[Any]:
    return about.get("names") or list(range(about["data"]["rows"]))


def _explained(explanation: Any, names: list[Any]) -> Columns:
    """Columns with the rows behind the winner and the runner-up."""
    columns: Columns = {"margin": explanation.margins}
    for rank, who in enumerate(("label", "runner_up")[: explanation.classes.shape[1]]):
        if rank:
            columns[who] = explanation.classes[:, rank]
        rows, distances = explanation.rows[:, rank], np.sqrt(explanation.distances[:, rank])
        columns[f"{who}_rows"] = [[names[i] for i in of_query if i >= 0] for of_query in rows]
        columns[f"{who}_distances"] = [
            there[of_query >= 0].tolist() for there, of_query in zip(distances, rows, strict=True)
        ]
    return columns


def _like(y: NDArray[Any], classes: NDArray[Any]) -> NDArray[Any]:
    """Give labels the type of a model's: without its text, a column is of numbers."""
    return y.astype(str) if classes.dtype.kind == "U" and y.dtype.kind in "iu" else y


def _calibration_error(probabilities: NDArray[np.float64], true: NDArray[np.intp]) -> float:
    """How far the probability of what is decided is from how often it is right, in ten bins."""
    sure, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == true
    bins = np.minimum((10 * sure).astype(int), 9)
    gaps = [abs(sure[bins == b].mean() - right[bins == b].mean()) for b in np.unique(bins)]
    return float(np.average(gaps, weights=np.unique(bins, return_counts=True)[1]))
