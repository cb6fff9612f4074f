"""ISOLET, from the two compressed text files of the UCI repository."""

from importlib.resources import files
from io import BytesIO
from pathlib import Path
from string import ascii_uppercase
from zipfile import ZipFile

import numpy as np
from numpy.typing import NDArray

from ccml.datasets._dataset import Dataset
from ccml.datasets._files import Arrays, Source, verified_arrays
from ccml.datasets._lzw import decompress
from ccml.datasets._split import stratified_split

_N_SORTED = 8  # so many values tell any two rows apart


def load_isolet() -> Dataset:
    """Load ISOLET: 6,238 + 1,559 spoken letters, 617 features."""
    arrays = verified_arrays(SOURCE)
    n_train, n_features = arrays["x_train"].shape
    X = np.concatenate([arrays["x_train"], arrays["x_test"]])
    train, validation = stratified_split(arrays["y_train"], 0.2)
    return Dataset(
        name="isolet",
        X=X,
        y=np.concatenate([arrays["y_train"], arrays["y_test"]]).astype(np.int64),
        train=train,
        validation=validation,
        test=np.arange(n_train, len(X), dtype=np.int64),
        class_names=tuple(ascii_uppercase),
        feature_names=tuple(f"f{i}" for i in range(1, n_features + 1)),
        image_shape=None,
        official_split=True,
        factors={"speakers": np.concatenate([training_speakers(), np.full(len(X) - n_train, 5)])},
    )


def training_speakers() -> NDArray[np.int64]:
    """Say which of the four groups of training speakers each row is of, in the order of values.

    The originals have one group after the other, isolet1 to isolet4; sorted rows don't tell.
    """
    with (files("ccml.datasets") / "isolet_speakers.npy").open("rb") as file:
        return np.load(file).astype(np.int64)


def from_originals(folder: Path) -> Arrays:
    """Read the text: 617 numbers of four decimals and the class, 1 to 26, on each line."""
    arrays: Arrays = {}
    with ZipFile(folder / "isolet.zip") as archive:
        for part, file in [("train", "isolet1+2+3+4.data.Z"), ("test", "isolet5.data.Z")]:
            text = BytesIO(decompress(archive.read(file)))
            table = np.loadtxt(text, delimiter=",", dtype=np.float32, ndmin=2)
            arrays[f"x_{part}"] = table[:, :-1]
            arrays[f"y_{part}"] = (table[:, -1] - 1).astype(np.uint8)
    return arrays


def in_order_of_values(arrays: Arrays) -> Arrays:
    """Sort the rows of each part by their first value, then their second, and so on.

    Copies of ISOLET differ in the order of their rows: the original goes from speaker to speaker,
    others from class to class. Sorted, all are the same arrays, and so have the same splits.
    """
    result: Arrays = {}
    for part in ("train", "test"):
        x, y = arrays[f"x_{part}"], arrays[f"y_{part}"]
        if x.ndim != 2 or x.dtype != np.float32 or y.shape != x.shape[:1]:
            raise ValueError(f"x_{part} and y_{part} are not a table of float32 and its labels")
        order = np.lexsort(x[:, :_N_SORTED].T[::-1])
        result[f"x_{part}"] = x[order] + np.float32(0)  # a -0 becomes 0
        result[f"y_{part}"] = y[order]
    return result


SOURCE = Source(
    name="isolet",
    url="https://archive.ics.uci.edu/static/public/54/",
    originals={"isolet.zip": None},  # no checksum is published; the content is checked
    from_originals=from_originals,
    normalise=in_order_of_values,
    sha256="116e6ccbfc2995ebc5de60124a165ee73eff5f2113c42737bc0c1ea0d9d19f5e",
)
