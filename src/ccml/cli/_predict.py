"""Commands that use a model: predict, evaluate, embed, search."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from ccml.cli import _options as options
from ccml.cli._console import console, errors_in_one_line, print_json, say

if TYPE_CHECKING:
    import pandas as pd

    from ccml.reading import Rows

_TABLES = (".csv", ".tsv", ".parquet", ".json")  # that can be written


@errors_in_one_line
def predict(
    model: options.Model,
    data: options.Data,
    out: options.OutFile = None,
    proba: Annotated[
        bool, typer.Option("--proba", help="Also the probability of each class.")
    ] = False,
    explain: Annotated[
        int | None,
        typer.Option(
            help="Also so many of the nearest rows of the winning class and of the runner-up.",
            metavar="K",
            min=1,
        ),
    ] = None,
    reject: Annotated[
        float | None,
        typer.Option(
            help="Call a row 'unknown' that is farther from every class than this fraction of the "
            "model's own rows, as 0.99; a column says which are rejected.",
            metavar="P",
        ),
    ] = None,
    delimiter: options.Delimiter = None,
    image_size: options.ImageSize = None,
    as_json: options.Json = False,
) -> None:
    """Give each row its class: a table as CSV, or a file (.csv, .tsv, .parquet, .json).

    ccml predict iris.ccml new.csv --proba --explain 3
    """
    from ccml import modelling

    _check_out(out, data)
    pipeline, about = options.opened(model)
    rows = _read(data, delimiter, image_size)
    columns, notes = modelling.predict(
        pipeline, about, rows, proba=proba, explain=explain, reject=reject
    )
    _deliver(columns, notes, out, as_json)


@errors_in_one_line
def evaluate(
    model: options.Model,
    data: options.Data,
    target: options.Target = None,
    labels: options.Labels = None,
    k: Annotated[int, typer.Option("-k", help="Of precision@k and nDCG@k.", min=1)] = 10,
    delimiter: options.Delimiter = None,
    image_size: options.ImageSize = None,
    as_json: options.Json = False,
) -> None:
    """Say how good a model is on labelled rows that it hasn't seen.

    ccml evaluate iris.ccml test.csv
    """
    from ccml import modelling

    pipeline, about = options.opened(model)
    rows = options.read_labelled(data, about, target, labels, delimiter, image_size)
    result = modelling.evaluate(pipeline, about, rows, k=k)
    if as_json:
        print_json(result)
        return
    table = Table(title=f"{len(rows):,} rows of {data}")
    table.add_column("measure")
    table.add_column("value", justify="right")
    for name, value in result.items():
        if isinstance(value, float):
            table.add_row(name, f"{value:.4f}")
    console.print(table)
    console.print("Confusion: a row for the class they have, a column for the one they are given.")
    confusion = Table()
    confusion.add_column("")
    for label in result["classes"]:
        confusion.add_column(str(label), justify="right")
    for label, counts in zip(result["classes"], result["confusion"], strict=True):
        confusion.add_row(str(label), *map(str, counts))
    console.print(confusion)


@errors_in_one_line
def embed(
    model: options.Model,
    data: options.Data,
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write: .parquet or .npy.")],
    delimiter: options.Delimiter = None,
    image_size: options.ImageSize = None,
    as_json: options.Json = False,
) -> None:
    """Map rows into the learned space, where Euclidean distance is the metric.

    ccml embed iris.ccml new.csv -o new.npy
    """
    import numpy as np

    from ccml import modelling
    from ccml._atomic import whole_file

    if out.suffix not in (".npy", ".parquet"):
        raise ValueError(f"{out} must end with .npy or .parquet.")
    options.check_writable(out, data)
    pipeline, about = options.opened(model)
    rows = _read(data, delimiter, image_size)
    Z, notes = modelling.embed(pipeline, about, rows)
    with whole_file(out) as file:
        if out.suffix == ".npy":
            np.save(file, Z)
        else:
            columns = {f"z{i}": column for i, column in enumerate(np.asarray(Z).T)}
            _frame({"row": rows.called, **columns}).to_parquet(file, index=False)
    _say_notes(notes)
    if as_json:
        print_json({"embedding": str(out), "rows": len(Z), "components": Z.shape[1]})
    else:
        say(f"Saved {out}: {len(Z):,} rows of {Z.shape[1]} numbers")


@errors_in_one_line
def search(
    model: options.Model,
    data: options.Data,
    k: Annotated[int, typer.Option("-k", help="How many for each query.", min=1)] = 10,
    gallery: Annotated[
        Path | None,
        typer.Option(help="Rows to search in, instead of those that the model was made from."),
    ] = None,
    out: options.OutFile = None,
    delimiter: options.Delimiter = None,
    image_size: options.ImageSize = None,
    as_json: options.Json = False,
) -> None:
    """Find the nearest rows for queries, under the learned metric.

    ccml search photos.ccml new_photos/ --gallery old_photos/ -k 5
    """
    from ccml import modelling

    _check_out(out, data, *([] if gallery is None else [gallery]))
    pipeline, about = options.opened(model)
    rows = _read(data, delimiter, image_size)
    others = None if gallery is None else _read(gallery, delimiter, image_size)
    columns, notes = modelling.search(pipeline, about, rows, k=k, gallery=others)
    _deliver(columns, notes, out, as_json)


def _read(data: Path, delimiter: str | None, image_size: str | None) -> "Rows":
    from ccml.reading import read

    return read(data, delimiter=delimiter, image_size=options.size_of(image_size))


def _check_out(out: Path | None, *inputs: Path) -> None:
    """Refuse a file that can't be written before anything is computed for it."""
    if out is None:
        return
    options.check_writable(out, *inputs)
    if out.suffix not in _TABLES:
        raise ValueError(f"{out} must end with one of {', '.join(_TABLES)}.")


def _say_notes(notes: list[str]) -> None:
    for note in notes:
        say(f"Note: {note}.")


def _deliver(columns: Mapping[str, Any], notes: list[str], out: Path | None, as_json: bool) -> None:
    """Write columns to a file, or print them."""
    from ccml._atomic import whole_file

    frame = _frame(columns)
    _say_notes(notes)
    if out is None:
        typer.echo(_records(frame) if as_json else _text(frame, ","), nl=as_json)
        return
    with whole_file(out) as file:
        if out.suffix == ".parquet":
            frame.to_parquet(file, index=False)
        elif out.suffix == ".json":
            file.write(_records(frame).encode())
        else:
            file.write(_text(frame, "\t" if out.suffix == ".tsv" else ",").encode())
    if as_json:
        print_json({"table": str(out), "rows": len(frame)})
    else:
        say(f"Saved {out}")


def _frame(columns: Mapping[str, Any]) -> "pd.DataFrame":
    import pandas as pd

    return pd.DataFrame(columns)


def _records(frame: "pd.DataFrame") -> str:
    return frame.to_json(orient="records")


def _text(frame: "pd.DataFrame", delimiter: str) -> str:
    """Write lists as JSON does: "[49, 39]", which `json.loads` reads, whatever is in the names."""
    lists = {name: frame[name].map(_cell) for name in frame if _has_lists(frame[name])}
    return frame.assign(**lists).to_csv(index=False, sep=delimiter)


def _has_lists(column: "pd.Series[Any]") -> bool:
    return len(column) > 0 and isinstance(column.iloc[0], list)


def _cell(values: list[Any]) -> str:
    short = [float(f"{value:.4g}") if isinstance(value, float) else value for value in values]
    return json.dumps(short, ensure_ascii=False)
