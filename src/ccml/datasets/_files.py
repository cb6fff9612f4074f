"""Find a data set's file, or download it, and let nothing through but the known arrays."""

import hashlib
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt

from ccml._atomic import whole_file
from ccml._validation import reason

Arrays = dict[str, npt.NDArray[Any]]

KEYS = ("x_train", "y_train", "x_test", "y_test")


def _unchanged(arrays: Arrays) -> Arrays:
    return arrays


@dataclass(frozen=True)
class Source:
    """Where a data set comes from, and what must come out.

    Attributes
    ----------
    name : str
        ``<name>.npz`` is the file.
    url : str
        Where the originals are, with a final slash.
    originals : mapping of str to (str or None)
        Their file names, and the MD5 of each where it is known.
    from_originals : callable
        Reads the arrays from the folder with the originals.
    sha256 : str
        ``content_sha256`` of the arrays.
    normalise : callable, optional
        Brings the arrays of any copy into the one order that ``sha256`` is of.
    """

    name: str
    url: str
    originals: Mapping[str, str | None]
    from_originals: Callable[[Path], Arrays]
    sha256: str
    normalise: Callable[[Arrays], Arrays] = _unchanged


def verified_arrays(source: Source) -> Arrays:
    """Return the arrays named ``KEYS``, from ``$CCML_DATA``, the cache, or a download."""
    places = folders()
    for folder in places:
        path = folder / f"{source.name}.npz"
        if path.is_file():
            return read(path, source)
    arrays = _download(source, places)
    keep(places[-1] / f"{source.name}.npz", arrays, "the data will be downloaded again next time")
    return arrays


def keep(path: Path, arrays: Arrays, otherwise: str) -> None:
    """Write arrays to the cache; if that fails, warn of what happens without it."""
    try:
        write(path, arrays)
    except OSError as error:
        warnings.warn(
            f"{path} could not be written ({error}), so {otherwise}. Make room there, or set "
            "$CCML_DATA to a folder with the file.",
            stacklevel=5,  # whoever called load
        )


def content_sha256(arrays: Arrays) -> str:
    """Digest the names, types, shapes and values of ``KEYS``, not how a file holds them."""
    digest = hashlib.sha256()
    for key in KEYS:
        array = arrays[key]
        array = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        digest.update(f"{key} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.data)
    return digest.hexdigest()


def read(path: Path, source: Source) -> Arrays:
    """Read the arrays from a file, or refuse it."""
    with path.open("rb") as file:  # a file that may not be opened is another matter than a bad one
        try:
            with np.load(file, allow_pickle=False) as archive:
                return _checked({key: archive[key] for key in KEYS}, source)
        except Exception as error:  # a damaged archive fails in a dozen ways
            raise OSError(
                f"{path} is damaged, or is not the {source.name} data ({reason(error)}). "
                "Delete or replace it; once deleted, it is downloaded again."
            ) from None


def write(path: Path, arrays: Arrays) -> None:
    """Write the arrays so that the file is there complete, or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)


def folders() -> list[Path]:
    """Folders to look in, first to last. The last is the one to write to."""
    import pooch

    own = os.environ.get("CCML_DATA")
    return [*([Path(own).expanduser()] if own else []), Path(pooch.os_cache("ccml"))]


def _download(source: Source, looked_in: list[Path]) -> Arrays:
    with TemporaryDirectory(prefix="ccml-") as name:
        folder = Path(name)
        try:
            for file in source.originals:
                download_file(source.url + file, folder / file)
        except OSError as error:  # requests' errors are all of this kind, without a strerror
            raise FileNotFoundError(
                f"{source.name}.npz is not in {' or '.join(map(str, looked_in))}, and the download "
                f"from {source.url} failed ({error.strerror or type(error).__name__}). Put the "
                "file there, or set $CCML_DATA to a folder that has it."
            ) from None
        try:
            for file, md5 in source.originals.items():
                _check_md5(folder / file, md5)
            return _checked(source.from_originals(folder), source)
        except Exception as error:  # as in `read`
            raise OSError(
                f"{source.url} has sent something else than the known {source.name} data "
                f"({reason(error)}). Nothing was saved; try again, or set $CCML_DATA to a folder "
                f"with {source.name}.npz."
            ) from None


def download_file(url: str, path: Path) -> None:
    """Download a file, with a progress bar on a terminal."""
    import pooch

    from ccml.datasets._progress import DownloadBar

    with DownloadBar(path.name) as bar:
        pooch.HTTPDownloader(progressbar=bar, chunk_size=1 << 16)(url, str(path), None)


def _check_md5(path: Path, md5: str | None) -> None:
    import pooch

    if md5 is not None and (found := pooch.file_hash(str(path), alg="md5")) != md5:
        raise ValueError(f"the MD5 of {path.name} is {found}, not {md5}")


def _checked(arrays: Arrays, source: Source) -> Arrays:
    arrays = source.normalise(arrays)
    found = content_sha256(arrays)
    if found != source.sha256:
        raise ValueError(f"the SHA-256 of its arrays is {found[:12]}..., not {source.sha256[:12]}")
    return arrays
