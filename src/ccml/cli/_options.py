"""Options that several commands have."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from ccml.reading import Rows

Data = Annotated[
    Path,
    typer.Argument(
        help="CSV, TSV, Parquet, Feather, .npz, .npy, or a folder with a subfolder of images for "
        "each class.",
        show_default=False,
    ),
]
Model = Annotated[Path, typer.Argument(help="What `ccml fit` has written.", show_default=False)]
Target = Annotated[
    str | None, typer.Option(help="Column of a table that has the labels.", show_default=False)
]
Labels = Annotated[
    Path | None,
    typer.Option(help="Labels of an .npy or .npz file: .npy, or text, one on each line."),
]
Delimiter = Annotated[
    str | None,
    typer.Option(
        help="What separates the values of a CSV file, if not a comma.",
        callback=lambda text: "\t" if text == r"\t" else text,  # as one types it
    ),
]
ImageSize = Annotated[
    str | None, typer.Option(help="Bring images to HEIGHTxWIDTH, as 32x32.", metavar="HxW")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
OutFile = Annotated[
    Path | None, typer.Option("--out", "-o", help="File to write, instead of printing.")
]


def use_threads(n: int | None) -> None:
    """Compute with so many threads. Before numpy, torch and numba are imported: they look once."""
    if n is not None:
        for library in ("OMP", "OPENBLAS", "MKL", "NUMBA"):
            os.environ[f"{library}_NUM_THREADS"] = str(n)


def check_writable(path: Path, *inputs: Path) -> None:
    """Refuse a file that can't be written, or is an input, before anything is computed for it."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder. Give the name of a file to write.")
    if any(path.exists() and other.exists() and path.samefile(other) for other in inputs):
        raise ValueError(f"{path} is what is read here. Give another file to write.")
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} isn't a file that can be replaced. Give another one to write.")
    if not path.parent.is_dir():
        raise ValueError(f"There is no folder {path.parent} to write {path.name} to.")
    if not os.access(path.parent, os.W_OK):
        raise ValueError(f"Nothing may be written to the folder {path.parent}.")


def opened(model: Path) -> tuple[Any, dict[str, Any]]:
    """Load a model, and what `ccml fit` has remembered of it, which others don't have."""
    from ccml.persistence import describe, load

    about = describe(model)
    if not isinstance(about.get("fit"), dict):
        raise ValueError(f"{model} wasn't made by `ccml fit`. Use it from Python: ccml.load.")
    return load(model), about["fit"]


def read_labelled(
    data: Path, fitted: dict[str, Any], target: str | None, labels: Path | None,
    delimiter: str | None, image_size: str | None,
) -> "Rows":  # fmt: skip
    """Read rows with labels for a model; in a table they are where the model's were."""
    from ccml.reading import read

    is_table = not data.is_dir() and data.suffix.lower() not in (".npz", ".npy")
    column = fitted["target"] if target is None and is_table else target
    size = size_of(image_size)
    return read(data, target=column, labels=labels, delimiter=delimiter, image_size=size)


def size_of(text: str | None) -> tuple[int, int] | None:
    """Read "32x48" as (32, 48).

    Examples
    --------
    >>> size_of("32x48")
    (32, 48)
    """
    if text is None:
        return None
    sides = text.lower().split("x")
    if len(sides) != 2 or not all(side.isdecimal() and int(side) > 0 for side in sides):
        raise ValueError(f"--image-size {text!r} must be HEIGHTxWIDTH, as 32x32.")
    return int(sides[0]), int(sides[1])
