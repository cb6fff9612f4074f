"""A connection to Milvus, and what is done when a call fails."""

import logging
import os
import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

try:
    import grpc
    from pymilvus import MilvusClient, MilvusException
    from pymilvus.client.types import Status
except ImportError as error:
    raise ImportError("Gallery needs the package pymilvus: pip install 'ccml[gallery]'.") from error

_OLDEST = (2, 3, 2)  # Milvus that has arrays, which filters are about
_SLOW_TRIES = 3  # of calls that time out
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0  # seconds
_PASSING = (
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.UNAVAILABLE,
    Status.CONNECT_FAILED,
)
_SLOW = ("create_index", "load_collection")  # these may take as long as
_SLOW_SECONDS = 600

# Errors are raised here, in a sentence; Milvus would print them as well.
for name in ("decorators", "client.connection_manager", "client.iterator"):
    logging.getLogger(f"pymilvus.{name}").setLevel(logging.CRITICAL)
logging.getLogger("milvus_lite").addHandler(logging.NullHandler())

_users: Counter[str] = Counter()  # of each file, in this process


class GalleryError(ValueError):
    """A gallery can't be opened or used in this way; the message says why, and what to do."""


class Connection:
    """A client of a server, or of Milvus Lite, which runs in this process and keeps a file."""

    def __init__(self, uri: str, *, token: str, timeout: float) -> None:
        self.uri = uri
        self.is_file = "://" not in uri
        self._timeout = None if self.is_file else timeout  # nothing is lost on the way to a file
        if self.is_file and not uri.endswith(".db"):
            raise GalleryError(
                f"Gallery(uri={uri!r}) must be a path that ends with .db, or the address of a "
                "server, such as http://localhost:19530."
            )
        try:
            self._client: Any = MilvusClient(uri, token=token, timeout=self._timeout)
        except (MilvusException, grpc.RpcError) as error:
            if self.is_file:
                raise GalleryError(_why_not_open(uri)) from error
            raise self._unreachable(error) from error
        if self.is_file:
            _users[os.path.abspath(uri)] += 1
        else:
            self._check_version()

    @property
    def is_last(self) -> bool:
        """Whether nobody else in this process has the same file open."""
        return self._client is not None and _users[os.path.abspath(self.uri)] == 1

    def close(self) -> None:
        """Let go of the database; a file is free for other processes from now on."""
        if self._client is None:
            return
        self._client.close()
        self._client = None
        if self.is_file:
            from milvus_lite.server_manager import server_manager_instance

            path = os.path.abspath(self.uri)
            _users[path] -= 1
            if not _users[path]:
                server_manager_instance.release_server(path)

    def _check_version(self) -> None:
        version = self.call("get_server_version")
        numbers = re.match(r"v?(\d+)\.(\d+)\.(\d+)", version)  # None: not a release, or Milvus Lite
        if numbers and tuple(map(int, numbers.groups())) < _OLDEST:
            self.close()
            oldest = ".".join(map(str, _OLDEST))
            raise GalleryError(
                f"{self.uri} is Milvus {version}. A gallery needs {oldest} or newer."
            )

    def call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method of the client."""
        if self._client is None:
            raise GalleryError(f"The gallery {self.uri} is closed. Open it again.")
        timeout = self._timeout
        if timeout is not None and method in _SLOW:
            timeout = max(timeout, _SLOW_SECONDS)
        bound = getattr(self._client, method)
        return self.tried(lambda: bound(*args, timeout=timeout, **kwargs))

    def tried(self, call: Callable[[], Any]) -> Any:
        """Call, and again if there is no connection or no answer, in longer and longer intervals.

        Whatever a gallery does may be done twice.
        """
        started, pause, n_slow = time.monotonic(), _FIRST_PAUSE, 0
        while True:
            try:
                return call()
            except (MilvusException, grpc.RpcError) as error:
                code = error.code() if isinstance(error, grpc.RpcError) else error.code
                n_slow += code == grpc.StatusCode.DEADLINE_EXCEEDED
                waited = time.monotonic() - started
                if code not in _PASSING:
                    raise GalleryError(f"{self.uri} refused a call ({_reason(error)}).") from error
                if n_slow == _SLOW_TRIES or waited > _SLOW_TRIES * (self._timeout or 0):
                    raise self._unreachable(error) from error
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _unreachable(self, error: Exception) -> ConnectionError:
        return ConnectionError(
            f"{self.uri} didn't answer within {self._timeout or 0:g} s, tried several times "
            f"({_reason(error)}). What was confirmed before is kept. Do the rest again when the "
            "server is back: nothing will be there twice."
        )


def _why_not_open(uri: str) -> str:
    """Say why Milvus Lite didn't open a file; it only logs that."""
    path = Path(uri).absolute()
    if not path.parent.is_dir():
        return f"There is no folder {path.parent} for the gallery {path.name}."
    try:
        from milvus_lite.db import MilvusLite
        from milvus_lite.exceptions import DataDirLockedError
    except ImportError:
        return "A gallery in a file needs the package milvus-lite: pip install 'ccml[gallery]'."
    try:
        MilvusLite(str(path)).close()
    except DataDirLockedError:
        return (
            f"{uri} is open in another process. Close it there, or have it served to several: "
            f"`milvus-lite server --data-dir {uri}`, and uri='http://localhost:19530'."
        )
    except Exception as error:  # whatever is in its place
        return f"{uri} can't be opened as a gallery ({_reason(error)})."
    return f"{uri} couldn't be opened just now. Try again."


def _reason(error: BaseException) -> str:
    text = error.details() if isinstance(error, grpc.RpcError) else str(error)
    return "".join(filter(str.isprintable, " ".join(str(text).split())))[:200]
