"""Only the known arrays come through, whole, and from the right place."""

import dataclasses
import os
import pickle
import random
import re
import warnings

import numpy as np
import pytest

from ccml.datasets import load
from ccml.datasets._files import KEYS, Source, content_sha256, read, verified_arrays, write

NOWHERE = "http://127.0.0.1:9/"  # a port that nothing listens on


@pytest.fixture
def source(arrays):
    def unused(folder):
        raise AssertionError("the originals are not needed")

    return Source("tiny", NOWHERE, {"tiny.txt": None}, unused, content_sha256(arrays))


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for key, array in expected.items():
        np.testing.assert_array_equal(found[key], array, strict=True)


def other(arrays):
    """Arrays that differ in one value."""
    changed = {key: array.copy() for key, array in arrays.items()}
    changed["x_test"][0, 0] += 1
    return changed


class TestContentDigest:
    def test_does_not_depend_on_how_the_arrays_lie_in_memory(self, arrays):
        turned = {key: np.asfortranarray(array) for key, array in arrays.items()}
        swapped = {key: a.astype(a.dtype.newbyteorder(">")) for key, a in arrays.items()}
        assert content_sha256(turned) == content_sha256(swapped) == content_sha256(arrays)

    def test_does_not_depend_on_further_arrays_or_their_order(self, arrays):
        more = {"group_train": np.zeros(3), **dict(reversed(arrays.items()))}
        assert content_sha256(more) == content_sha256(arrays)

    @pytest.mark.parametrize("key", KEYS)
    def test_depends_on_every_value_type_and_shape(self, arrays, key):
        array = arrays[key]
        one_off = array.copy()
        one_off.flat[-1] += 1
        for changed in (one_off, array.astype(np.float64), array[:-1], array[None], array[::-1]):
            assert content_sha256({**arrays, key: changed}) != content_sha256(arrays)

    def test_depends_on_which_array_is_which(self, arrays):
        swapped = {**arrays, "x_train": arrays["x_test"], "x_test": arrays["x_train"]}
        assert content_sha256(swapped) != content_sha256(arrays)


class TestRead:
    def test_returns_what_was_written(self, tmp_path, arrays, source):
        write(tmp_path / "tiny.npz", arrays)
        assert_same(read(tmp_path / "tiny.npz", source), arrays)

    def test_takes_any_archive_with_the_arrays(self, tmp_path, arrays, source):
        np.savez(tmp_path / "tiny.npz", group_train=np.arange(3), **arrays)
        assert_same(read(tmp_path / "tiny.npz", source), arrays)

    def test_normalises_before_it_compares(self, tmp_path, arrays, source):
        backwards = {key: array[::-1] for key, array in arrays.items()}
        write(tmp_path / "tiny.npz", backwards)
        turn = dataclasses.replace(
            source, normalise=lambda found: {key: array[::-1] for key, array in found.items()}
        )
        assert_same(read(tmp_path / "tiny.npz", turn), arrays)

    @pytest.mark.parametrize("compressed", [True, False])
    def test_refuses_a_file_cut_off_anywhere(self, tmp_path, arrays, source, compressed):
        path = tmp_path / "tiny.npz"
        (np.savez_compressed if compressed else np.savez)(path, **arrays)
        whole = path.read_bytes()
        for length in range(0, len(whole), 3):
            path.write_bytes(whole[:length])
            with pytest.raises(OSError, match=r"tiny\.npz is damaged.* Delete or replace it"):
                read(path, source)

    @pytest.mark.parametrize("compressed", [True, False])
    def test_a_flipped_bit_is_refused_or_harmless(self, tmp_path, arrays, source, compressed):
        path = tmp_path / "tiny.npz"
        (np.savez_compressed if compressed else np.savez)(path, **arrays)
        whole = path.read_bytes()
        rng = random.Random(0)
        refusals = []
        for place in range(len(whole)):
            damaged = bytearray(whole)
            damaged[place] ^= 1 << rng.randrange(8)
            path.write_bytes(damaged)
            try:
                assert_same(read(path, source), arrays)  # a date, say, was hit
            except OSError as error:
                refusals.append(str(error))
        assert len(refusals) > 0.85 * len(whole)
        for message in refusals:
            assert message.startswith(f"{path} is damaged")
            assert "Delete or replace it" in message
            assert "\n" not in message

    def test_refuses_other_arrays(self, tmp_path, arrays, source):
        write(tmp_path / "tiny.npz", other(arrays))
        with pytest.raises(OSError, match=r"is not the tiny data \(the SHA-256"):
            read(tmp_path / "tiny.npz", source)

    def test_refuses_an_archive_without_the_arrays(self, tmp_path, arrays, source):
        del arrays["y_test"]
        np.savez(tmp_path / "tiny.npz", **arrays)
        with pytest.raises(OSError, match="y_test is not a file in the archive"):
            read(tmp_path / "tiny.npz", source)

    def test_never_unpickles(self, tmp_path, arrays, source):
        class Boom:
            def __reduce__(self):
                return pytest.fail, ("unpickled",)

        path = tmp_path / "tiny.npz"
        path.write_bytes(pickle.dumps(Boom()))
        with pytest.raises(OSError, match="damaged"):
            read(path, source)
        np.savez(path, **{**arrays, "y_test": np.array([Boom()], dtype=object)})
        with pytest.raises(OSError, match="damaged"):
            read(path, source)

    @pytest.mark.parametrize("content", [b"", b"<html>404</html>", b"PK\x03\x04", b"\x93NUMPY"])
    def test_refuses_what_is_no_archive(self, tmp_path, source, content):
        (tmp_path / "tiny.npz").write_bytes(content)
        with pytest.raises(OSError, match="damaged"):
            read(tmp_path / "tiny.npz", source)

    def test_refuses_a_bare_array(self, tmp_path, source):
        with (tmp_path / "tiny.npz").open("wb") as file:
            np.save(file, np.arange(3))
        with pytest.raises(OSError, match="damaged"):
            read(tmp_path / "tiny.npz", source)


