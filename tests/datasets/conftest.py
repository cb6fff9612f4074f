"""No test here sees the network, the user's cache or the user's $CCML_DATA by accident."""

import os
import socket
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pooch
import pytest

from ccml.datasets import Dataset, load
from ccml.datasets._files import Arrays

REAL_DATA = os.environ.get("CCML_DATA")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache folder, which does not exist yet."""
    folder = tmp_path / "cache" / "ccml"
    monkeypatch.setattr(pooch, "os_cache", lambda project: folder.parent / project)
    monkeypatch.delenv("CCML_DATA", raising=False)
    return folder


@pytest.fixture(autouse=True)
def only_this_computer(monkeypatch: pytest.MonkeyPatch) -> None:
    look_up = socket.getaddrinfo

    def local(host: str, *args: Any, **kwargs: Any) -> Any:
        if host != "127.0.0.1":
            raise socket.gaierror(f"a test asked for {host}")
        return look_up(host, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", local)
    monkeypatch.setenv("NO_PROXY", "*")


def load_real(name: str) -> Dataset:
    if not REAL_DATA or not (Path(REAL_DATA) / f"{name}.npz").is_file():
        pytest.skip(f"needs $CCML_DATA, a folder with {name}.npz")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CCML_DATA", REAL_DATA)
        return load(name)


@pytest.fixture(scope="session")
def mnist() -> Dataset:
    return load_real("mnist")


@pytest.fixture(scope="session")
def isolet() -> Dataset:
    return load_real("isolet")


@pytest.fixture
def arrays() -> Arrays:
    """A small data set that looks like ISOLET: no two rows alike, values of four decimals."""
    rng = np.random.default_rng(0)
    return {
        "x_train": (rng.integers(-10_000, 10_001, (52, 9)) / 10_000).astype(np.float32),
        "y_train": np.repeat(np.arange(26, dtype=np.uint8), 2),
        "x_test": (rng.integers(-10_000, 10_001, (26, 9)) / 10_000).astype(np.float32),
        "y_test": np.arange(26, dtype=np.uint8),
    }


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """The address of a web server on this computer, and the folder it serves."""
    folder = tmp_path / "server"
    folder.mkdir()

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder)) as httpd:
        thread = threading.Thread(target=httpd.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{httpd.server_port}/", folder
        httpd.shutdown()
        thread.join()


@pytest.fixture
def lzw_compress() -> Callable[..., bytes]:
    """``compress``, with the clear code after every ``clear_after`` codes."""

    def compress(content: bytes, max_bits: int = 16, clear_after: int | None = None) -> bytes:
        out = bytearray([0x1F, 0x9D, 0x80 | max_bits])
        table: dict[bytes, int] = {}
        n_bits, group, n_codes = 9, [], 0

        def flush(*, whole: bool) -> None:
            bits = sum(code << (n_bits * i) for i, code in enumerate(group))
            n_bytes = n_bits if whole else -(-n_bits * len(group) // 8)
            out.extend(bits.to_bytes(n_bytes, "little"))
            group.clear()

        def emit(code: int) -> None:
            group.append(code)
            if len(group) == 8:
                flush(whole=True)

        def reset() -> None:
            nonlocal n_bits, n_codes
            table.clear()
            table.update({bytes([i]): i for i in range(256)}, clear=256)
            n_bits, n_codes = 9, 0

        reset()
        start = 0
        while start < len(content):
            end = start + 1
            while end < len(content) and content[start : end + 1] in table:
                end += 1
            emit(table[content[start:end]])
            n_codes += 1
            # The decoder's table is one code behind, and it is the decoder's that sets the width.
            if 256 + n_codes == 1 << n_bits and n_bits < max_bits:
                if group:
                    flush(whole=True)
                n_bits += 1
            if end < len(content) and len(table) < 1 << max_bits:
                table[content[start : end + 1]] = len(table)
            if clear_after and n_codes == clear_after:
                emit(256)
                if group:
                    flush(whole=True)
                reset()
            start = end
        if group:
            flush(whole=False)
        return bytes(out)

    return compress
