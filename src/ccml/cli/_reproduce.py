"""``ccml reproduce``: the paper's table and figures."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group
from rich.live import Live
from rich.table import Table

from ccml.cli import _options as options
from ccml.cli._console import complain, console, errors, errors_in_one_line, print_json, say

if TYPE_CHECKING:
    from ccml.experiments.choose import Chosen
    from ccml.experiments.progress import Progress
    from ccml.experiments.records import Record
    from ccml.experiments.reproduction import Plan
    from ccml.experiments.runs import Event


@errors_in_one_line
def reproduce(
    what: Annotated[
        str, typer.Argument(help="table1, sandwich, retrieval, gallery, or all.")
    ] = "all",
    datasets: Annotated[
        str | None,
        typer.Option(
            help="Separated by commas, of wine, isolet, mnist, norb and digits.",
            show_default="the paper's",
        ),
    ] = None,
    rows: Annotated[
        str | None,
        typer.Option(help="Of Table I, separated by commas, as CCML,NCA.", show_default="all"),
    ] = None,
    seeds: Annotated[
        str | None,
        typer.Option(
            help="How many: 2 of each data set, or mnist=2,norb=2 of these.",
            show_default="wine 10, isolet 3, mnist and norb 1",
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Wine and digits, few seeds: no download, two minutes.")
    ] = False,
    tune: Annotated[
        float | None,
        typer.Option(
            help="Search for settings first, on validation rows, for so many minutes for each row "
            "of each data set. The trials are kept in OUT/trials.db, what is chosen in "
            "OUT/settings: the same command goes on from them.",
            metavar="MINUTES",
            min=0,
        ),
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the report.")] = Path(
        "report"
    ),
    jobs: Annotated[
        int | None,
        typer.Option(help="Cells to compute at a time, a core each.", show_default="cores", min=1),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Run the paper's experiments, and put our figures beside the paper's in a report.

    Finished cells are kept in OUT/cells; the same command goes on from them.

        ccml reproduce --quick

        ccml reproduce table1 --datasets wine,isolet --rows CCML,NCA
    """
    jobs = os.cpu_count() or 1 if jobs is None else jobs
    from ccml.experiments.reproduction import Plan, reproduce

    names, of_rows, n_seeds = _names(datasets), _names(rows), _seeds(seeds)
    plan = Plan.of(what, names, of_rows, n_seeds=n_seeds, quick=quick)
    try:
        if tune is not None:
            from ccml.experiments.choose import choose_all

            choose_all(plan.cells, out, minutes=tune, on_chosen=_say_what_was_chosen)
            chosen = out / "settings"
            plan = Plan.of(what, names, of_rows, n_seeds=n_seeds, quick=quick, settings=chosen)
        with _shown(plan, jobs) as on_event:
            made = reproduce(plan, out, jobs=jobs, on_event=on_event)
    except KeyboardInterrupt:
        complain("Interrupted. What is finished is kept: the same command goes on from there.")
        raise typer.Exit(130) from None
    for reason in made.reasons:
        say(f"Note: {reason}")
    if as_json:
        print_json([vars(record) for record in made.records])
        return
    if made.records:
        console.print(_table(made.records))
    for figure in made.figures:
        console.print(f"{figure.title}. {figure.caption}", highlight=False, markup=False)
    console.print(f"Report: {made.page}", soft_wrap=True, markup=False, highlight=False)


def _names(text: str | None) -> list[str] | None:
    if text is None:
        return None
    return list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def _seeds(text: str | None) -> int | dict[str, int] | None:
    if text is None:
        return None
    try:
        if "=" not in text:
            return int(text)
        pairs = (part.split("=") for part in text.split(","))
        return {name.strip(): int(count) for name, count in pairs}
    except ValueError:
        raise ValueError(
            f"--seeds {text} must be a number, as 2, or one for some data sets, as mnist=2,norb=2."
        ) from None


@contextmanager
def _shown(plan: "Plan", jobs: int) -> "Iterator[Callable[[Event], None]]":
    """Show a live table on a terminal; elsewhere, say a line for each cell that is computed."""
    from ccml.experiments.progress import Progress

    progress = Progress(plan.cells, jobs)

    def status() -> str:
        left = _minutes(progress.seconds_left())
        return f"{len(progress.ended)} of {progress.n_cells} cells, about {left} left"

    def drawn() -> Group:
        running = ", ".join(
            f"{cell.row} on {cell.dataset}" + (f" (epoch {epoch})" if epoch else "")
            for cell, epoch in progress.epochs.items()
        )
        lines = [status(), f"Running: {running}" if running else ""]
        return Group(*lines, _finished(progress)) if progress.ended else Group(*lines)

    def note_and_say(event: "Event") -> None:
        was_running = event.cell in progress.epochs  # not one that was kept
        progress.note(event)
        if was_running and event.cell in progress.ended:
            say(f"{_end_of(event)} ({status()})")

    if not errors.is_terminal or errors.is_dumb_terminal:
        yield note_and_say
    elif not plan.cells:
        yield progress.note
    else:
        with Live(get_renderable=drawn, console=errors, refresh_per_second=2, transient=True):
            yield progress.note


def _end_of(event: "Event") -> str:
    result = event.reason
    if event.outcome is not None:
        result = " / ".join(f"{error:.2f}" for error in event.outcome.errors) + " %"
    return f"{event.cell.row} on {event.cell.dataset}, seed {event.cell.seed}: {result}"


def _finished(progress: "Progress") -> Table:
    from ccml.experiments.table1 import records

    return _table(records(progress.ended))


def _table(records: "Iterable[Record]") -> Table:
    table = Table(title="Table I: error in percent, mean ± deviation over seeds")
    for heading in ("data set", "row"):
        table.add_column(heading)
    for heading in ("KNN", "paper", "CCKNN", "paper"):
        table.add_column(heading, justify="right")
    lines: dict[tuple[str, str], list[str]] = {}
    for record in records:
        name = f"{record.dataset} (stand-in)" if record.stand_in else record.dataset
        paper = "" if record.paper is None else f"{record.paper:.2f}"
        lines.setdefault((name, record.row), []).extend([_figure(record), paper])
    for (name, row), figures in lines.items():
        table.add_row(name, row, *figures)
    return table


def _figure(record: "Record") -> str:
    from ccml.experiments.records import two_decimals

    if record.error is None:
        return "-"
    colour = {True: "green", False: "red", None: "default"}[record.at_most_paper]
    spread = f" ± {record.spread:.2f}" if len(record.seeds) > 1 else ""
    best = "" if record.best_n_components is None else f" ({record.best_n_components})"
    return f"[{colour}]{two_decimals(record.error)}[/]{spread}{best}"


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"


def _say_what_was_chosen(chosen: "Chosen") -> None:
    say(
        f"{chosen.row} on {chosen.dataset}: validation error {chosen.knn:.2f} / "
        f"{chosen.ccknn:.2f} % after {chosen.n_trials} trials"
    )
