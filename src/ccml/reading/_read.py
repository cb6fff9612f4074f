"""One way to read them all."""

from os import PathLike
from pathlib import Path

from ccml.reading import _arrays, _pictures, _tables
from ccml.reading._rows import DataFileError, Rows


def read(
    path: str | PathLike[str],
    *,
    target: str | None = None,
    labels: str | PathLike[str] | None = None,
    delimiter: str | None = None,
    image_size: tuple[int, int] | None = None,
) -> Rows:
    r"""Read a file, or a folder of images, of one's own.

    Parameters
    ----------
    path : path
        A table (``.csv``, ``.tsv``, ``.parquet``, ``.feather``, ``.arrow``), arrays (``.npz`` with
        ``X`` and perhaps ``y``, ``.npy``), or a folder of images with a subfolder for each class.
    target : str, optional
        The column of a table that has the labels. Rows without one are left out.
    labels : path, optional
        The labels of the rows of an array file: ``.npy``, or text with one on each line.
    delimiter : str, optional
        What stands between the values of a text file; by default as its name says.
    image_size : (int, int), optional
        Height and width to bring images to.

    Returns
    -------
    Rows

    Raises
    ------
    FileNotFoundError
        There is no such file.
    DataFileError
        It can't be read; the message says why.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from ccml.reading import read
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "flowers.csv"
    ...     _ = path.write_text("petals,colour,kind\n5,red,rose\n6,white,lily\n")
    ...     rows = read(path, target="kind")
    >>> rows.y.tolist(), list(rows.X)
    (['rose', 'lily'], ['petals', 'colour'])
    """
    path = Path(path)
    options = {"target": target, "labels": labels, "delimiter": delimiter, "image_size": image_size}
    given = {name for name, value in options.items() if value is not None}
    suffix = path.suffix.lower()
    if path.is_dir():
        _check_apply(path, given - {"image_size"})
        return _pictures.read_pictures(path, image_size)
    if not path.exists():
        raise FileNotFoundError(f"There is no file or folder {path}.")
    if suffix in _arrays.SUFFIXES:
        _check_apply(path, given - {"labels"})
        return _arrays.read_arrays(path, None if labels is None else Path(labels))
    if suffix in _tables.SUFFIXES:
        _check_apply(path, given - {"target", "delimiter"})
        return _tables.read_table(path, target, delimiter)
    raise DataFileError(
        f"{path} is of a kind that can't be read. Use {', '.join(_tables.SUFFIXES)}, "
        f"{', '.join(_arrays.SUFFIXES)}, or a folder of images."
    )


def _check_apply(path: Path, others: set[str]) -> None:
    """Refuse options that are for other kinds of files."""
    if others:
        raise DataFileError(f"{min(others)}= isn't for a file like {path}. Leave it out.")
