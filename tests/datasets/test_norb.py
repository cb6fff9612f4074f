"""Small NORB: files written byte by byte, everything that can be wrong with them, the stand-in."""

import gzip
import hashlib
import re
import struct
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from ccml.datasets import _norb, _toy_norb, load, load_small_norb, make_toy_norb, write_small_norb
from ccml.datasets._norb import MD5, PARTS, file_name
from ccml.datasets._norb_files import matrix, read_content, write_matrix

BYTES, INTEGERS = 0x1E3D4C55, 0x1E3D4C54
TINY = {"n_instances": 1, "n_elevations": 1, "n_azimuths": 2, "n_lightings": 1}


def header(magic, *shape, n_dimensions=None):
    padded = [*shape, *[1] * (3 - len(shape))]
    return struct.pack(f"<ii{len(padded)}i", magic, n_dimensions or len(shape), *padded)


def content(data):
    return np.frombuffer(data, dtype=np.uint8)


def write_part(folder, part, n=4, *, names=None):
    """NORB's three files, with n images, byte by byte."""
    instance = PARTS[part][0]
    rng = np.random.RandomState(n)
    pixels = rng.randint(256, size=n * 2 * 96 * 96, dtype=np.uint8).tobytes()
    rows = [(instance, i % 9, 2 * (i % 18), i % 6) for i in range(n)]
    files = {
        "dat": header(BYTES, n, 2, 96, 96) + pixels,
        "cat": header(INTEGERS, n) + struct.pack(f"<{n}i", *(i % 5 for i in range(n))),
        "info": header(INTEGERS, n, 4) + b"".join(struct.pack("<4i", *row) for row in rows),
    }
    for kind, data in files.items():
        (folder / file_name(part, kind)).write_bytes(data)
    return np.frombuffer(pixels, np.uint8).reshape(n, 2, 96, 96), rows


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "norb"
    place.mkdir()
    for part in PARTS:
        write_part(place, part)
    return place


