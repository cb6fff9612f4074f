"""The commands."""

from typing import Annotated

import typer

from ccml.cli import _datasets, _fit, _gallery, _predict, _reproduce
from ccml.cli._console import console, show_tracebacks

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)
for command in (_fit.fit, _predict.predict, _predict.evaluate, _predict.embed, _predict.search):
    app.command()(command)
for command in (_fit.info, _fit.add, _fit.export, _reproduce.reproduce):
    app.command()(command)
app.add_typer(_datasets.app, name="datasets")
app.add_typer(_gallery.app, name="gallery")


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
