"""NumPy's files to vectors or images."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccml._validation import listed, reason
from ccml.reading._rows import DataFileError, Rows
from ccml.reading._tables import labels_of

SUFFIXES = (".npz", ".npy")
_ROWS, _LABELS = ("X", "x", "embeddings", "data"), ("y", "Y", "labels", "target")


def read_arrays(path: Path, labels: Path | None) -> Rows:
    """Read rows from an array file, and labels from the same one or from ``labels``."""
    arrays = _read(path)
    if path.suffix.lower() == ".npz":
        X = _named(path, arrays, _ROWS)
        y = next((arrays[name] for name in _LABELS if name in arrays), None)
    else:
        X, y = arrays["array"], None
    if labels is not None:
        y = read_labels(labels)
    if X.dtype.kind not in "fiub" or X.ndim not in (2, 3, 4) or len(X) == 0:
        raise DataFileError(
            f"{path} has an array of {X.dtype} and shape {X.shape}; rows are numbers of shape "
            "(n, features), (n, height, width) or (n, channels, height, width)."
        )
    if y is not None and y.shape != (len(X),):
        raise DataFileError(
            f"{path} has {len(X)} rows, but labels of shape {y.shape}. Give one for each row."
        )
    return Rows(
        "vectors" if X.ndim == 2 else "images",
        X,
        None if y is None else labels_of(y, labels or path),
    )


def read_labels(path: Path) -> NDArray[Any]:
    """Read labels: an .npy file, or text with one on each line."""
    if path.suffix.lower() == ".npy":
        return _read(path)["array"]
    try:
        return np.array(path.read_text(encoding="utf-8").splitlines())
    except UnicodeError as error:
        raise DataFileError(f"{path} isn't text in UTF-8 ({reason(error)}).") from None


def _read(path: Path) -> dict[str, NDArray[Any]]:
    with path.open("rb") as file:
        try:
            with warnings.catch_warnings(action="ignore"):  # Python's, of the text of a header
                content = np.load(file, allow_pickle=False)
            if path.suffix.lower() == ".npy":
                return {"array": content}
            with content:
                return {name: content[name] for name in content.files}
        except Exception as error:  # a damaged archive or header fails in a dozen ways
            raise DataFileError(
                f"{path} isn't a NumPy file, or is damaged ({reason(error)})."
            ) from None


def _named(path: Path, arrays: dict[str, NDArray[Any]], names: tuple[str, ...]) -> NDArray[Any]:
    for name in names:
        if name in arrays:
            return arrays[name]
    rest = [name for name in arrays if name not in _LABELS]
    if len(rest) == 1:
        return arrays[rest[0]]
    raise DataFileError(
        f"{path} has the arrays {listed(arrays) or 'none'}; call rows 'X' and labels 'y'."
    )