class TestFormat:
    def test_bytes(self):
        array = matrix(content(header(BYTES, 2, 3, 1, 2) + bytes(range(12))))
        assert array.dtype == np.uint8
        assert array.tolist() == np.arange(12).reshape(2, 3, 1, 2).tolist()

    def test_integers(self):
        array = matrix(content(header(INTEGERS, 2, 2) + struct.pack("<4i", 1, -2, 3, 70_000)))
        assert array.tolist() == [[1, -2], [3, 70_000]]

    def test_a_header_has_at_least_three_dimensions(self):
        assert matrix(content(header(INTEGERS, 1) + struct.pack("<i", 5))).tolist() == [5]
        assert len(header(INTEGERS, 1)) == 20

    @pytest.mark.parametrize(
        ("n_bytes", "where"),
        [
            *[(n, "magic number") for n in range(4)],
            *[(n, "number of dimensions") for n in range(4, 8)],
            *[(n, "in the dimensions") for n in range(8, 24)],
            *[(n, "takes 28 bytes") for n in range(24, 28)],
        ],
    )
    def test_truncated_anywhere(self, n_bytes, where):
        whole = header(BYTES, 2, 1, 2, 1) + bytes(4)
        with pytest.raises(ValueError, match=where):
            matrix(content(whole[:n_bytes]))

    def test_trailing_bytes(self):
        with pytest.raises(ValueError, match="takes 24 bytes; there are 25"):
            matrix(content(header(BYTES, 2, 1, 2) + bytes(5)))

    @pytest.mark.parametrize(
        ("data", "message"),
        [
            (header(0x1E3D4C53, 1) + bytes(4), "starts with 0x1e3d4c53"),
            (struct.pack(">i", BYTES) + header(BYTES, 1)[4:] + bytes(1), "starts with 0x554c3d1e"),
            (header(BYTES, 1, n_dimensions=-1) + bytes(1), "has -1 dimensions"),
            (header(BYTES, 1, n_dimensions=9) + bytes(60), "has 9 dimensions"),
            (header(BYTES, 0) + bytes(4), "dimensions are (0, 1, 1)"),
            (header(BYTES, -3, 2, 2) + bytes(4), "dimensions are (-3, 2, 2)"),
            (header(BYTES, 2, 2, n_dimensions=1) + bytes(4), "dimensions are (2, 2, 1)"),
            (header(BYTES, *[2**31 - 1] * 3) + bytes(4), "there are 24"),
        ],
    )  # fmt: skip
    def test_refused(self, data, message):
        with pytest.raises(ValueError, match=re.escape(message)):
            matrix(content(data))

    @pytest.mark.parametrize("dtype", [np.uint8, np.int32])
    @pytest.mark.parametrize("shape", [(3,), (3, 2), (3, 2, 2), (3, 2, 2, 2)])
    def test_round_trip(self, tmp_path, shape, dtype):
        array = np.arange(np.prod(shape), dtype=dtype).reshape(shape)
        write_matrix(tmp_path / "file", shape, dtype, [array[:1], array[1:]])
        assert (tmp_path / "file").read_bytes()[:8] == header(
            {np.uint8: BYTES, np.int32: INTEGERS}[dtype], *shape
        )[:8]
        again = matrix(read_content(tmp_path / "file"))
        assert again.dtype == dtype
        np.testing.assert_array_equal(again, array)

    def test_nothing_is_left_of_a_file_that_could_not_be_finished(self, tmp_path):
        def blocks():
            yield np.zeros(2, np.uint8)
            raise OSError("no space left")

        with pytest.raises(OSError, match="no space left"):
            write_matrix(tmp_path / "file", (4,), np.uint8, blocks())
        assert list(tmp_path.iterdir()) == []

    def test_plain_files_are_mapped(self, tmp_path):
        write_matrix(tmp_path / "file", (2,), np.uint8, [np.zeros(2, np.uint8)])
        assert isinstance(read_content(tmp_path / "file"), np.memmap)


class TestLoader:
    def test_what_is_in_the_files(self, tmp_path):
        images, rows = write_part(tmp_path, "training", n=6)
        write_part(tmp_path, "testing", n=5)
        data = load_small_norb(tmp_path, image_size=96)
        np.testing.assert_array_equal(data.X[:6].reshape(images.shape), images)
        assert data.y[:6].tolist() == [0, 1, 2, 3, 4, 0]
        assert data.factors["instance"].tolist() == [4] * 6 + [0] * 5
        assert data.factors["elevation"][:6].tolist() == [30 + 5 * row[1] for row in rows]
        assert data.factors["azimuth"][:6].tolist() == [10 * row[2] for row in rows]
        assert data.factors["lighting"][:6].tolist() == [row[3] for row in rows]
        assert data.test.tolist() == [6, 7, 8, 9, 10]
        assert data.image_shape == (2, 96, 96)
        assert data.feature_names[96 * 96 + 1] == "right_0_1"

    def test_pixels_are_averaged(self, folder):
        large, small = load_small_norb(folder, image_size=96), load_small_norb(folder)
        assert small.X.dtype == np.uint8
        assert small.image_shape == (2, 32, 32)
        squares = large.X.reshape(-1, 2, 32, 3, 32, 3)
        expected = squares.mean(axis=(3, 5))
        assert np.abs(small.X.reshape(expected.shape) - expected).max() <= 0.5

    def test_one_instance_of_each_category_is_held_out(self, tmp_path):
        write_small_norb(tmp_path, **TINY | {"n_instances": 2})
        data = load_small_norb(tmp_path)
        assert set(data.factors["instance"][data.train]) == {4}
        assert set(data.factors["instance"][data.validation]) == {6}
        assert set(data.factors["instance"][data.test]) == {0, 1}
        for rows in (data.train, data.validation, data.test):
            assert set(data.y[rows]) == set(range(5))

    def test_gzipped(self, folder):
        plain = load_small_norb(folder)
        for path in list(folder.iterdir()):
            path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes()))
            path.unlink()
        assert {path.suffix for path in folder.iterdir()} == {".gz"}
        zipped = load_small_norb(folder)
        np.testing.assert_array_equal(zipped.X, plain.X)
        np.testing.assert_array_equal(zipped.y, plain.y)

    def test_found_by_name(self, folder, monkeypatch):
        monkeypatch.setenv("CCML_DATA", str(folder))
        assert len(load("norb").X) == 8

    @pytest.mark.parametrize("size", [0, 5, 64, 97, 32.0, "32", True])
    def test_image_size(self, folder, size):
        with pytest.raises(ValueError, match="image_size"):
            load_small_norb(folder, image_size=size)


