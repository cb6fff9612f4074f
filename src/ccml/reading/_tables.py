"""CSV, TSV, Parquet and Feather files to tables."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ccml._validation import did_you_mean
from ccml.reading._rows import DataFileError, Rows

if TYPE_CHECKING:
    import pandas as pd

_DELIMITERS = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
_CHUNK = 100_000  # rows of text that are in memory beside the table
SUFFIXES = (*_DELIMITERS, ".parquet", ".feather", ".arrow")


def read_table(path: Path, target: str | None, delimiter: str | None) -> Rows:
    """Read a table, and take the column ``target`` out of it as labels."""
    frame = _read_frame(path, delimiter)
    if len(frame) == 0:
        raise DataFileError(f"{path} has no rows.")
    twice = frame.columns[frame.columns.duplicated()]
    if len(twice):
        raise DataFileError(f"{path} has the column {twice[0]!r} more than once. Rename one.")
    if target is None:
        return Rows("table", frame)
    if target not in frame.columns:
        raise DataFileError(
            f"{path} has no column {target!r}{did_you_mean(target, frame.columns)} Its columns are "
            f"{_listed(frame.columns)}."
        )
    known = frame[target].notna()
    if known.all():
        return Rows("table", frame.drop(columns=target), labels_of(frame[target].to_numpy()))
    if not known.any():
        raise DataFileError(f"{path} has no value in the column {target!r}.")
    labelled = frame[known]
    return Rows(
        "table",
        labelled.drop(columns=target).reset_index(drop=True),
        labels_of(labelled[target].to_numpy()),
        names=labelled.index.tolist(),
        notes=(f"{(~known).sum()} rows without {target!r} are left out",),
    )


def labels_of(values: NDArray[Any]) -> NDArray[Any]:
    """Give labels a type that sorts: whole numbers, or text."""
    if values.dtype.kind in "iub":
        return values
    if values.dtype.kind == "f" and np.isfinite(values).all() and (values % 1 == 0).all():
        return values.astype(np.int64)  # a gap made them floats
    if values.dtype.kind == "f":
        raise DataFileError(
            f"the target has numbers such as {values[values % 1 != 0][0]:g}, which are no classes. "
            "Choose another column, or sort the numbers into ranges first."
        )
    return np.array([str(value) for value in values])


def _read_frame(path: Path, delimiter: str | None) -> "pd.DataFrame":
    import pandas as pd
    import pyarrow as pa

    try:
        if path.suffix == ".parquet":
            frame = pd.read_parquet(path)
        elif path.suffix in (".feather", ".arrow"):
            frame = pd.read_feather(path)
        else:
            frame = _read_text(path, delimiter or _DELIMITERS[path.suffix])
    except DataFileError:
        raise
    except (
        pd.errors.ParserError,
        pd.errors.EmptyDataError,
        UnicodeError,
        pa.ArrowException,
    ) as error:
        raise DataFileError(f"{path} can't be read ({' '.join(str(error).split())}).") from None
    return frame.rename(columns=str)


def _read_text(path: Path, delimiter: str) -> "pd.DataFrame":
    import pandas as pd

    with pd.read_csv(path, sep=delimiter, chunksize=_CHUNK) as chunks:
        frame = pd.concat(list(chunks), ignore_index=True)
    other = next((mark for mark in ";\t|," if mark in frame.columns[0]), None)
    if frame.shape[1] == 1 and other not in (None, delimiter):
        raise DataFileError(
            f"{path} has one column, {frame.columns[0]!r}: it seems to be delimited by {other!r}, "
            f"not by {delimiter!r}. Use --delimiter {other!r}."
        )
    return frame


def _listed(names: Any) -> str:
    shown = ", ".join(map(str, names[:20]))
    return f"{shown}, ..." if len(names) > 20 else shown
