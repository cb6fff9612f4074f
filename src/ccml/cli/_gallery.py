"""Commands on a gallery: add, import, search, classify, info, export, remove."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ccml.cli import _options as options
from ccml.cli._console import console, errors_in_one_line, print_json, say
from ccml.cli._predict import _check_out, _deliver, _read, _say_notes

if TYPE_CHECKING:
    from ccml.gallery import Gallery
    from ccml.reading import Rows

app = typer.Typer(
    no_args_is_help=True, help="Keep items in a database, and search and classify by them."
)

Uri = Annotated[
    str, typer.Option(help="A path that ends with .db, or a server, as http://localhost:19530.")
]
Token = Annotated[
    str, typer.Option(help="Of a server that wants one.", envvar="MILVUS_TOKEN", show_default=False)
]
Neighbors = Annotated[int | None, typer.Option("-k", help="Items per class that count.", min=1)]


@app.command()
@errors_in_one_line
def add(
    model: options.Model,
    data: options.Data,
    uri: Uri = "gallery.db",
    ids: Annotated[
        str | None,
        typer.Option(
            help="Column of a table that has the ids; by default FILE:ROW.", metavar="COLUMN"
        ),
    ] = None,
    payload: Annotated[
        str | None,
        typer.Option(help="Columns of a table to keep with each item.", metavar="COLUMN,..."),
    ] = None,
    target: options.Target = None,
    labels: options.Labels = None,
    delimiter: options.Delimiter = None,
    image_size: options.ImageSize = None,
    token: Token = "",
    as_json: options.Json = False,
) -> None:
    """Embed labelled rows and keep them; rows whose ids are there replace what was.

    ccml gallery add iris.ccml iris.csv
    """
    from ccml.modelling import checked_labels, inputs_of

    pipeline, about = options.opened(model)
    rows = options.read_labelled(data, about, target, labels, delimiter, image_size)
    y = checked_labels(rows)
    names, belongings = _names(rows, data, ids), _belongings(rows, payload)
    X, notes = inputs_of(pipeline, about, rows)
    with _opened(pipeline, uri, token, new=True) as gallery:
        gallery.add(X, y, names, belongings)
        _say_notes(notes)
        _report(f"Added {len(rows):,} items", {"added": len(rows)}, gallery, as_json)


@app.command("import")
@errors_in_one_line
def import_(
    model: options.Model,
    file: Annotated[Path, typer.Argument(help="What `ccml gallery export` has written.")],
    uri: Uri = "gallery.db",
    token: Token = "",
    as_json: options.Json = False,
) -> None:
    """Add the items of another gallery of the same model."""
    with _opened(_loaded(model), uri, token, new=True) as gallery:
        n_items = gallery.import_parquet(file)
        _report(f"Added {n_items:,} items", {"added": n_items}, gallery, as_json)


@app.command()
@errors_in_one_line
def search(
    model: options.Model,
    data: options.Data,
    uri: Uri = "gallery.db",
    k: Annotated[int, typer.Option("-k", help="How many for each query.", min=1)] = 10,
    where: Annotated[
        list[str] | None,
        typer.Option(
            help="Only items with this label, or this in their payload; again for other fields, or "
            "other values.",
            metavar="FIELD=VALUE",
        ),
    ] = None,
    out: options.OutFile = None,
    delimiter: options.Delimiter = None,
    image_size: options.ImageSize = None,
    token: Token = "",
    as_json: options.Json = False,
) -> None:
    """Find the nearest items for queries, under the learned metric.

    ccml gallery search iris.ccml new.csv -k 3 --where label=setosa
    """
    from ccml.modelling import inputs_of

    _check_out(out, data)
    chosen = _filter(where or [])
    pipeline, about = options.opened(model)
    rows = _read(data, delimiter, image_size)
    X, notes = inputs_of(pipeline, about, rows)
    with _opened(pipeline, uri, token) as gallery:
        found = gallery.search(X, k, filter=chosen)
    matches = [
        (name, rank, match)
        for name, hits in zip(rows.called, found, strict=True)
        for rank, match in enumerate(hits, start=1)
    ]
    columns = {
        "query": [name for name, _, _ in matches],
        "rank": [rank for _, rank, _ in matches],
        "id": [match.id for _, _, match in matches],
        "label": [match.label for _, _, match in matches],
        "distance": [match.distance**0.5 for _, _, match in matches],
        "payload": [json.dumps(match.payload) for _, _, match in matches],
    }
    _deliver(columns, notes, out, as_json)


@app.command()
@errors_in_one_line
def classify(
    model: options.Model,
    data: options.Data,
    uri: Uri = "gallery.db",
    k: Neighbors = None,
    proba: Annotated[
        bool, typer.Option("--proba", help="Also the probability of each class.")
    ] = False,
    out: options.OutFile = None,
    delimiter: options.Delimiter = None,
    image_size: options.ImageSize = None,
    token: Token = "",
    as_json: options.Json = False,
) -> None:
    """Give each row the class whose nearest items are nearest.

    ccml gallery classify iris.ccml new.csv --proba
    """
    from ccml.modelling import inputs_of

    _check_out(out, data)
    pipeline, about = options.opened(model)
    rows = _read(data, delimiter, image_size)
    X, notes = inputs_of(pipeline, about, rows)
    with _opened(pipeline, uri, token) as gallery:
        columns: dict[str, Any] = {"row": rows.called, "label": gallery.classify(X, k)}
        if proba:
            headings = map("p_{}".format, gallery.classes)
            columns |= dict(zip(headings, gallery.classify_proba(X, k).T, strict=True))
    _deliver(columns, notes, out, as_json)


@app.command()
@errors_in_one_line
def info(
    model: options.Model, uri: Uri = "gallery.db", token: Token = "", as_json: options.Json = False
) -> None:
    """Say what is in a gallery."""
    with _opened(_loaded(model), uri, token) as gallery:
        result: dict[str, Any] = {
            "uri": uri,
            "items": gallery.count(),
            "classes": gallery.classes.tolist(),
            "model": gallery.model,
        }
    if as_json:
        print_json(result)
        return
    from ccml._validation import listed

    shown = result | {"items": f"{result['items']:,}", "classes": listed(result["classes"], 20)}
    for name, value in shown.items():
        console.print(f"{name:>10}  {value}", markup=False, highlight=False, soft_wrap=True)


@app.command()
@errors_in_one_line
def export(
    model: options.Model,
    out: Annotated[Path, typer.Argument(help="Parquet file to write.")],
    uri: Uri = "gallery.db",
    token: Token = "",
    as_json: options.Json = False,
) -> None:
    """Write all items, with their vectors, to a Parquet file."""
    options.check_writable(out, model)
    if out.suffix != ".parquet":
        raise ValueError(f"{out} must end with .parquet.")
    with _opened(_loaded(model), uri, token) as gallery:
        n_items = gallery.export_parquet(out)
    if as_json:
        print_json({"items": n_items, "file": str(out)})
    else:
        say(f"Saved {out}: {n_items:,} items")


@app.command()
@errors_in_one_line
def remove(
    model: options.Model,
    ids: Annotated[list[str], typer.Argument(help="Ids of items.", show_default=False)],
    uri: Uri = "gallery.db",
    token: Token = "",
    as_json: options.Json = False,
) -> None:
    """Remove items by their ids; 5 is both the number and the text."""
    numbers = [int(i) for i in ids if i.removeprefix("-").isdecimal()]
    with _opened(_loaded(model), uri, token) as gallery:
        n_items = gallery.remove([*ids, *numbers])
        _report(f"Removed {n_items:,} items", {"removed": n_items}, gallery, as_json)


def _loaded(model: Path) -> Any:
    from ccml.persistence import load

    return load(model)


def _opened(model: Any, uri: str, token: str, *, new: bool = False) -> "Gallery":
    from ccml.gallery import Gallery

    if not new and "://" not in uri and not Path(uri).exists():
        raise ValueError(f"There is no gallery {uri}. Make one with `ccml gallery add`.")
    return Gallery(model, uri, token=token)


def _report(done: str, result: dict[str, int], gallery: "Gallery", as_json: bool) -> None:
    n_items = gallery.count()
    if as_json:
        print_json({**result, "items": n_items})
    else:
        say(f"{done}; {gallery.uri} has {n_items:,} now")


def _names(rows: "Rows", data: Path, column: str | None) -> list[Any]:
    """Say what items are called."""
    if column is not None:
        return _columns(rows, "--ids", [column])[column].tolist()
    if rows.kind == "images" and rows.names is not None:
        return rows.names
    return [f"{data.name}:{number}" for number in rows.called]


def _belongings(rows: "Rows", payload: str | None) -> list[Any] | None:
    """Take what is to be kept with each item out of a table."""
    if payload is None:
        return None
    names = [name.strip() for name in payload.split(",")]
    return json.loads(_columns(rows, "--payload", names).to_json(orient="records"))


def _columns(rows: "Rows", option: str, names: list[str]) -> Any:
    missing = [name for name in names if rows.kind != "table" or name not in rows.X.columns]
    if missing:
        raise ValueError(f"{option}: the data has no column {missing[0]!r} beside its labels.")
    return rows.X[names]


def _filter(where: list[str]) -> dict[str, list[Any]]:
    """Read FIELD=VALUE; a value that is a number, true, false or null in JSON is taken as such.

    Examples
    --------
    >>> _filter(["label=a", "size=3", "label=b"])
    {'label': ['a', 'b'], 'size': [3]}
    """
    chosen: dict[str, list[Any]] = {}
    for condition in where:
        field, separator, text = condition.partition("=")
        if not separator:
            raise ValueError(f"--where {condition!r} must be FIELD=VALUE, as label=cat.")
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        chosen.setdefault(field, []).append(text if isinstance(value, list | dict) else value)
    return chosen