class TestDamage:
    def check(self, folder, message):
        with pytest.raises(OSError, match="smallnorb-5x") as error:
            load_small_norb(folder)
        assert message in str(error.value)
        assert str(folder) in str(error.value)

    @pytest.mark.parametrize("key", MD5, ids="-".join)
    @pytest.mark.parametrize("kept", [0.0, 0.3, 0.9999])
    def test_truncated(self, folder, key, kept):
        path = folder / file_name(*key)
        whole = path.read_bytes()
        path.write_bytes(whole[: int(kept * len(whole))])
        self.check(folder, "Replace it")

    @pytest.mark.parametrize("key", MD5, ids="-".join)
    def test_trailing_bytes(self, folder, key):
        path = folder / file_name(*key)
        path.write_bytes(path.read_bytes() + b"\0")
        self.check(folder, "there are")

    @pytest.mark.parametrize("n_bytes", [0, 5, 15, 200, -1])
    def test_truncated_gzip(self, folder, n_bytes):
        path = folder / file_name("testing", "dat")
        zipped = path.with_name(path.name + ".gz")
        zipped.write_bytes(gzip.compress(path.read_bytes())[:n_bytes])
        path.unlink()
        self.check(folder, "Replace it")

    def test_not_gzip(self, folder):
        path = folder / file_name("testing", "cat")
        path.rename(path.with_name(path.name + ".gz"))
        self.check(folder, "gzip")

    @pytest.mark.parametrize("part", PARTS)
    @pytest.mark.parametrize("kind", ["dat", "cat", "info"])
    def test_mismatching_counts(self, folder, tmp_path, part, kind):
        other = tmp_path / "other"
        other.mkdir()
        write_part(other, part, n=3)
        (other / file_name(part, kind)).replace(folder / file_name(part, kind))
        self.check(folder, "shape")

    @pytest.mark.parametrize(
        ("kind", "data"),
        [
            ("dat", header(BYTES, 4, 2, 96, 95) + bytes(4 * 2 * 96 * 95)),
            ("dat", header(BYTES, 4, 1, 96, 96) + bytes(4 * 96 * 96)),
            ("dat", header(INTEGERS, 4, 2, 96, 96) + bytes(4 * 4 * 2 * 96 * 96)),
            ("cat", header(BYTES, 4) + bytes(4)),
            ("cat", header(INTEGERS, 4, 1) + bytes(16)),
            ("info", header(INTEGERS, 4, 3) + bytes(4 * 4 * 3)),
            ("info", header(INTEGERS, 16) + bytes(4 * 16)),
        ],
    )
    def test_wrong_dimensions(self, folder, kind, data):
        (folder / file_name("training", kind)).write_bytes(data)
        self.check(folder, "has to be")

    @pytest.mark.parametrize(
        ("column", "value", "message"),
        [
            (0, 0, "4, 6, 7, 8, 9"),
            (1, 9, "0, 1, 2"),
            (2, 3, "0, 2, 4"),
            (3, -1, "0, 1, 2, 3, 4, 5"),
        ],
    )
    def test_values_that_norb_does_not_have(self, folder, column, value, message):
        path = folder / file_name("training", "info")
        data = bytearray(path.read_bytes())
        struct.pack_into("<i", data, 20 + 4 * column, value)
        path.write_bytes(data)
        self.check(folder, f"has the value {value} where NORB's training images have {message}")

    def test_an_unknown_category(self, folder):
        path = folder / file_name("testing", "cat")
        path.write_bytes(header(INTEGERS, 4) + struct.pack("<4i", 0, 1, 2, 5))
        self.check(folder, "has the value 5")

    def test_training_and_test_files_exchanged(self, folder):
        one, other = (folder / file_name(part, "info") for part in PARTS)
        kept = one.read_bytes()
        one.write_bytes(other.read_bytes())
        other.write_bytes(kept)
        self.check(folder, "where NORB's training images have")


