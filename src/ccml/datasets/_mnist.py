"""MNIST, from the four IDX files of its authors."""

import gzip
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ccml.datasets._dataset import Dataset
from ccml.datasets._files import Arrays, Source, verified_arrays

_N_VALIDATION = 10_000


def load_mnist() -> Dataset:
    """Load MNIST: 60,000 + 10,000 images of 28 x 28 pixels."""
    arrays = verified_arrays(SOURCE)
    n_train, height, width = arrays["x_train"].shape
    images = np.concatenate([arrays["x_train"], arrays["x_test"]])  # (70000, 28, 28)
    rows = np.arange(len(images), dtype=np.int64)
    return Dataset(
        name="mnist",
        X=images.reshape(len(images), height * width),
        y=np.concatenate([arrays["y_train"], arrays["y_test"]]).astype(np.int64),
        train=rows[: n_train - _N_VALIDATION],
        validation=rows[n_train - _N_VALIDATION : n_train],
        test=rows[n_train:],
        class_names=tuple("0123456789"),
        feature_names=tuple(f"pixel_{i}_{j}" for i in range(height) for j in range(width)),
        image_shape=(height, width),
        official_split=True,
    )


def from_originals(folder: Path) -> Arrays:
    """Read the four gzipped IDX files."""
    return {
        key: read_idx(gzip.decompress((folder / file).read_bytes()))
        for key, file in [
            ("x_train", "train-images-idx3-ubyte.gz"),
            ("y_train", "train-labels-idx1-ubyte.gz"),
            ("x_test", "t10k-images-idx3-ubyte.gz"),
            ("y_test", "t10k-labels-idx1-ubyte.gz"),
        ]
    }


def read_idx(content: bytes) -> npt.NDArray[Any]:
    """Decode an IDX file of unsigned bytes.

    It is two zero bytes, the type (8), the number of dimensions, each dimension as four bytes with
    the highest first, and then the values.
    """
    if len(content) < 4 or content[:3] != b"\x00\x00\x08":
        raise ValueError(f"an IDX file of bytes starts with 00 00 08, not {content[:3].hex(' ')}")
    n_header = 4 + 4 * content[3]
    if len(content) < n_header:
        raise ValueError(f"an IDX file of {content[3]} dimensions ends within its header")
    shape = tuple(np.frombuffer(content[4:n_header], dtype=">u4").tolist())
    values = np.frombuffer(content, dtype=np.uint8, offset=n_header)
    n_values = prod(shape)
    if len(values) != n_values:
        raise ValueError(f"an IDX file of shape {shape} has {len(values)} values, not {n_values}")
    return values.reshape(shape)


SOURCE = Source(
    name="mnist",
    url="https://ossci-datasets.s3.amazonaws.com/mnist/",
    originals={
        "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
        "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
        "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
    },
    from_originals=from_originals,
    sha256="e5ea4841dd6fde90b155843179ce5756a4864227194eec7fb09d7cfc4cf702a5",
)
