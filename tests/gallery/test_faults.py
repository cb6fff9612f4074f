"""What `add` has returned for is there, once, whatever happens to processes and connections."""

import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from milvus_lite.adapter.grpc.server import start_server_in_thread
from pymilvus import MilvusClient

from ccml import Gallery
from ccml.gallery import GalleryError


def test_kills(tmp_path):
    script = Path(__file__).with_name("kills.py")
    done = subprocess.run([sys.executable, script, tmp_path, "5"], capture_output=True, text=True)
    assert "all there, nothing twice" in done.stdout, done.stderr


class Proxy:
    """Stands between a client and a server on this machine, and can be in the way."""

    def __init__(self, port):
        self._to = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.uri = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._connections = []
        self.is_down = False  # connections are cut, and new ones too
        self.delay = 0.0  # seconds, of all answers
        self.cut_at_next_answer = False
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self):
        for connection in self._connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        self._connections = []

    def close(self):
        self.is_down = True
        self._listener.close()
        self.cut()

    def _accept(self):
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self.is_down:
                    client.close()
                    continue
                server = socket.create_connection(("127.0.0.1", self._to))
                self._connections += [client, server]
                for source, sink in [(client, server), (server, client)]:
                    threading.Thread(target=self._pump, args=(source, sink, sink is client),
                                     daemon=True).start()  # fmt: skip

    def _pump(self, source, sink, is_answer):
        with suppress(OSError):
            while chunk := source.recv(2**16):
                if is_answer and self.cut_at_next_answer and len(chunk) > 60:  # not only a ping
                    self.cut_at_next_answer = False
                    self.cut()
                    return
                if is_answer:
                    time.sleep(self.delay)
                sink.sendall(chunk)


@pytest.fixture
def proxy(tmp_path):
    server, database, port = start_server_in_thread(str(tmp_path / "server"))
    proxy = Proxy(port)
    yield proxy
    proxy.close()
    server.stop(grace=0)
    database.close()


def rows(n, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 6))


def test_a_server_is_as_good_as_a_file(proxy, opened, data):
    X, y, queries = data
    served, file = opened(proxy.uri), opened()
    for gallery in (served, file):
        gallery.add(X, y, ids=range(80))
    assert served.search(queries, 5) == file.search(queries, 5)
    assert served.classify(queries).tolist() == file.classify(queries).tolist()


def test_a_connection_that_is_cut(proxy, opened):
    gallery = opened(proxy.uri, timeout=20)
    gallery.add(rows(50), ["a"] * 50, range(50))
    proxy.is_down = True
    proxy.cut()
    threading.Timer(0.7, lambda: setattr(proxy, "is_down", False)).start()
    gallery.add(rows(50, 1), ["b"] * 50, range(50, 100))
    assert gallery.count() == 100


def test_an_answer_that_is_lost(proxy, opened):
    """The server has the rows, the client doesn't know, and sends them again."""
    gallery = opened(proxy.uri, timeout=20)
    gallery.add(rows(50), ["a"] * 50, range(50))
    proxy.cut_at_next_answer = True
    gallery.add(rows(50, 1), ["a"] * 50, range(50, 100))
    assert not proxy.cut_at_next_answer
    assert gallery.count() == 100
    assert {match.id for match in gallery.search(rows(1), 200)[0]} == set(range(100))


def test_a_server_that_has_gone(proxy, opened):
    gallery = opened(proxy.uri, timeout=1)
    gallery.add(rows(5), ["a"] * 5)
    proxy.is_down = True
    proxy.cut()
    with pytest.raises(ConnectionError, match=rf"{proxy.uri} didn't answer within 1 s.*is kept"):
        gallery.add(rows(5, 1), ["a"] * 5)


def test_a_server_that_is_slow(proxy, opened):
    gallery = opened(proxy.uri, timeout=1)
    gallery.add(rows(5), ["a"] * 5, range(5))
    proxy.delay = 1.3
    threading.Timer(1.2, lambda: setattr(proxy, "delay", 0)).start()
    gallery.add(rows(5, 1), ["a"] * 5, range(5, 10))
    assert gallery.count() == 10
    proxy.delay = 10
    with pytest.raises(ConnectionError, match="didn't answer within 1 s"):
        gallery.count()


def test_no_server(model):
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    with pytest.raises(ConnectionError, match=rf"http://127.0.0.1:{port} didn't answer"):
        Gallery(model, f"http://127.0.0.1:{port}", timeout=1)


@pytest.mark.parametrize("version", ["v2.2.16", "2.3.1", "v2.3.1-lite"])
def test_a_server_that_is_too_old(proxy, model, monkeypatch, version):
    monkeypatch.setattr(MilvusClient, "get_server_version", lambda self, timeout: version)
    with pytest.raises(GalleryError, match=rf"is Milvus {version}\. A gallery needs 2\.3\.2 or"):
        Gallery(model, proxy.uri)