class TestMissing:
    def test_the_message_names_the_files_and_the_stand_in(self, folder):
        for kind in ("cat", "dat"):
            (folder / file_name("testing", kind)).unlink()
        with pytest.raises(OSError, match="six files") as error:
            load_small_norb(folder)
        message = str(error.value)
        assert f"{folder} doesn't have {file_name('testing', 'dat')}" in message
        assert file_name("testing", "cat") in message
        assert file_name("training", "cat") not in message
        assert "make_toy_norb" in message

    def test_a_folder_that_is_named_must_have_all(self, folder, monkeypatch):
        monkeypatch.setenv("CCML_DATA", str(folder))
        (folder / file_name("testing", "cat")).unlink()
        with pytest.raises(OSError, match=file_name("testing", "cat")) as error:
            load("norb")
        assert not isinstance(error.value, FileNotFoundError)  # for which a stand-in would do

    def test_no_connection(self, cache, tmp_path, monkeypatch):
        monkeypatch.setenv("CCML_DATA", str(tmp_path))
        with pytest.raises(FileNotFoundError) as error:
            load("norb")
        message = str(error.value)
        assert str(cache) in message
        assert str(tmp_path) in message
        for key in MD5:
            assert file_name(*key) in message
        assert "make_toy_norb" in message

    @pytest.fixture
    def served(self, folder, server, monkeypatch):
        """NORB's files, gzipped, on a server, with the checksums that they have."""
        url, place = server
        for key in MD5:
            data = (folder / file_name(*key)).read_bytes()
            monkeypatch.setitem(MD5, key, hashlib.md5(data).hexdigest())
            (place / f"{file_name(*key)}.gz").write_bytes(gzip.compress(data))
        monkeypatch.setattr(_norb, "URL", url)
        return place

    def test_downloaded_once(self, served, cache):
        data = load("norb")
        assert data.name == "norb"
        assert sorted(path.name for path in cache.iterdir()) == sorted(
            f"{file_name(*key)}.gz" for key in MD5
        )
        for path in served.iterdir():
            path.unlink()
        np.testing.assert_array_equal(load("norb").X, data.X)

    def test_a_download_goes_on_where_it_was(self, served, cache):
        hidden = served / f"{file_name('testing', 'info')}.gz"
        kept = hidden.read_bytes()
        hidden.unlink()
        with pytest.raises(
            OSError, match="testing-info", check=lambda error: type(error) is OSError
        ):
            load("norb")  # with a FileNotFoundError a stand-in would do
        assert len(list(cache.iterdir())) == 5
        for path in served.iterdir():
            path.unlink()
        hidden.write_bytes(kept)
        assert load("norb").name == "norb"

    @pytest.mark.parametrize("sent", [b"", b"<html>", gzip.compress(header(BYTES, 1) + b"\0")])
    def test_something_else_comes(self, served, cache, sent):
        (served / f"{file_name('training', 'dat')}.gz").write_bytes(sent)
        with pytest.raises(FileNotFoundError, match="training-dat"):
            load("norb")
        assert list(cache.iterdir()) == []


