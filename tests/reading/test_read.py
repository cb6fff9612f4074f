"""Files of every kind: what comes out, and what is said of files that can't be read."""

import re
import struct

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from ccml.reading import DataFileError, _tables, read

FRAME = pd.DataFrame(
    {"size": [1.5, 2.5, None, 4.0], "colour": ["red", None, "blue", "red"], "kind": list("abab")}
)


def refused(path, message, **options):
    with pytest.raises(DataFileError, match=re.escape(message)) as error:
        read(path, **options)
    assert "\n" not in str(error.value)
    return str(error.value)


class TestTables:
    @pytest.mark.parametrize("suffix", [".csv", ".tsv", ".tab", ".parquet", ".feather", ".arrow"])
    def test_every_format_gives_the_same(self, tmp_path, suffix):
        path = tmp_path / f"data{suffix}"
        writers = {
            ".csv": lambda: FRAME.to_csv(path, index=False),
            ".tsv": lambda: FRAME.to_csv(path, index=False, sep="\t"),
            ".tab": lambda: FRAME.to_csv(path, index=False, sep="\t"),
            ".parquet": lambda: FRAME.to_parquet(path),
            ".feather": lambda: FRAME.to_feather(path),
            ".arrow": lambda: FRAME.to_feather(path, compression="uncompressed"),
        }
        writers[suffix]()
        rows = read(path, target="kind")
        assert rows.kind == "table"
        assert rows.y.tolist() == list("abab")
        assert list(rows.X) == ["size", "colour"]
        assert rows.X["size"].isna().tolist() == [False, False, True, False]
        assert rows.names is None

    def test_in_chunks(self, tmp_path, monkeypatch):
        monkeypatch.setattr(_tables, "_CHUNK", 3)
        path = tmp_path / "data.csv"
        pd.concat([FRAME] * 5).to_csv(path, index=False)
        rows = read(path, target="kind")
        assert len(rows) == 20
        assert rows.X.index.tolist() == list(range(20))

    def test_types_that_differ_between_chunks(self, tmp_path, monkeypatch):
        monkeypatch.setattr(_tables, "_CHUNK", 3)
        path = tmp_path / "data.csv"
        path.write_text("n,kind\n1,1\n2,2\n3,1\n4,x\n5,2\ny,1\n")
        rows = read(path, target="kind")
        assert rows.y.tolist() == ["1", "2", "1", "x", "2", "1"]
        assert rows.X["n"].tolist() == ["1", "2", "3", "4", "5", "y"]

    def test_an_index_that_pandas_has_written(self, tmp_path):
        FRAME.to_csv(tmp_path / "data.csv")
        rows = read(tmp_path / "data.csv", target="kind")
        assert list(rows.X) == ["size", "colour"]
        assert rows.notes == ("the first column only counts the rows and is left out",)
        assert list(read(tmp_path / "data.csv").X) == ["size", "colour", "kind"]

    def test_upper_case(self, tmp_path):
        FRAME.to_csv(tmp_path / "DATA.CSV", index=False)
        assert read(tmp_path / "DATA.CSV", target="kind").X.shape == (4, 2)

    def test_another_delimiter(self, tmp_path):
        path = tmp_path / "data.csv"
        FRAME.to_csv(path, index=False, sep=";")
        assert "delimiter=';'" in refused(path, "delimited by ';'", target="kind")
        assert read(path, target="kind", delimiter=";").X.shape == (4, 2)

    def test_one_column_is_not_a_wrong_delimiter(self, tmp_path):
        path = tmp_path / "data.csv"
        path.write_text("number\n1\n2\n")
        assert read(path).X.shape == (2, 1)

    def test_the_target_is_not_there(self, tmp_path):
        path = tmp_path / "data.csv"
        FRAME.to_csv(path, index=False)
        message = refused(path, "did you mean 'colour'?", target="color")
        assert "size, colour, kind" in message

    def test_rows_without_a_label_are_left_out_and_the_others_keep_their_numbers(self, tmp_path):
        path = tmp_path / "data.csv"
        FRAME.assign(kind=["a", None, "b", "a"]).to_csv(path, index=False)
        rows = read(path, target="kind")
        assert rows.y.tolist() == ["a", "b", "a"]
        assert rows.names == [0, 2, 3]
        assert rows.notes == ("1 rows without 'kind' are left out",)

    def test_whole_numbers_stay_whole_beside_a_gap(self, tmp_path):
        path = tmp_path / "data.csv"
        FRAME.assign(kind=[1, None, 2, 1]).to_csv(path, index=False)
        assert read(path, target="kind").y.tolist() == [1, 2, 1]

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "can't be read (No columns to parse from file)"),
            ("a,kind\n", "has no rows"),
            ("a,kind\n1,\n2,\n", "has no value in the column 'kind'"),
            ("a,kind\n1,0.5\n2,0.7\n", "numbers such as"),
            ("a,kind\n1,x\n2,x,3,4\n", "can't be read"),
            ('a,kind\n1,"x\n', "can't be read"),
        ],
    )
    def test_refused_text(self, tmp_path, text, message):
        path = tmp_path / "data.csv"
        path.write_text(text)
        refused(path, message, target="kind")

    def test_not_text(self, tmp_path):
        path = tmp_path / "data.csv"
        path.write_bytes(b"a,kind\n\xff\xfe\x00,1\n")
        refused(path, "can't be read")

    @pytest.mark.parametrize("suffix", [".parquet", ".feather"])
    def test_damaged(self, tmp_path, suffix):
        path = tmp_path / f"data{suffix}"
        path.write_bytes(b"something else")
        refused(path, "can't be read")

    @pytest.mark.parametrize("suffix", [".parquet", ".feather"])
    def test_any_changed_byte(self, tmp_path, suffix):
        """Also one in the footer, which then sends Arrow to places that aren't the file's."""
        path = tmp_path / f"data{suffix}"
        FRAME.to_parquet(path) if suffix == ".parquet" else FRAME.to_feather(path)
        content = path.read_bytes()
        rng = np.random.default_rng(0)
        for place in [
            *range(len(content) - 200, len(content)),
            *rng.integers(len(content), size=99),
        ]:
            changed = bytearray(content)
            changed[place] ^= 1 << rng.integers(8)
            path.write_bytes(changed)
            message = str(path)
            try:
                read(path)
            except DataFileError as error:
                message = str(error)
            assert str(path) in message
            assert message.isprintable()

    def test_a_target_without_end(self, tmp_path):
        path = tmp_path / "data.parquet"
        for value in (np.inf, 1e300):  # no warning of a cast, and no class from one
            pd.DataFrame({"a": [1, 2], "kind": [1.0, value]}).to_parquet(path)
            assert str(path) in refused(path, f"numbers such as {value:g}", target="kind")

    def test_columns_of_several_lines(self, tmp_path):
        path = tmp_path / "data.csv"
        path.write_text('"a\nb",c\n1,2\n')
        refused(path, "Its columns are a b, c", target="kind")

    @pytest.mark.parametrize(
        "values", [[[1, 2], [3]], [{"a": 1}, {"a": 2}]], ids=["lists", "dicts"]
    )
    @pytest.mark.parametrize("suffix", [".parquet", ".feather"])
    def test_more_than_one_value_in_a_place(self, tmp_path, suffix, values):
        path = tmp_path / f"data{suffix}"
        frame = pd.DataFrame({"a": [1, 2], "b": values})
        frame.to_parquet(path) if suffix == ".parquet" else frame.to_feather(path)
        refused(path, "has the column 'b' of")

    def test_a_delimiter_is_one_character(self, tmp_path):
        path = tmp_path / "data.csv"
        FRAME.to_csv(path, index=False)
        refused(path, "delimiter='ab' must be one character", delimiter="ab")

    def test_a_column_twice(self, tmp_path):
        path = tmp_path / "data.parquet"
        frame = pd.DataFrame([[1, 2, "a"]], columns=["x", 1, "1"])
        frame.to_csv(path.with_suffix(".csv"), index=False)
        assert read(path.with_suffix(".csv")).X.columns.tolist() == ["x", "1", "1.1"]


