"""Small NORB: stereo pairs of 50 toys, from the six files of its authors."""

import gzip
import hashlib
import os
import zlib
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ccml._validation import check_count, reason
from ccml.datasets._dataset import Dataset
from ccml.datasets._files import download_file, folders
from ccml.datasets._norb_files import Bytes, matrix, read_content

URL = "https://cs.nyu.edu/~ylclab/data/norb-v1.0-small/"
STAND_IN = "norb (stand-in)"  # the name of what isn't the original
CATEGORIES = ("animal", "human", "aeroplane", "truck", "car")
IMAGE = (2, 96, 96)  # left and right
PARTS = {"training": (4, 6, 7, 8, 9), "testing": (0, 1, 2, 3, 5)}  # instances of each category
LEVELS = {  # of the other columns of the info files, as they are coded there
    "elevation": range(9),  # 30, 35, ... degrees
    "azimuth": range(0, 36, 2),  # in tens of degrees
    "lighting": range(6),
}
MD5 = {  # of what is in the files, not of how it is compressed
    ("training", "dat"): "8138a0902307b32dfa0025a36dfa45ec",
    ("training", "cat"): "fd5120d3f770ad57ebe620eb61a0b633",
    ("training", "info"): "19faee774120001fc7e17980d6960451",
    ("testing", "dat"): "e9920b7f7b2869a8f1a12e945b2c166c",
    ("testing", "cat"): "fd5120d3f770ad57ebe620eb61a0b633",
    ("testing", "info"): "7c5b871cc69dcadec1bf6a18141f5edc",
}
KINDS = ("dat", "cat", "info")
_BLOCK = 1000  # images reduced at a time

Files = dict[tuple[str, str], Path]  # by part and kind


class Part(NamedTuple):
    """The training or the test images."""

    images: NDArray[np.uint8]  # (n, 2, size, size)
    categories: NDArray[np.int32]  # (n,)
    info: NDArray[np.int32]  # (n, 4): instance, elevation, azimuth, lighting


def load_small_norb(folder: str | PathLike[str] | None = None, *, image_size: int = 32) -> Dataset:
    """Load small NORB, or its stand-in, from the six files of the original.

    They are ``smallnorb-5x46789x9x18x6x2x96x96-training-dat.mat``, ``...-cat.mat`` and
    ``...-info.mat``, and ``smallnorb-5x01235x9x18x6x2x96x96-testing-dat.mat`` and so on; gzipped
    ones end with ``.gz``.

    Parameters
    ----------
    folder : path, optional
        Where the files are. By default ``$CCML_DATA``, then the cache folder, into which they are
        downloaded if neither has them.
    image_size : int, default=32
        Side of the images: a divisor of 96, the size they have in the files. They are averaged.

    Returns
    -------
    Dataset
        Rows are the pixels of the left image and then of the right one, as bytes. ``factors`` has
        each row's ``"instance"``, ``"elevation"`` and ``"azimuth"`` in degrees, and
        ``"lighting"``. ``validation`` is one of the training instances of each category: a random
        split would have the same toy in nearly the same pose on both sides. The name is
        ``"norb"`` if the files are those of the original, and else ``"norb (stand-in)"``.

    Raises
    ------
    FileNotFoundError
        The files are not there; the message has their names.
    OSError
        Some of them are not there, or one is damaged or does not belong to the others.

    Examples
    --------
    >>> from ccml.datasets import load_small_norb
    >>> load_small_norb("norb")
    Traceback (most recent call last):
        ...
    FileNotFoundError: Small NORB needs its six files, plain or gzipped (.gz); norb doesn't have
    smallnorb-5x46789x9x18x6x2x96x96-training-dat.mat, ...
    """
    image_size = check_image_size("load_small_norb", image_size)
    files = _find(Path(folder).expanduser()) if folder is not None else _find_or_download()
    contents = {key: _attempt(path, read_content) for key, path in files.items()}
    is_original = _is_original(files, contents)
    parts = {}
    for part in PARTS:
        matrices = [_attempt(files[part, kind], matrix, contents[part, kind]) for kind in KINDS]
        _check(part, files, *matrices)
        images, categories, info = matrices
        parts[part] = Part(reduced(images, image_size), categories, info)
    return as_dataset("norb" if is_original else STAND_IN, parts)


def check_image_size(owner: str, size: Any) -> int:
    """Return the side of images that 96 x 96 pixels can be averaged to."""
    size = check_count(owner, "image_size", size)
    if IMAGE[-1] % size:
        raise ValueError(f"{owner}(image_size={size}) must divide {IMAGE[-1]}: 32, 48, 96.")
    return size