class TestOriginal:
    @pytest.fixture
    def original(self, folder, monkeypatch):
        """As if these were the authors' files."""
        for key in MD5:
            data = (folder / file_name(*key)).read_bytes()
            monkeypatch.setitem(MD5, key, hashlib.md5(data).hexdigest())
        return folder

    def test_is_recognised(self, original):
        assert load_small_norb(original).name == "norb"

    def test_anything_else_is_a_stand_in(self, folder):
        assert load_small_norb(folder).name == "norb (stand-in)"

    def test_the_full_stand_in_is_one(self):
        """Its tables are in part those of NORB, to the last byte."""
        contents, table = {}, _toy_norb._Turntable().table
        for part in PARTS:
            categories, info = table(part)
            contents[part, "dat"] = np.zeros(9, np.uint8)
            contents[part, "cat"] = content(header(INTEGERS, 24_300) + categories.tobytes())
            contents[part, "info"] = content(header(INTEGERS, 24_300, 4) + info.tobytes())
        assert _norb._md5(contents["testing", "info"]) == MD5["testing", "info"]
        assert not _norb._is_original({}, contents)

    @pytest.mark.parametrize("key", MD5, ids="-".join)
    def test_a_changed_byte_is_damage(self, original, key):
        path = original / file_name(*key)
        data = bytearray(path.read_bytes())
        data[-4] ^= 1
        path.write_bytes(data)
        with pytest.raises(OSError, match="is damaged") as error:
            load_small_norb(original)
        assert str(path) in str(error.value)


