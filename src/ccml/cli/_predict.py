"""Commands that use a model: predict, evaluate, embed, search."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from ccml.cli import _options as options
from ccml.cli._console import console, errors_in_one_line, print_json, say

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TABLES = (".csv", ".tsv", ".parquet", ".json")  # that can be written
UNKNOWN = "unknown"  # what a rejected row is called


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
            "model's own rows, as 0.99.",
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
    _check_out(out)
    pipeline, known, X, names = _prepared(model, data, delimiter, image_size)
    classifier, Z = pipeline[-1], pipeline[:-1].transform(X)
    labels = classifier.predict(Z).astype(object)
    if reject is not None:
        labels = labels.astype(str).astype(object)  # "unknown" among numbers would be of two types
        labels[classifier.is_unknown(Z, reject)] = UNKNOWN
    columns: dict[str, Any] = {"row": names, "label": labels}
    if proba:
        columns |= dict(
            zip(map("p_{}".format, classifier.classes_), classifier.predict_proba(Z).T, strict=True)
        )
    if explain is not None:
        columns |= _explained(classifier.explain(Z, explain), known)
    _deliver(columns, out, as_json)


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
    from ccml import modelling, persistence

    about = options.fitted_on(model)
    rows = options.read_labelled(data, about, target, labels, delimiter, image_size)
    result = modelling.evaluate(persistence.load(model), about, rows, k=k)
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

    from ccml._atomic import whole_file

    if out.suffix not in (".npy", ".parquet"):
        raise ValueError(f"{out} must end with .npy or .parquet.")
    options.check_folder_of(out)
    pipeline, _, X, names = _prepared(model, data, delimiter, image_size)
    Z = pipeline[:-1].transform(X)
    if out.suffix == ".npy":
        with whole_file(out) as file:
            np.save(file, Z)
    else:
        columns = {f"z{i}": column for i, column in enumerate(np.asarray(Z).T)}
        _write({"row": names, **columns}, out)
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
    import numpy as np

    from ccml.neighbors import ClassIndex

    _check_out(out)
    pipeline, known, X, names = _prepared(model, data, delimiter, image_size)
    index = pipeline[-1].index_
    if gallery is not None:
        _, _, X_gallery, known = _prepared(model, gallery, delimiter, image_size)
        index = ClassIndex(pipeline[:-1].transform(X_gallery), np.zeros(len(known), dtype=int))
    k = min(k, index.n_rows)
    distances, found = index.nearest(pipeline[:-1].transform(X), k)
    columns: dict[str, Any] = {
        "query": np.repeat(np.asarray(names, dtype=object), k),
        "rank": np.tile(np.arange(1, k + 1), len(names)),
        "row": np.asarray(known, dtype=object)[found.ravel()],
        "distance": np.sqrt(distances.ravel()),
    }
    if gallery is None:
        columns["label"] = index.labels[found.ravel()]
    _deliver(columns, out, as_json)


def _prepared(
    model: Path, data: Path, delimiter: str | None, image_size: str | None
) -> tuple[Any, list[Any], Any, list[Any]]:
    """Load a model, and rows in the form that it takes; each with what their rows are called."""
    from ccml import persistence
    from ccml.modelling import aligned, names_of
    from ccml.reading import read

    about = options.fitted_on(model)
    rows = read(data, delimiter=delimiter, image_size=options.size_of(image_size))
    X, notes = aligned(rows, about)
    for note in notes:
        say(f"Note: {note}.")
    known = about.get("names") or list(range(about["data"]["rows"]))
    if len({type(name) for name in known}) > 1:  # numbers of rows, and names of those added
        known = [str(name) for name in known]
    return persistence.load(model), known, X, names_of(rows)


def _explained(explanation: Any, names: list[Any]) -> dict[str, Any]:
    """Columns with the rows behind the winner and the runner-up."""
    import numpy as np

    called = np.asarray([*names, ""], dtype=object)  # the last one for neighbours there aren't
    columns: dict[str, Any] = {"margin": explanation.margins}
    for rank, who in enumerate(("label", "runner_up")[: explanation.classes.shape[1]]):
        if rank:
            columns[who] = explanation.classes[:, rank]
        exists = explanation.rows[:, rank] >= 0
        rows, distances = called[explanation.rows[:, rank]], explanation.distances[:, rank] ** 0.5
        columns[f"{who}_rows"] = _joined(rows, exists, "{}")
        columns[f"{who}_distances"] = _joined(distances, exists, "{:.4g}")
    return columns


def _joined(values: "NDArray[Any]", exists: "NDArray[Any]", form: str) -> list[str]:
    """Write each query's values into one field."""
    return [
        " ".join(form.format(value) for value in row[there])
        for row, there in zip(values, exists, strict=True)
    ]


def _check_out(out: Path | None) -> None:
    """Refuse a file that can't be written before anything is computed for it."""
    if out is None:
        return
    options.check_folder_of(out)
    if out.suffix not in _TABLES:
        raise ValueError(f"{out} must end with one of {', '.join(_TABLES)}.")


def _deliver(columns: Mapping[str, Any], out: Path | None, as_json: bool) -> None:
    """Write columns to a file, or print them."""
    import pandas as pd

    if out is not None:
        _write(columns, out)
        say(f"Saved {out}")
        return
    frame = pd.DataFrame(columns)
    typer.echo(
        frame.to_json(orient="records") if as_json else frame.to_csv(index=False), nl=as_json
    )


def _write(columns: Mapping[str, Any], out: Path) -> None:
    import pandas as pd

    from ccml._atomic import whole_file

    frame = pd.DataFrame(columns)
    with whole_file(out) as file:
        if out.suffix == ".parquet":
            frame.to_parquet(file, index=False)
        elif out.suffix == ".json":
            frame.to_json(file, orient="records")
        else:
            frame.to_csv(file, index=False, sep="\t" if out.suffix == ".tsv" else ",")