def reduced(images: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    """Average squares of pixels, so that images of shape (n, 2, 96, 96) have ``size`` a side."""
    factor = IMAGE[-1] // size
    if factor == 1:
        return images
    result = np.empty((len(images), 2, size, size), dtype=np.uint8)
    for start in range(0, len(images), _BLOCK):
        block = images[start : start + _BLOCK]
        squares = block.reshape(len(block), 2, size, factor, size, factor)
        sums = squares.sum(axis=(3, 5), dtype=np.uint32)
        result[start : start + _BLOCK] = (sums + factor**2 // 2) // factor**2
    return result


def as_dataset(name: str, parts: Mapping[str, Part]) -> Dataset:
    """Join the training and the test images."""
    images, categories, info = (
        np.concatenate(arrays) for arrays in zip(*parts.values(), strict=True)
    )
    rows = np.arange(len(images), dtype=np.int64)
    training = rows[: len(parts["training"].images)]
    instance, elevation, azimuth, lighting = info.T.astype(np.int64)
    last = np.full(len(CATEGORIES), -1)
    np.maximum.at(last, categories[training], instance[training])
    held_out = instance[training] == last[categories[training]]
    eyes, height, width = images.shape[1:]
    return Dataset(
        name=name,
        X=images.reshape(len(images), -1),
        y=categories.astype(np.int64),
        train=training[~held_out],
        validation=training[held_out],
        test=rows[len(training) :],
        class_names=CATEGORIES,
        feature_names=tuple(
            f"{eye}_{i}_{j}"
            for eye in ("left", "right")
            for i in range(height)
            for j in range(width)
        ),
        image_shape=(eyes, height, width),
        official_split=True,
        factors={
            "instance": instance,
            "elevation": 30 + 5 * elevation,
            "azimuth": 10 * azimuth,
            "lighting": lighting,
        },
    )


def file_name(part: str, kind: str) -> str:
    """Name of an original, such as "smallnorb-5x46789x9x18x6x2x96x96-training-dat.mat"."""
    instances = "".join(map(str, PARTS[part]))
    return f"smallnorb-5x{instances}x9x18x6x2x96x96-{part}-{kind}.mat"


def _present(folder: Path) -> Files:
    """Files that a folder has; a plain one before a gzipped one."""
    files = {}
    for part, kind in MD5:
        name = file_name(part, kind)
        for path in (folder / name, folder / f"{name}.gz"):
            if path.is_file():
                files[part, kind] = path
                break
    return files


def _find(folder: Path) -> Files:
    files = _present(folder)
    missing = [file_name(*key) for key in MD5 if key not in files]
    if missing:
        nothing_there = len(missing) == len(MD5)
        raise (FileNotFoundError if nothing_there else OSError)(
            f"Small NORB needs its six files, plain or gzipped (.gz); {folder} doesn't have "
            f"{', '.join(missing)}. For a stand-in, use make_toy_norb() or write_small_norb()."
        )
    return files


def _find_or_download() -> Files:
    *others, cache = folders()
    for folder in others:
        if _present(folder):
            return _find(folder)
    missing = [key for key in MD5 if key not in _present(cache)]
    for key in missing:
        name = f"{file_name(*key)}.gz"
        try:
            cache.mkdir(parents=True, exist_ok=True)
            _download(URL + name, cache / name, MD5[key])
        except OSError as error:
            names = ", ".join(file_name(*key) for key in missing)
            raise (OSError if _present(cache) else FileNotFoundError)(
                f"Small NORB is not in {' or '.join(map(str, [*others, cache]))}, and the download "
                f"of {URL}{name} failed ({error.strerror or reason(error)}). Put {names} there, "
                "plain or gzipped (.gz), or set $CCML_DATA to a folder that has all six files. For "
                "a stand-in, use make_toy_norb() or write_small_norb()."
            ) from None
    return _find(cache)


def _download(url: str, path: Path, md5: str) -> None:
    """Download a gzipped file, and keep it only if its content is the known one."""
    with TemporaryDirectory(dir=path.parent, prefix=".norb-") as folder:
        unchecked = Path(folder) / path.name
        download_file(url, unchecked)
        if _md5(_attempt(unchecked, read_content)) != md5:
            raise OSError("something else than the known file came")
        os.replace(unchecked, path)


def _is_original(files: Files, contents: Mapping[tuple[str, str], Bytes]) -> bool:
    """Whether the files are NORB's: if one is that a stand-in can't have, all have to be."""
    # The others only list the design, and a stand-in has the same.
    own = [("training", "info"), ("training", "dat"), ("testing", "dat")]
    if not any(_md5(contents[key]) == MD5[key] for key in own):
        return False
    for key, md5 in MD5.items():
        if _md5(contents[key]) != md5:
            raise OSError(
                f"{files[key]} is damaged: its MD5 isn't that of the original. Replace it."
            )
    return True


def _md5(content: Bytes) -> str:
    return hashlib.md5(content.data, usedforsecurity=False).hexdigest()


def _attempt(path: Path, read: Callable[..., Any], *arguments: Any) -> Any:
    """Read a file, or what came from it; if that fails, say which file it was."""
    try:
        return read(*(arguments or (path,)))
    except (ValueError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise OSError(
            f"{path} is damaged, or isn't a file of NORB ({error}). Replace it."
        ) from None


def _check(part: str, files: Files, images: Any, categories: Any, info: Any) -> None:
    """Refuse arrays that aren't what the three files of a part hold."""
    n = len(images)
    for kind, array, dtype, shape in [
        ("dat", images, np.uint8, (n, *IMAGE)),
        ("cat", categories, np.int32, (n,)),
        ("info", info, np.int32, (n, 4)),
    ]:
        if array.dtype != dtype or array.shape != shape:
            raise OSError(
                f"{files[part, kind]} has {array.dtype} of shape {array.shape}; beside "
                f"{files[part, 'dat'].name} with {n} images it has to be {np.dtype(dtype)} of "
                f"shape {shape}. Replace the one that is wrong."
            )
    known = [("cat", categories, range(len(CATEGORIES))), ("info", info[:, 0], PARTS[part])]
    known += [("info", info[:, 1 + i], levels) for i, levels in enumerate(LEVELS.values())]
    for kind, values, levels in known:
        unknown = np.setdiff1d(values, np.array(levels))
        if len(unknown):
            raise OSError(
                f"{files[part, kind]} has the value {unknown[0]} where NORB's {part} images have "
                f"{', '.join(map(str, levels))}. Replace it."
            )