class TestStandIn:
    def test_examples_have_every_toy(self):
        toys = make_toy_norb(n_elevations=1, n_azimuths=2, n_lightings=1)
        rows = toys.examples(10)
        assert (toys.y[rows] == np.arange(5)[:, None]).all()
        assert (np.sort(toys.factors["instance"][rows], axis=1) == np.arange(10)).all()

    def test_every_combination_once(self):
        data = make_toy_norb(n_instances=3, n_elevations=2, n_azimuths=3, n_lightings=2)
        assert data.name == "norb (stand-in)"
        factors = ["instance", "elevation", "azimuth", "lighting"]
        found = list(zip(data.y, *(data.factors[factor] for factor in factors), strict=True))
        training = product(range(5), (4, 6, 7), (30, 50), (0, 120, 240), (0, 3))
        test = product(range(5), (0, 1, 2), (30, 50), (0, 120, 240), (0, 3))
        n_training = len(data.train) + len(data.validation)
        assert sorted(found[:n_training]) == sorted(training)
        assert sorted(found[n_training:]) == sorted(test)

    def test_the_whole_design(self):
        """Of the full set, without its images."""
        table = _toy_norb._Turntable(5, 9, 18, 6, 0).table
        for part, instances in PARTS.items():
            categories, info = table(part)
            assert len(info) == 24_300
            levels = (range(5), instances, range(9), range(0, 36, 2), range(6))
            assert sorted(zip(categories, *info.T, strict=True)) == list(product(*levels))

    def test_the_same_seed_gives_the_same_bytes(self):
        one, other = make_toy_norb(**TINY), make_toy_norb(**TINY)
        np.testing.assert_array_equal(one.X, other.X)
        another = make_toy_norb(**TINY, random_state=1)
        assert (one.X != another.X).any(axis=1).all()

    def test_toys_do_not_depend_on_what_else_is_asked_for(self):
        few = make_toy_norb(**TINY)
        more = make_toy_norb(n_instances=2, n_elevations=3, n_azimuths=2, n_lightings=2)
        wanted = np.isin(more.factors["instance"], (4, 0))
        wanted &= (more.factors["elevation"] == 30) & (more.factors["lighting"] == 0)
        np.testing.assert_array_equal(more.X[wanted], few.X)

    def test_written_and_read_again(self, tmp_path):
        files = write_small_norb(tmp_path / "new", **TINY)
        assert sorted(path.name for path in files) == sorted(file_name(*key) for key in MD5)
        read, made = load_small_norb(tmp_path / "new"), make_toy_norb(**TINY)
        assert repr(read) == repr(made)
        np.testing.assert_array_equal(read.X, made.X)
        np.testing.assert_array_equal(read.y, made.y)
        for factor, values in made.factors.items():
            np.testing.assert_array_equal(read.factors[factor], values)

    def test_the_original_format_byte_by_byte(self, tmp_path):
        files = {path.name: path.read_bytes() for path in write_small_norb(tmp_path, **TINY)}
        assert files[file_name("training", "dat")][:24] == header(BYTES, 10, 2, 96, 96)
        assert len(files[file_name("training", "dat")]) == 24 + 10 * 2 * 96 * 96
        assert files[file_name("training", "cat")] == header(INTEGERS, 10) + struct.pack(
            "<10i", *[0, 1, 2, 3, 4] * 2
        )
        info = header(INTEGERS, 10, 4) + struct.pack("<20i", *[4, 0, 0, 0] * 5)
        assert files[file_name("training", "info")].startswith(info)

    def test_images_have_a_toy_its_shading_and_its_shadow(self):
        data = make_toy_norb(**TINY, image_size=96)
        images = data.X.reshape(-1, 96, 96)
        ground = images[:, 0, 0]
        assert (ground == ground[0]).all()
        differs = (images != ground[0]).mean(axis=(1, 2))
        assert ((differs > 0.04) & (differs < 0.7)).all()
        assert (images.min(axis=(1, 2)) < ground[0] / 2).all()  # in the shadow
        assert all(len(np.unique(image)) > 20 for image in images)
        assert not np.array_equal(images[::2], images[1::2])  # the eyes see different things

    def test_made_once_by_name(self, cache, monkeypatch):
        rendered = []

        class FewPictures(_toy_norb._Turntable):
            def __init__(self):
                super().__init__(**TINY)

            def parts(self, image_size):
                rendered.append(image_size)
                return super().parts(image_size)

        monkeypatch.setattr(_toy_norb, "_Turntable", FewPictures)
        first, second = load("norb-stand-in"), load("norb-stand-in")
        assert rendered == [32]
        assert first.name == second.name == "norb (stand-in)"
        np.testing.assert_array_equal(first.X, second.X)
        (kept,) = cache.iterdir()
        whole = kept.read_bytes()
        with np.load(kept) as archive:
            other = dict(archive) | {"training_images": archive["training_images"][:, :, :8, :8]}
        for damage in (lambda: kept.write_bytes(whole[:-100]), lambda: np.savez(kept, **other)):
            damage()
            rendered.clear()
            np.testing.assert_array_equal(load("norb-stand-in").X, first.X)
            np.testing.assert_array_equal(load("norb-stand-in").y, first.y)
            assert rendered == [32]

    def test_it_looks_as_it_did(self):
        """If this fails, the toys are others: change the number in KEPT_AS and measure again."""
        toys = make_toy_norb(n_instances=1, n_elevations=1, n_azimuths=1, n_lightings=2)
        found = toys.X.mean(axis=1, dtype=float)
        expected = [
            136.96,
            138.72,
            141.05,
            138.56,
            145.78,
            159.81,
            157.72,
            162.8,
            160.05,
            167.48,
            138.43,
            139.68,
            141.37,
            136.92,
            145.12,
            160.63,
            159.69,
            162.65,
            157.33,
            166.65,
        ]
        np.testing.assert_allclose(found, expected, atol=0.02)

    @pytest.mark.parametrize(
        "parameters",
        [
            {"n_instances": 0},
            {"n_instances": 6},
            {"n_elevations": 10},
            {"n_azimuths": 19},
            {"n_lightings": 7},
            {"n_lightings": 1.5},
            {"image_size": 33},
        ],
    )
    def test_refused(self, parameters):
        (name,) = parameters
        with pytest.raises(ValueError, match=name):
            make_toy_norb(**parameters)


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        write_small_norb(Path(tmp_path / "file" / "folder"), **TINY)
