"""Commands and how their results are printed."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from ccml.cli import _datasets, _fit, _gallery, _predict
from ccml.cli._console import console, errors_in_one_line, show_tracebacks

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)
for command in (_fit.fit, _predict.predict, _predict.evaluate, _predict.embed, _predict.search):
    app.command()(command)
for command in (_fit.info, _fit.add, _fit.export):
    app.command()(command)
app.add_typer(_datasets.app, name="datasets")
app.add_typer(_gallery.app, name="gallery")


class Target(StrEnum):
    """What can be reproduced."""

    all = "all"
    table1 = "table1"
    sandwich = "sandwich"


def _print_version(wanted: bool) -> None:
    if wanted:
        from ccml import __version__

        console.print(f"ccml {__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error comes from.")] = False,
) -> None:
    """Learn a distance from labelled data; classify and retrieve by it."""
    if debug:
        show_tracebacks()


@app.command()
@errors_in_one_line
def reproduce(
    target: Annotated[Target, typer.Argument(help="Which table or figure.")] = Target.all,
    datasets: Annotated[
        str, typer.Option(help="Data sets of Table I, separated by commas: wine,isolet,mnist,norb.")
    ] = "wine",
    metrics: Annotated[
        str,
        typer.Option(
            help="Metrics of Table I, separated by commas: Euclidean,ITML,NCMC,LMNN,NCA,CCML, and "
            "for images ConvNet1,ConvNet2,ConvCCML1,ConvCCML2."
        ),
    ] = "Euclidean,CCML",
    out: Annotated[Path, typer.Option(help="Folder for the figures.")] = Path("report"),
) -> None:
    """Run the paper's experiments and print our figures beside the paper's."""
    if target in (Target.all, Target.table1):
        _print_table1(_names(datasets), _names(metrics))
    if target in (Target.all, Target.sandwich):
        _draw_sandwich(out / "sandwich.png")


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _print_table1(names: list[str], metrics: list[str]) -> None:
    from ccml.experiments import table1

    table = Table(title="Table I: error in percent, mean ± deviation over seeds")
    for heading in ("data set", "metric"):
        table.add_column(heading)
    for heading in ("KNN", "paper", "CCKNN", "paper"):
        table.add_column(heading, justify="right")
    with console.status("Table I"):
        for cell in table1.run(names, metrics):
            columns = []
            for mean, spread, paper in zip(cell.mean, cell.spread, cell.paper, strict=True):
                # What is found on other data is neither better nor worse than the paper's figure.
                colour = "yellow" if cell.stand_in else "green" if mean <= paper else "red"
                columns += [f"[{colour}]{mean:.2f}[/] ± {spread:.2f}", f"{paper:.2f}"]
            name = f"{cell.dataset} (stand-in)" if cell.stand_in else cell.dataset
            table.add_row(name, cell.metric, *columns)
    console.print(table)


def _draw_sandwich(path: Path) -> None:
    from ccml.experiments import sandwich

    with console.status("Figure 2: Sandwich"):
        errors = sandwich.figure(path)
    panels = ", ".join(f"{title} {error:.0%}" for title, error in errors.items())
    console.print(f"Figure 2, Sandwich, leave-one-out 1-NN error: {panels}")
    console.print(f"Saved {path.resolve()}", soft_wrap=True, markup=False)
