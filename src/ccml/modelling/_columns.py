"""The columns that a model was made from, and those of other rows."""

from typing import Any, Literal

import numpy as np

from ccml._validation import did_you_mean
from ccml.reading import DataFileError, Rows


def kind_of(column: Any) -> Literal["number", "other"]:
    """Whether a column is of numbers as it is."""
    return "number" if column.dtype.kind in "fiub" else "other"


def check_finite(X: Any) -> None:
    """Refuse infinite values, by the name of their column if they are in a table."""
    columns = {f"column {name!r}": X[name] for name in X} if hasattr(X, "columns") else {"data": X}
    for name, values in columns.items():
        if values.dtype.kind == "f" and np.isinf(values).any():
            raise DataFileError(f"The {name} has an infinite value. Replace it, or leave it out.")


def inputs_of(model: Any, about: dict[str, Any], rows: Rows) -> tuple[Any, list[str]]:
    """Give a model's first step what it was fitted on the like of, or say what is wrong with rows.

    Columns may come in another order; others than the model knows are left out, with a note.

    Parameters
    ----------
    model : Pipeline
        As `make` makes it.
    about : dict
        As `make` returns it with the model.
    rows : Rows
    """
    X, notes = aligned(rows, about)
    check_parsed(model[0], X)
    return X, notes


def aligned(rows: Rows, about: dict[str, Any]) -> tuple[Any, list[str]]:
    """Bring rows into the form that a model was fitted on, or say what is missing."""
    data = about["data"]
    if rows.kind != data["kind"]:
        raise DataFileError(f"The model was made from {data['kind']}; these are {rows.kind}.")
    if rows.kind != "table":
        if list(rows.X.shape[1:]) != data["shape"]:
            raise DataFileError(
                f"The model was made from {rows.kind} of shape {tuple(data['shape'])}; these are "
                f"of shape {rows.X.shape[1:]}."
            )
        check_finite(rows.X)
        return rows.X, []
    columns = about["columns"]
    missing = [column for column in columns if column not in rows.X.columns]
    if missing:
        near = did_you_mean(missing[0], [c for c in rows.X.columns if c not in columns])
        raise DataFileError(
            f"The data has no column {', '.join(map(repr, missing))}, which the model needs{near}"
        )
    for name, kind in columns.items():
        if kind == "number" and kind_of(rows.X[name]) != "number" and rows.X[name].notna().any():
            raise _other_values(name, "numbers", rows.X[name].dropna())
    known = {*columns, about.get("target")}
    extra = ", ".join(repr(column) for column in rows.X.columns if column not in known)
    notes = [f"what the model doesn't know isn't used: {extra}"] if extra else []
    X = rows.X[list(columns)]
    check_finite(X)
    return X, notes


def check_parsed(vectorizer: Any, X: Any) -> None:
    """Refuse dates, and numbers in text, that the rows of the training were written otherwise."""
    for name, form, lost in unparsed(vectorizer, X):
        raise _other_values(name, form, lost)


def unparsed(vectorizer: Any, X: Any) -> list[tuple[str, str, Any]]:
    """Columns with values that skrub would take for missing: name, what they have to be, them."""
    found = []
    for name, steps in getattr(vectorizer, "all_processing_steps_", {}).items():
        kinds = [type(step).__name__ for step in steps]
        parsers = [i for i, kind in enumerate(kinds) if kind in ("ToDatetime", "ToFloat")]
        if not parsers:
            continue
        column, parser = X[name], steps[parsers[0]]
        for step in steps[: parsers[0]]:
            column = step.transform(column)
        is_lost = column.notna().to_numpy()
        if kinds[parsers[0]] == "ToFloat" or kind_of(column) != "number":  # else it's no date
            is_lost = is_lost & parser.transform(column).isna().to_numpy()
        if is_lost.any():
            found.append((name, _form(parser), X[name][is_lost]))
    return found


def _form(step: Any) -> str:
    """Say what a step of skrub's turns text into."""
    if type(step).__name__ == "ToFloat":
        return "numbers"
    import pandas as pd

    like = "" if step.format_ is None else f" like {pd.Timestamp(2020, 12, 31):{step.format_}}"
    return f"dates{like}"


def _other_values(name: str, form: str, values: Any) -> DataFileError:
    return DataFileError(
        f"The column {name!r} has to be of {form}, as when the model was made; it has "
        f"{str(values.iloc[0])!r}."
    )
