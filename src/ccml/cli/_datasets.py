"""``ccml datasets``: look at the data sets that come with names."""

from pathlib import Path
from typing import Annotated

import typer

from ccml.cli import _options as options
from ccml.cli._console import console, errors_in_one_line, print_json

app = typer.Typer(no_args_is_help=True, help="Look at the data sets that come with names.")

_INCHES = 1.2  # of an image's side on the sheet


@app.command("list")
@errors_in_one_line
def list_(as_json: options.Json = False) -> None:
    """List the data sets, and which of them are on this computer."""
    from ccml.datasets import is_here, names

    found = {name: is_here(name) for name in names()}
    if as_json:
        print_json(found)
        return
    for name, here in found.items():
        console.print(f"{name:14} {'here' if here else 'ccml datasets fetch ' + name}")


@app.command()
@errors_in_one_line
def where(as_json: options.Json = False) -> None:
    """Say in which folders data sets are looked for; the last is the one they are written to."""
    from ccml.datasets import folders

    places = [str(folder) for folder in folders()]
    if as_json:
        print_json(places)
        return
    for place in places:
        typer.echo(place)


@app.command()
@errors_in_one_line
def fetch(
    name: Annotated[str, typer.Argument(help="As `ccml datasets list` has it.")],
    as_json: options.Json = False,
) -> None:
    """Get a data set onto this computer, and check it."""
    from ccml.datasets import load

    data = load(name)
    if as_json:
        print_json({"name": data.name, "rows": len(data.X), "features": data.X.shape[1]})
    else:
        console.print(repr(data), markup=False, highlight=False)


@app.command()
@errors_in_one_line
def show(
    name: Annotated[str, typer.Argument(help="digits, mnist, norb or norb-stand-in.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The picture; NAME.png if not given.")
    ] = None,
    columns: Annotated[int, typer.Option(min=1, help="Images of each class.")] = 10,
    as_json: options.Json = False,
) -> None:
    """Draw a sheet of images: a row for each class, a column for each toy where there are toys."""
    from matplotlib.figure import Figure

    from ccml._atomic import whole_file
    from ccml.datasets import load
    from ccml.plotting import plot_images

    path = out or Path(f"{name}.png")
    options.check_writable(path)
    data = load(name)
    if data.image_shape is None:
        raise ValueError(f"{name} has no images to show.")
    rows = data.examples(columns)
    *_, height, width = data.image_shape
    images = data.X.reshape(len(data.X), -1, height, width)[rows, 0]  # of a stereo pair the left
    figure = Figure((_INCHES * columns, _INCHES * len(rows)), layout="constrained")
    ax = plot_images(images, row_names=data.class_names, ax=figure.subplots())
    ax.set_title(data.name)
    with whole_file(path) as file:
        figure.savefig(file, dpi=110, format=path.suffix[1:] or None)
    if as_json:
        print_json({"picture": str(path)})
    else:
        console.print(f"Saved {path.resolve()}", soft_wrap=True, markup=False)
