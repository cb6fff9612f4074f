"""NORB's file format: a small header, then the values of one array, lowest byte first."""

import gzip
from collections.abc import Iterable
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from ccml._atomic import whole_file

Bytes = NDArray[np.uint8]

_MAGIC: dict[int, np.dtype[Any]] = {0x1E3D4C55: np.dtype("u1"), 0x1E3D4C54: np.dtype("<i4")}
_MOST_BYTES = 2**29  # the largest of NORB's files has 448 MB; who knows what else decompresses to
_MIN_DIMENSIONS = 3  # a header has so many even if the array has fewer; the others are 1


def read_content(path: Path) -> Bytes:
    """Return a file's bytes: memory-mapped, or decompressed if its name ends with .gz."""
    if path.suffix == ".gz":
        with gzip.open(path) as file:
            content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise ValueError(f"it has more than {_MOST_BYTES:,} bytes when decompressed")
        return np.frombuffer(content, dtype=np.uint8)
    if path.stat().st_size == 0:  # can't be mapped
        return np.empty(0, dtype=np.uint8)
    return np.memmap(path, dtype=np.uint8, mode="r")


def matrix(content: Bytes) -> NDArray[Any]:
    """Decode an array of bytes or of 32-bit integers.

    The header is the magic number of the type, the number of dimensions, and each dimension, all
    of them 32-bit integers.
    """
    dtype, shape, n_header = _header(content)
    n_bytes = n_header + prod(shape) * dtype.itemsize
    if len(content) != n_bytes:
        raise ValueError(
            f"an array of shape {shape} takes {n_bytes:,} bytes; there are {len(content):,}"
        )
    return content[n_header:].view(dtype).reshape(shape)


def _header(content: Bytes) -> tuple[np.dtype[Any], tuple[int, ...], int]:
    """Type, shape, and length of the header."""
    (magic,) = _integers(content, 0, 1, "magic number")
    if magic not in _MAGIC:
        raise ValueError(
            f"it starts with {magic & 0xFFFFFFFF:#010x}, not with the magic number of bytes "
            "(0x1e3d4c55) or of integers (0x1e3d4c54)"
        )
    (n_dimensions,) = _integers(content, 4, 1, "number of dimensions")
    if not 1 <= n_dimensions <= 8:
        raise ValueError(f"it says that it has {n_dimensions} dimensions")
    n_stored = max(n_dimensions, _MIN_DIMENSIONS)
    shape = _integers(content, 8, n_stored, "dimensions")
    if min(shape) < 1 or any(side != 1 for side in shape[n_dimensions:]):
        raise ValueError(f"it says that its {n_dimensions} dimensions are {shape}")
    return _MAGIC[magic], shape[:n_dimensions], 8 + 4 * n_stored


def _integers(content: Bytes, start: int, n: int, what: str) -> tuple[int, ...]:
    field = content[start : start + 4 * n]
    if len(field) < 4 * n:
        raise ValueError(f"it ends within its header, in the {what}")
    return tuple(field.view("<i4").tolist())


def write_matrix(
    path: Path, shape: tuple[int, ...], dtype: npt.DTypeLike, blocks: Iterable[NDArray[Any]]
) -> None:
    """Write an array that comes in blocks; the file is there complete, or not at all."""
    (magic,) = (magic for magic, known in _MAGIC.items() if known == np.dtype(dtype))
    stored = [*shape, *[1] * (_MIN_DIMENSIONS - len(shape))]
    with whole_file(path) as file:
        file.write(np.array([magic, len(shape), *stored], dtype="<i4").tobytes())
        for block in blocks:
            file.write(np.ascontiguousarray(block, dtype=_MAGIC[magic]).data)
