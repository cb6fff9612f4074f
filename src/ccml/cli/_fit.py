"""Commands that make and change models: fit, add, info, export."""

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from ccml.cli import _options as options
from ccml.cli._console import (
    complain,
    console,
    errors,
    errors_in_one_line,
    interruptible,
    print_json,
    say,
)

if TYPE_CHECKING:
    from ccml.modelling import Options
    from ccml.reading import Rows

_NEIGHBORS = 5


@errors_in_one_line
def fit(
    data: options.Data,
    out: Annotated[Path, typer.Option("--out", "-o", help="The model, by custom *.ccml.")],
    target: options.Target = None,
    labels: options.Labels = None,
    learner: Annotated[
        str, typer.Option(help="CCML, NCA, KNCA, LMNN, NCMC, DrLIM or ITML.")
    ] = "CCML",
    neighbors: Annotated[
        int | None,
        typer.Option(help="Rows of each class that decide.", show_default=str(_NEIGHBORS)),
    ] = None,
    components: Annotated[
        int | None, typer.Option(help="Dimensions of the learned space.", show_default="automatic")
    ] = None,
    embedding: Annotated[
        str, typer.Option(help="linear, mlp or conv; auto is conv for images.")
    ] = "auto",
    checkpoint: Annotated[
        Path | None, typer.Option(help="Go on from here if the training is killed.")
    ] = None,
    tune: Annotated[
        float | None,
        typer.Option(
            help="Search for better parameters for so many minutes first, and keep the trials in "
            "OUT.study.db: the same command goes on from them.",
            metavar="MINUTES",
            min=0,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of all that is random.")] = 0,
    device: Annotated[str, typer.Option(help="Of torch: cpu, cuda.")] = "cpu",
    threads: Annotated[int | None, typer.Option(help="To compute with.", min=1)] = None,
    delimiter: options.Delimiter = None,
    image_size: options.ImageSize = None,
    as_json: options.Json = False,
) -> None:
    """Learn a metric from labelled rows, and save a classifier that uses it.

    Prints the error on held-out rows beside that of plain nearest neighbours, to see whether the
    metric helped.

        ccml fit iris.csv --target species -o iris.ccml

        ccml fit photos/ --image-size 32x32 -o photos.ccml

        ccml fit iris.csv --target species -o iris.ccml --tune 5
    """
    options.use_threads(threads)
    from ccml import persistence
    from ccml.modelling import Options, make
    from ccml.reading import read

    options.check_writable(out, data)
    rows = read(
        data,
        target=target,
        labels=labels,
        delimiter=delimiter,
        image_size=options.size_of(image_size),
    )
    if not as_json:
        _say_what_was_read(data, rows)
    run: dict[str, Any] = {}
    if learner != "ITML":  # which has a solver of its own
        run = {"device": device, "verbose": errors.is_terminal and not as_json}
        run |= {} if checkpoint is None else {"checkpoint": str(checkpoint)}
    k = _NEIGHBORS if neighbors is None else neighbors
    how = Options(learner, k, components, embedding, seed, run)
    found: dict[str, Any] = {}
    if tune is not None:
        fixed = [] if neighbors is None else ["n_neighbors"]
        how, found = _tuned(rows, how, tune, Path(f"{out}.study.db"), fixed, quiet=as_json)
    with interruptible() as warned:
        made = make(rows, how)
    notes = [*made.notes, *warned]
    about = {"source": data.name, "target": target, **made.about, **found}
    persistence.save(made.model, out, about={"fit": about})
    if as_json:
        print_json({"model": str(out), **_without_names(about), "notes": notes})
        return
    for note in notes:
        say(f"Note: {note.rstrip('.')}.")
    errors.print(_error_table(made.about))
    say(f"Saved {out}")


@errors_in_one_line
def add(
    model: options.Model,
    data: options.Data,
    target: options.Target = None,
    labels: options.Labels = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Another file for the larger model.")
    ] = None,
    delimiter: options.Delimiter = None,
    image_size: options.ImageSize = None,
    as_json: options.Json = False,
) -> None:
    """Give a model more rows, of its classes or of new ones, without training.

    ccml add iris.ccml more.csv --target species
    """
    from ccml import persistence
    from ccml.modelling import add_rows

    options.check_writable(out or model, data)
    pipeline, about = options.opened(model)
    rows = options.read_labelled(data, about, target, labels, delimiter, image_size)
    larger, about, notes = add_rows(pipeline, about, rows, data.name)
    persistence.save(larger, out or model, about={"fit": about})
    if as_json:
        print_json({"model": str(out or model), **_without_names(about), "notes": notes})
        return
    for note in notes:
        say(f"Note: {note}.")
    say(f"Saved {out or model}: {about['data']['rows']:,} rows, {_classes(about['class_counts'])}")


@errors_in_one_line
def info(model: options.Model, as_json: options.Json = False) -> None:
    """Say what a model is, what it was trained on, when, and with which versions."""
    from ccml._validation import listed
    from ccml.persistence import describe

    about = describe(model)
    fitted = about.pop("fit", None)
    if as_json:
        print_json(about if fitted is None else about | {"fit": _without_names(fitted)})
        return
    lines = {"model": about["model"]}
    if fitted is not None:
        data = fitted["data"]
        lines |= {
            "made from": f"{fitted['source']}, {data['rows']:,} rows ({data['kind']})",
            "columns": listed(fitted["columns"]) if "columns" in fitted else None,
            "target": fitted["target"],
            "classes": _classes(fitted["class_counts"]),
            "tuned": _tuning(fitted["tuning"]) if "tuning" in fitted else None,
        }
    lines |= {
        "saved": about["saved"],
        "versions": ", ".join(f"{name} {number}" for name, number in about["versions"].items()),
    }
    for name, value in lines.items():
        if value:
            console.print(f"{name:>10}  {value}", markup=False, highlight=False, soft_wrap=True)
    if fitted is not None:
        console.print(_error_table(fitted))


@errors_in_one_line
def export(
    model: options.Model,
    out: Annotated[Path, typer.Argument(help="The file to write, *.onnx.")],
    as_json: options.Json = False,
) -> None:
    """Write the embedding of a model as ONNX, to use the metric where Python isn't.

    ccml export iris.ccml iris.onnx
    """
    from ccml import persistence
    from ccml.export import export_onnx

    options.check_writable(out, model)
    export_onnx(persistence.load(model), out)
    if as_json:
        print_json({"onnx": str(out)})
    else:
        say(f"Saved {out}")


def _tuned(
    rows: "Rows", how: "Options", minutes: float, study: Path, fixed: list[str], quiet: bool
) -> tuple["Options", dict[str, Any]]:
    """Search for better options, and show how it goes; also return what `about` should tell."""
    from ccml.tuning import Found, tuned

    history: list[Found] = []
    with nullcontext() if quiet else errors.status("Tuning: the first trial") as status:

        def show(found: Found) -> None:
            history.append(found)
            if status is not None:
                status.update(f"Tuning for {minutes:g} minutes: {_tuning(vars(found))}")

        try:
            best = tuned(rows, how, minutes=minutes, study=study, fixed=fixed, on_trial=show)
        except KeyboardInterrupt:
            complain(
                "Interrupted; no model was written. The trials that came to their end are kept in "
                f"{study}, and the same command goes on from them."
            )
            raise typer.Exit(130) from None
    found = vars(history[-1])
    if not quiet:
        say(f"Tuned: {_tuning(found)}. The trials are in {study}")
    return best, {"tuning": found}


def _tuning(found: dict[str, Any]) -> str:
    """Say what a search has found."""
    failed = f" ({found['failed']} failed)" if found["failed"] else ""
    best, given = (
        "unknown" if found[name] is None else f"{100 * found[name]:.2f} %"
        for name in ("error", "given_error")
    )
    values = [f"{name} {value:.3g}" for name, value in found["parameters"].items()]
    which = f"{', '.join(values)} ({given} without tuning)" if values else "what was given"
    return f"{found['trials']} trials{failed}, validation error {best} with {which}"


def _without_names(about: dict[str, Any]) -> dict[str, Any]:
    """Leave out what is as long as the data."""
    return {key: value for key, value in about.items() if key != "names"}


def _say_what_was_read(data: Path, rows: "Rows") -> None:
    import numpy as np

    shape = " x ".join(map(str, rows.X.shape[1:]))
    what = {"table": f"{shape} columns", "vectors": f"{shape} numbers", "images": f"{shape} pixels"}
    say(f"Read {data}: {len(rows):,} rows of {what[rows.kind]}")
    if rows.y is not None:
        names, counts = np.unique(rows.y, return_counts=True)
        say(_classes(dict(zip(map(str, names), counts.tolist(), strict=True))))
    if rows.kind == "table":
        _say_what_is_done(rows.X)


def _say_what_is_done(frame: Any) -> None:
    from ccml._validation import listed

    text = [name for name in frame.columns if frame[name].dtype.kind not in "fiub"]
    gaps = [name for name in frame.columns if frame[name].isna().any()]
    if text:
        say(f"Text, categories and dates become numbers: {listed(text)}")
    if gaps:
        say(f"Missing values become the median of their column: {listed(gaps)}")


def _classes(counts: dict[str, int]) -> str:
    from ccml._validation import listed

    shown = [f"{name} ({count:,})" for name, count in counts.items()]
    return f"{len(counts)} classes: {listed(shown)}"


def _error_table(about: dict[str, Any]) -> Table | str:
    found = about["errors"]
    if found is None:
        return "Too few rows to hold some out: how good it is isn't known."
    table = Table(title=f"Error on {about['held_out']:,} held-out rows, in percent")
    for heading in ("KNN without a metric", "KNN", "CCKNN"):
        table.add_column(heading, justify="right")
    table.add_row(*(f"{100 * found[rule]:.2f}" for rule in ("plain", "knn", "ccknn")))
    return table