class TestWrite:
    def test_makes_the_folder_and_leaves_one_file(self, cache, arrays):
        write(cache / "tiny.npz", arrays)
        assert [path.name for path in cache.iterdir()] == ["tiny.npz"]

    @pytest.mark.parametrize("broken", ["savez_compressed", "fsync", "replace"])
    def test_a_failure_leaves_the_old_file_and_nothing_else(
        self, cache, arrays, source, monkeypatch, broken
    ):
        write(cache / "tiny.npz", arrays)

        def fail(*args, **kwargs):
            if broken == "savez_compressed":
                args[0].write(b"half")
            raise KeyboardInterrupt

        monkeypatch.setattr(np if broken == "savez_compressed" else os, broken, fail)
        with pytest.raises(KeyboardInterrupt):
            write(cache / "tiny.npz", other(arrays))
        assert [path.name for path in cache.iterdir()] == ["tiny.npz"]
        assert_same(read(cache / "tiny.npz", source), arrays)

    def test_the_file_is_on_disk_before_it_gets_its_name(self, cache, arrays, monkeypatch):
        steps = []
        replace, fsync = os.replace, os.fsync
        monkeypatch.setattr(os, "fsync", lambda fd: (steps.append("fsync"), fsync(fd)))
        monkeypatch.setattr(
            os, "replace", lambda old, new: (steps.append(os.path.dirname(old)), replace(old, new))
        )
        write(cache / "tiny.npz", arrays)
        assert steps == ["fsync", str(cache)]


class TestWhereItLooks:
    def test_ccml_data_comes_before_the_cache(self, tmp_path, cache, arrays, source, monkeypatch):
        own = tmp_path / "own"
        write(own / "tiny.npz", arrays)
        write(cache / "tiny.npz", other(arrays))
        monkeypatch.setenv("CCML_DATA", str(own))
        assert_same(verified_arrays(source), arrays)

    def test_a_bad_file_in_ccml_data_is_not_passed_over(
        self, tmp_path, cache, arrays, source, monkeypatch
    ):
        own = tmp_path / "own"
        write(own / "tiny.npz", other(arrays))
        write(cache / "tiny.npz", arrays)
        monkeypatch.setenv("CCML_DATA", str(own))
        with pytest.raises(OSError, match=re.escape(str(own / "tiny.npz"))):
            verified_arrays(source)

    @pytest.mark.parametrize("own", ["", "not/there"])
    def test_then_comes_the_cache(self, cache, arrays, source, monkeypatch, own):
        write(cache / "tiny.npz", arrays)
        monkeypatch.setenv("CCML_DATA", own)
        assert_same(verified_arrays(source), arrays)

    def test_ccml_data_may_start_with_a_tilde(self, tmp_path, arrays, source, monkeypatch):
        write(tmp_path / "data" / "tiny.npz", arrays)
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("USERPROFILE", str(tmp_path))
        monkeypatch.setenv("CCML_DATA", "~/data")
        assert_same(verified_arrays(source), arrays)


class TestOffline:
    @pytest.mark.parametrize("name", ["isolet", "mnist"])
    def test_says_which_file_to_put_where(self, tmp_path, cache, monkeypatch, name):
        monkeypatch.setenv("CCML_DATA", str(tmp_path / "own"))
        with pytest.raises(FileNotFoundError) as caught:
            load(name)
        message = str(caught.value)
        assert f"{name}.npz is not in {tmp_path / 'own'} or {cache}" in message
        assert "download from https://" in message
        assert "$CCML_DATA" in message
        assert "\n" not in message
        assert caught.value.__suppress_context__
        assert not cache.exists()

    def test_without_ccml_data_names_the_cache_alone(self, cache, source):
        with pytest.raises(FileNotFoundError, match=re.escape(f"not in {cache}, and")) as caught:
            verified_arrays(source)
        assert f"from {NOWHERE} failed (ConnectionError)" in str(caught.value)


def test_nothing_warns_when_all_is_well(cache, arrays, source):
    write(cache / "tiny.npz", arrays)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        verified_arrays(source)
