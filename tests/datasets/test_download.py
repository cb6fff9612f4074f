"""From the originals on a server to a data set, and the file it leaves behind."""

import dataclasses
import gzip
import hashlib
import zipfile

import numpy as np
import pytest

from ccml.datasets import _isolet, _mnist, load
from ccml.datasets._files import content_sha256, read
from ccml.datasets._isolet import in_order_of_values
from ccml.datasets._progress import DownloadBar


def idx(array):
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, dtype=">u4").tobytes()
    return header + array.tobytes()


def isolet_text(x, y):
    """As in the original: `-0.4394, -0.0930, ..., 1.`."""
    lines = [
        ", ".join(f"{value:.4f}" for value in row) + f", {label + 1}.\n"
        for row, label in zip(x.tolist(), y.tolist(), strict=True)
    ]
    return "".join(lines).encode()


@pytest.fixture
def served_mnist(server, monkeypatch):
    """A MNIST of 8 + 4 images of 2 x 3 pixels on a server; its arrays, and the folder served."""
    url, folder = server
    rng = np.random.default_rng(0)
    arrays = {
        "x_train": rng.integers(0, 256, (8, 2, 3), dtype=np.uint8),
        "y_train": rng.integers(0, 10, 8, dtype=np.uint8),
        "x_test": rng.integers(0, 256, (4, 2, 3), dtype=np.uint8),
        "y_test": rng.integers(0, 10, 4, dtype=np.uint8),
    }
    md5 = {}
    for array, file in zip(arrays.values(), _mnist.SOURCE.originals, strict=True):
        content = gzip.compress(idx(array))
        (folder / file).write_bytes(content)
        md5[file] = hashlib.md5(content).hexdigest()
    source = dataclasses.replace(
        _mnist.SOURCE, url=url, originals=md5, sha256=content_sha256(arrays)
    )
    monkeypatch.setattr(_mnist, "SOURCE", source)
    monkeypatch.setattr(_mnist, "_N_VALIDATION", 3)
    return arrays, folder


@pytest.fixture
def served_isolet(server, arrays, lzw_compress, monkeypatch):
    """A small ISOLET on a server, its rows in an order of its own, and the arrays to expect."""
    url, folder = server
    expected = in_order_of_values(arrays)
    with zipfile.ZipFile(folder / "isolet.zip", "w") as archive:
        for part, file in [("train", "isolet1+2+3+4.data.Z"), ("test", "isolet5.data.Z")]:
            x, y = arrays[f"x_{part}"][::-1], arrays[f"y_{part}"][::-1]
            archive.writestr(file, lzw_compress(isolet_text(x, y)))
        archive.writestr("isolet.names", "not needed")
    monkeypatch.setattr(
        _isolet,
        "SOURCE",
        dataclasses.replace(_isolet.SOURCE, url=url, sha256=content_sha256(expected)),
    )
    monkeypatch.setattr(_isolet, "training_speakers", lambda: np.arange(52) % 4 + 1)
    return expected, folder


def test_mnist_is_downloaded_once(served_mnist, cache, capfd):
    arrays, folder = served_mnist
    first = load("mnist")
    np.testing.assert_array_equal(first.X[:8], arrays["x_train"].reshape(8, 6), strict=True)
    np.testing.assert_array_equal(first.X[8:], arrays["x_test"].reshape(4, 6), strict=True)
    np.testing.assert_array_equal(first.y[first.test], arrays["y_test"])
    assert first.validation.tolist() == [5, 6, 7]
    assert first.image_shape == (2, 3)
    assert [path.name for path in cache.iterdir()] == ["mnist.npz"]
    assert capfd.readouterr() == ("", "")  # no terminal, no bar

    for file in folder.iterdir():
        file.unlink()
    second = load("mnist")
    np.testing.assert_array_equal(second.X, first.X, strict=True)
    np.testing.assert_array_equal(second.y, first.y, strict=True)


def test_isolet_is_the_same_from_any_order_of_its_rows(served_isolet, cache):
    expected, _ = served_isolet
    data = load("isolet")
    np.testing.assert_array_equal(
        data.X, np.concatenate([expected["x_train"], expected["x_test"]]), strict=True
    )
    np.testing.assert_array_equal(data.y, np.concatenate([expected["y_train"], expected["y_test"]]))
    np.testing.assert_array_equal(
        read(cache / "isolet.npz", _isolet.SOURCE)["x_train"], expected["x_train"]
    )


def test_another_file_than_the_known_one_is_refused(served_mnist, cache):
    _, folder = served_mnist
    (folder / "t10k-labels-idx1-ubyte.gz").write_bytes(b"<html>log in first</html>")
    with pytest.raises(OSError, match=r"something else .*MD5 of t10k-labels-idx1-ubyte\.gz"):
        load("mnist")
    assert not cache.exists()


@pytest.mark.parametrize("n_bytes", [0, 100, 1_500])
def test_a_cut_off_archive_is_refused(served_isolet, cache, n_bytes):
    _, folder = served_isolet
    path = folder / "isolet.zip"
    path.write_bytes(path.read_bytes()[:n_bytes])
    with pytest.raises(OSError, match="something else than the known isolet data") as caught:
        load("isolet")
    assert "\n" not in str(caught.value)
    assert not cache.exists()


def test_originals_with_other_values_are_refused(served_isolet, cache, monkeypatch):
    monkeypatch.setattr(_isolet, "SOURCE", dataclasses.replace(_isolet.SOURCE, sha256="0" * 64))
    with pytest.raises(OSError, match=r"SHA-256 of its arrays is .*, not 000000000000"):
        load("isolet")
    assert not cache.exists()


def test_a_file_missing_on_the_server(served_mnist, cache):
    _, folder = served_mnist
    (folder / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(FileNotFoundError, match=r"failed \(HTTPError\)"):
        load("mnist")
    assert not cache.exists()


def test_a_cache_that_cannot_be_written_costs_a_warning_only(served_mnist, cache):
    arrays, _ = served_mnist
    cache.parent.write_text("a file where the folder should be")
    with pytest.warns(UserWarning, match=r"mnist\.npz could not be written") as caught:
        data = load("mnist")
    assert caught[0].filename == __file__
    np.testing.assert_array_equal(data.y[data.test], arrays["y_test"])


def test_the_bar_shows_on_a_terminal(served_mnist, monkeypatch, capfd):
    monkeypatch.setenv("FORCE_COLOR", "1")  # what rich takes for a terminal
    load("mnist")
    captured = capfd.readouterr()
    assert captured.out == ""
    assert "train-images-idx3-ubyte.gz" in captured.err


def test_the_bar_goes_away_after_a_failure(monkeypatch, capfd):
    monkeypatch.setenv("FORCE_COLOR", "1")

    def interrupted():
        with DownloadBar("a.gz") as bar:
            bar.total = 10
            bar.update(4)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert "\x1b[?25h" in capfd.readouterr().err  # the cursor is back
