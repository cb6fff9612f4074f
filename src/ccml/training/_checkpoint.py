"""Files from which a killed run goes on as if nothing had happened."""

import hashlib
import io
import os
import shutil
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

import torch

from ccml._validation import one_line

_MAGIC = b"ccml checkpoint 1\n"
_DIGEST = hashlib.sha256().digest_size


class CheckpointError(ValueError):
    """A checkpoint that can't be used; the message says why, and nothing was changed."""


@dataclass(frozen=True)
class Checkpoint:
    """Where a run is saved, how often, and what it is a run of.

    Parameters
    ----------
    path : str or path
        The one before the last is kept beside it, with ``.previous`` added to its name.
    seconds : float
        Between saves.
    identity : mapping of str to str
        What has to be the same in order to go on: parameters, data, shapes of the weights.

    Examples
    --------
    >>> import tempfile
    >>> from ccml.training import Checkpoint
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     checkpoint = Checkpoint(folder + "/run.ckpt", 60, {"learner": "CCML"})
    ...     checkpoint.save({"epoch": 3})
    ...     checkpoint.load()
    {'epoch': 3}
    """

    path: str | os.PathLike[str]
    seconds: float
    identity: Mapping[str, str]

    def save(self, state: Mapping[str, Any]) -> None:
        """Replace the file at once: whenever the process is killed, a whole one is there."""
        buffer = io.BytesIO()
        torch.save({"identity": dict(self.identity), "state": dict(state)}, buffer)
        payload = buffer.getvalue()
        path = Path(self.path)
        unfinished = path.with_name(path.name + ".unfinished")
        try:
            with open(unfinished, "wb") as file:
                file.write(_MAGIC + hashlib.sha256(payload).digest() + payload)
                file.flush()
                os.fsync(file.fileno())
            if path.exists():
                _keep_as_previous(path)
            os.replace(unfinished, path)
        except OSError as error:
            raise CheckpointError(f"checkpoint={str(path)!r} can't be written: {error}.") from None
        _sync_folder(path.parent)

    def load(self) -> dict[str, Any] | None:
        """Return what was saved last; None if there is nothing yet."""
        path = Path(self.path)
        if not path.exists():
            return None
        try:
            content = path.read_bytes()
        except OSError as error:
            raise CheckpointError(f"checkpoint={str(path)!r} can't be read: {error}.") from None
        saved = self._parse(path, content)
        self._compare(path, saved["identity"])
        state: dict[str, Any] = saved["state"]
        return state

    def _parse(self, path: Path, content: bytes) -> dict[str, Any]:
        head, payload = content[: len(_MAGIC) + _DIGEST], content[len(_MAGIC) + _DIGEST :]
        if head == _MAGIC + hashlib.sha256(payload).digest():
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # of pickles that `save` doesn't write
                    # Only tensors and plain values: nothing in a file can run code.
                    saved: dict[str, Any] = torch.load(
                        io.BytesIO(payload), weights_only=True, map_location="cpu"
                    )
                if isinstance(saved["identity"], dict) and isinstance(saved["state"], dict):
                    return saved
            except Exception:  # torch's reader fails in a dozen ways; said below
                pass
        what = "damaged" if head.startswith(_MAGIC) else "not a checkpoint of this version"
        way_out = "Delete it to start anew"
        if _previous(path).exists():
            way_out += f", or put the one before it, {str(_previous(path))!r}, in its place"
        raise CheckpointError(f"checkpoint={str(path)!r} is {what}. {way_out}.")

    def _compare(self, path: Path, theirs: Mapping[str, str]) -> None:
        differences = [
            f"{one_line(name)} was "
            + " and is ".join(_where_they_differ(theirs.get(name), self.identity.get(name)))
            for name in sorted({*theirs, *self.identity})
            if theirs.get(name) != self.identity.get(name)
        ]
        if differences:
            raise CheckpointError(
                f"checkpoint={str(path)!r} is of another run: {'; '.join(differences)}. Give "
                "another path, or delete it to start anew."
            )


def _where_they_differ(theirs: str | None, ours: str | None) -> list[str]:
    """Shorten the texts, such as two networks', so that what differs is still there."""
    texts = [" ".join(str(value).split()) for value in (theirs, ours)]
    n_same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(*texts, strict=False)))
    begin = max(0, n_same - 100)
    return [("... " if begin else "") + one_line(text[begin:]) for text in texts]


def _previous(path: Path) -> Path:
    return path.with_name(path.name + ".previous")


def _keep_as_previous(path: Path) -> None:
    """Give a file a second name, so that it is never without its first."""
    _previous(path).unlink(missing_ok=True)
    try:
        os.link(path, _previous(path))
    except OSError:  # a file system without links
        shutil.copyfile(path, _previous(path))


def _sync_folder(folder: Path) -> None:
    """Make the renames last through a power failure, where the system can."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:  # Windows doesn't open folders
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
