"""CSV, TSV, Parquet and Feather files to tables."""

import warnings
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ccml._validation import did_you_mean, listed, one_line, reason
from ccml.reading._rows import DataFileError, Rows

if TYPE_CHECKING:
    import pandas as pd

_DELIMITERS = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
_CHUNK = 100_000  # rows of text that are in memory beside the table
SUFFIXES = (*_DELIMITERS, ".parquet", ".feather", ".arrow")


def read_table(path: Path, target: str | None, delimiter: str | None) -> Rows:
    """Read a table, and take the column ``target`` out of it as labels."""
    if delimiter is not None and len(delimiter) != 1:
        raise DataFileError(f"delimiter={delimiter!r} must be one character.")
    frame = _read_frame(path, delimiter)
    if len(frame) == 0:
        raise DataFileError(f"{path} has no rows.")
    twice = frame.columns[frame.columns.duplicated()]
    if len(twice):
        raise DataFileError(f"{path} has the column {twice[0]!r} more than once. Rename one.")
    notes: tuple[str, ...] = ()
    first = frame.columns[0]
    if first.startswith("Unnamed: ") and np.array_equal(frame[first], np.arange(len(frame))):
        notes = ("the first column only counts the rows and is left out",)  # pandas' index
        frame = frame.drop(columns=first)
    if target is None:
        return Rows("table", frame, notes=notes)
    if target not in frame.columns:
        raise DataFileError(
            f"{path} has no column {target!r}{did_you_mean(target, frame.columns)} Its columns are "
            f"{listed(frame.columns)}."
        )
    known = frame[target].notna()
    if known.all():
        labels = labels_of(frame[target].to_numpy(), path)
        return Rows("table", frame.drop(columns=target), labels, notes=notes)
    if not known.any():
        raise DataFileError(f"{path} has no value in the column {target!r}.")
    labelled = frame[known]
    return Rows(
        "table",
        labelled.drop(columns=target).reset_index(drop=True),
        labels_of(labelled[target].to_numpy(), path),
        names=labelled.index.tolist(),
        notes=(*notes, f"{(~known).sum()} rows without {target!r} are left out"),
    )


def labels_of(values: NDArray[Any], path: Path) -> NDArray[Any]:
    """Give labels a type that sorts: whole numbers, or text."""
    if values.dtype.kind in "iub":
        return values
    if values.dtype.kind == "f":
        whole = (np.abs(values) < 2**53) & (values == np.floor(values))  # neither inf nor nan
        if not whole.all():
            raise DataFileError(
                f"{path} has a target with numbers such as {values[~whole][0]:g}, which are no "
                "classes. Choose another column, or sort the numbers into ranges first."
            )
        return values.astype(np.int64)  # a gap made them floats
    try:
        if values.dtype.kind == "S":
            return np.char.decode(values)
        return np.array([str(value) for value in values])
    except (
        SystemError,
        UnicodeError,
    ):  # NumPy's text is of 32-bit numbers, of which most are no characters
        raise DataFileError(f"{path} has labels that are no text.") from None


def _read_frame(path: Path, delimiter: str | None) -> "pd.DataFrame":
    with path.open("rb") as file:  # a file that may not be opened is another matter than a bad one
        try:
            if path.suffix.lower() in _DELIMITERS:
                frame = _read_text(path, file, delimiter or _DELIMITERS[path.suffix.lower()])
            else:
                frame = _read_columns(path, file)
        except DataFileError:
            raise
        except Exception as error:  # a damaged file fails in a dozen ways
            raise DataFileError(f"{path} can't be read ({reason(error)}).") from None
    return frame.rename(columns=str)


def _read_columns(path: Path, file: IO[bytes]) -> "pd.DataFrame":
    from pyarrow import feather, parquet, types

    table = (
        parquet.read_table(file) if path.suffix.lower() == ".parquet" else feather.read_table(file)
    )
    table.validate(full=True)  # else a damaged file's offsets are followed out of its memory
    nested = [field for field in table.schema if types.is_nested(field.type)]
    if nested:
        raise DataFileError(
            f"{path} has the column {nested[0].name!r} of {one_line(str(nested[0].type))}; a table "
            "has one value in each place. Make columns of it, or save it as .npy."
        )
    return table.to_pandas()


def _read_text(path: Path, file: IO[bytes], delimiter: str) -> "pd.DataFrame":
    frame, mixed = _read_chunks(file, delimiter, {})
    if mixed:  # numbers in one chunk and text in another: 1, "1" and "1.0" would be three classes
        file.seek(0)
        frame, _ = _read_chunks(file, delimiter, dict.fromkeys(mixed, str))
    other = next((mark for mark in ";\t|," if mark in frame.columns[0]), None)
    if frame.shape[1] == 1 and other not in (None, delimiter):
        raise DataFileError(
            f"{path} has one column, {frame.columns[0]!r}: it seems to be delimited by {other!r}, "
            f"not by {delimiter!r}. Use delimiter={other!r}."
        )
    return frame


def _read_chunks(
    file: IO[bytes], delimiter: str, types: dict[str, type]
) -> tuple["pd.DataFrame", list[str]]:
    """Read text in chunks; also return the columns that are text in some of them only."""
    import pandas as pd

    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        try:
            with pd.read_csv(
                file, sep=delimiter, chunksize=_CHUNK, dtype=types, low_memory=False,
                index_col=False,
            ) as reader:  # fmt: skip
                chunks = list(reader)
        except pd.errors.ParserWarning as warning:  # pandas would drop them
            raise ValueError("lines have more values than the first line has names") from warning
    mixed = [
        column
        for column in chunks[0].columns
        if len({_is_number(chunk[column]) for chunk in chunks if chunk[column].notna().any()}) > 1
    ]
    return pd.concat(chunks, ignore_index=True), mixed


def _is_number(column: "pd.Series[Any]") -> bool:
    return column.dtype.kind in "fiub"