class TestArrays:
    X, Y = np.arange(12.0).reshape(4, 3), np.array([0, 1, 0, 1])

    def test_npz(self, tmp_path):
        path = tmp_path / "data.npz"
        np.savez(path, X=self.X, y=self.Y)
        rows = read(path)
        assert rows.kind == "vectors"
        np.testing.assert_array_equal(rows.X, self.X)
        np.testing.assert_array_equal(rows.y, self.Y)

    def test_the_only_array_is_the_rows(self, tmp_path):
        path = tmp_path / "data.npz"
        np.savez(path, vectors=self.X, labels=np.array(["u", "v", "u", "v"]))
        assert read(path).y.tolist() == ["u", "v", "u", "v"]

    @pytest.mark.parametrize("labels", ["labels.npy", "labels.txt"])
    def test_npy_with_labels(self, tmp_path, labels):
        np.save(tmp_path / "data.npy", self.X)
        if labels.endswith("npy"):
            np.save(tmp_path / labels, self.Y)
        else:
            (tmp_path / labels).write_text("a\nb\na\nb\n")
        rows = read(tmp_path / "data.npy", labels=tmp_path / labels)
        assert rows.y.tolist() in ([0, 1, 0, 1], list("abab"))
        assert read(tmp_path / "data.npy").y is None

    def test_images(self, tmp_path):
        np.save(tmp_path / "data.npy", np.zeros((4, 2, 8, 8), dtype=np.uint8))
        assert read(tmp_path / "data.npy").kind == "images"

    @pytest.mark.parametrize(
        ("arrays", "message"),
        [
            ({"a": X, "b": X}, "call rows 'X' and labels 'y'"),
            ({}, "has the arrays none"),
            ({"X": X[:, 0]}, "shape (4,)"),
            ({"X": X[:0]}, "shape (0, 3)"),
            ({"X": X.astype(str)}, "array of <U"),
            ({"X": X, "y": Y[:3]}, "4 rows, but labels of shape (3,)"),
            ({"X": X, "y": Y + 0.5}, "which are no classes"),
            ({"X": np.array([[None]])}, "Object arrays cannot be loaded"),
        ],
    )
    def test_refused(self, tmp_path, arrays, message):
        np.savez(tmp_path / "data.npz", allow_pickle=True, **arrays)
        refused(tmp_path / "data.npz", message)

    @pytest.mark.parametrize("name", ["data.npz", "data.npy"])
    @pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"\x93NUMPY\x01\x00", b"a,b\n1,2\n"])
    def test_damaged(self, tmp_path, name, content):
        (tmp_path / name).write_bytes(content)
        refused(tmp_path / name, "isn't a NumPy file, or is damaged")

    @pytest.mark.parametrize(
        "header", ["{'descr'", "{'descr': '<f8', 'shape': (1,), 'x", r"{'\d': 1}", "\0\0"]
    )
    def test_a_header_that_is_no_python(self, tmp_path, header):
        path = tmp_path / "data.npy"
        path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode())
        refused(path, "isn't a NumPy file, or is damaged")

    def test_more_than_fits_into_memory(self, tmp_path):
        header = "{'descr': '<f8', 'fortran_order': False, 'shape': (4000000, 4000000000)}"
        path = tmp_path / "data.npy"
        path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode())
        refused(path, "isn't a NumPy file, or is damaged")

    def test_a_damaged_compressed_array(self, tmp_path):
        path = tmp_path / "data.npz"
        np.savez_compressed(path, X=self.X)
        content = bytearray(path.read_bytes())
        content[60] ^= 0xFF
        path.write_bytes(content)
        refused(path, "isn't a NumPy file, or is damaged")

    def test_labels_that_are_no_text(self, tmp_path):
        np.save(tmp_path / "data.npy", self.X)
        np.save(tmp_path / "y.npy", np.full(4, 2**31 - 1, dtype="u4").view("U1"))
        refused(
            tmp_path / "data.npy", "y.npy has labels that are no text", labels=tmp_path / "y.npy"
        )
        (tmp_path / "y.txt").write_bytes(b"a\n\xff\n")
        refused(tmp_path / "data.npy", "y.txt isn't text", labels=tmp_path / "y.txt")


