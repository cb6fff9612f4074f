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
    str | None, typer.Option(help="What separates the values of a CSV file, if not a comma.")
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


def check_folder_of(path: Path) -> None:
    """Refuse a file whose folder isn't there before anything is computed for it."""
    if not path.parent.is_dir():
        raise ValueError(f"There is no folder {path.parent} to write {path.name} to.")


def fitted_on(model: Path) -> dict[str, Any]:
    """Return what `ccml fit` has remembered of a model; models from elsewhere don't have it."""
    from ccml.persistence import describe

    about = describe(model)
    if not isinstance(about.get("fit"), dict):
        raise ValueError(f"{model} wasn't made by `ccml fit`. Use it from Python: ccml.load.")
    return about["fit"]


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