class TestImages:
    def picture(self, path, size=(8, 6), mode="L", value=100):
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new(mode, size, value if mode == "L" else (value, 0, 0)).save(path)

    def test_a_subfolder_is_a_class(self, tmp_path):
        for name in ("cat/1.png", "cat/more/2.png", "dog/1.jpg", "dog/readme.txt"):
            self.picture(tmp_path / name) if not name.endswith("txt") else (
                (tmp_path / name).write_text("not an image")
            )
        rows = read(tmp_path)
        assert rows.kind == "images"
        assert rows.X.shape == (3, 6, 8)
        assert rows.X.dtype == np.uint8
        assert rows.y.tolist() == ["cat", "cat", "dog"]
        assert rows.names == ["cat/1.png", "cat/more/2.png", "dog/1.jpg"]

    def test_images_without_subfolders_have_no_labels(self, tmp_path):
        self.picture(tmp_path / "1.png")
        assert read(tmp_path).y is None

    def test_colours_are_channels(self, tmp_path):
        self.picture(tmp_path / "a" / "1.png", mode="RGB")
        self.picture(tmp_path / "a" / "2.png")  # grey beside it
        rows = read(tmp_path)
        assert rows.X.shape == (2, 3, 6, 8)
        assert rows.X[0, :, 0, 0].tolist() == [100, 0, 0]
        assert rows.X[1, :, 0, 0].tolist() == [100, 100, 100]

    def test_sizes(self, tmp_path):
        self.picture(tmp_path / "a" / "1.png", size=(8, 6))
        self.picture(tmp_path / "a" / "2.png", size=(10, 20))
        assert "image_size=" in refused(tmp_path, "images of 2 sizes")
        assert read(tmp_path, image_size=(4, 5)).X.shape == (2, 4, 5)

    def test_an_image_that_cannot_be_read(self, tmp_path):
        self.picture(tmp_path / "a" / "1.png")
        (tmp_path / "a" / "2.png").write_bytes(b"no image")
        assert "2.png" in refused(tmp_path, "can't be read as an image")
        (tmp_path / "a" / "2.png").write_bytes((tmp_path / "a" / "1.png").read_bytes()[:-30])
        assert "2.png" in refused(tmp_path, "can't be read as an image")

    def test_one_that_says_it_is_huge(self, tmp_path):
        self.picture(tmp_path / "1.bmp")
        content = bytearray((tmp_path / "1.bmp").read_bytes())
        content[18:26] = struct.pack("<2i", 10_000, 10_000)
        (tmp_path / "1.bmp").write_bytes(content)
        refused(tmp_path, "can't be read as an image")

    def test_damaged_metadata_does_no_harm(self, tmp_path):
        exif = Image.Exif()
        exif[0x10E] = "of a photo"
        Image.new("L", (8, 6)).save(tmp_path / "1.jpg", exif=exif)
        content = (tmp_path / "1.jpg").read_bytes()
        entries = content.index(b"II*\0" if b"II*\0" in content else b"MM\0*") + 8
        (tmp_path / "1.jpg").write_bytes(content[:entries] + b"\x7f\x7f" + content[entries + 2 :])
        assert read(tmp_path).X.shape == (1, 6, 8)

    def test_more_than_eight_bits(self, tmp_path):
        ramp = np.arange(0, 65536, 1024, dtype=np.uint16).reshape(8, 8)
        Image.fromarray(ramp).save(tmp_path / "ramp.png")
        np.testing.assert_array_equal(read(tmp_path).X[0], ramp >> 8)
        Image.fromarray(ramp.astype(np.float32)).save(tmp_path / "ramp.tiff")
        refused(tmp_path, "mode F: what is white in it isn't known")

    def test_what_is_transparent_is_white(self, tmp_path):
        Image.new("RGBA", (4, 4), (10, 20, 30, 0)).save(tmp_path / "a.png")
        Image.new("RGBA", (4, 4), (10, 20, 30, 255)).save(tmp_path / "b.png")
        assert read(tmp_path).X[:, :, 0, 0].tolist() == [[255, 255, 255], [10, 20, 30]]

    def test_linked_folders(self, tmp_path):
        self.picture(tmp_path / "elsewhere" / "1.png")
        self.picture(tmp_path / "photos" / "cat" / "1.png")
        (tmp_path / "photos" / "dog").symlink_to(tmp_path / "elsewhere")
        (tmp_path / "photos" / "cat" / "loop").symlink_to(tmp_path / "photos" / "cat")
        assert read(tmp_path / "photos").names == ["cat/1.png", "dog/1.png"]

    def test_an_empty_folder(self, tmp_path):
        refused(tmp_path, "has no images")


def test_no_such_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no file or folder"):
        read(tmp_path / "data.csv")


def test_another_kind_of_file(tmp_path):
    (tmp_path / "data.xlsx").touch()
    assert ".parquet" in refused(tmp_path / "data.xlsx", "is of a kind that can't be read")


def test_values_without_a_name_are_not_dropped(tmp_path):
    path = tmp_path / "ragged.csv"
    path.write_text("a,b,y\n1,2,x,4\n5,6,z,8\n")
    with pytest.raises(DataFileError, match="more values than the first line has names"):
        read(path, target="y")


def test_a_delimiter_at_the_end_of_lines_is_no_value(tmp_path):
    path = tmp_path / "closed.csv"
    path.write_text("a,b,y\n1,2,x,\n5,6,z,\n")
    assert read(path, target="y").X.to_numpy().tolist() == [[1, 2], [5, 6]]
