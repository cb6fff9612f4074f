import zipfile

import numpy as np
import pytest

from ccml.datasets._isolet import from_originals, in_order_of_values


def test_every_order_of_the_rows_becomes_the_same(arrays):
    expected = in_order_of_values(arrays)
    assert (np.diff(expected["x_train"][:, 0]) >= 0).all()
    rng = np.random.default_rng(1)
    train, test = rng.permutation(52), rng.permutation(26)
    shuffled = {
        "x_train": np.asfortranarray(arrays["x_train"][train]),
        "y_train": arrays["y_train"][train],
        "x_test": arrays["x_test"][test],
        "y_test": arrays["y_test"][test],
    }
    for key, array in in_order_of_values(shuffled).items():
        np.testing.assert_array_equal(array, expected[key], strict=True)


def test_rows_keep_their_labels(arrays):
    label_of = {
        row.tobytes(): label
        for row, label in zip(arrays["x_train"], arrays["y_train"], strict=True)
    }
    found = in_order_of_values(arrays)
    for row, label in zip(found["x_train"], found["y_train"], strict=True):
        assert label_of[row.tobytes()] == label


def test_a_negative_zero_is_a_zero(arrays):
    arrays["x_train"][:, 3] = -0.0
    assert not np.signbit(in_order_of_values(arrays)["x_train"][:, 3]).any()


@pytest.mark.parametrize(
    ("key", "change"),
    [
        ("x_train", lambda x: x.astype(np.float64)),
        ("x_train", lambda x: x[None]),
        ("y_test", lambda y: y[:-1]),
    ],
)
def test_other_arrays_are_not_sorted(arrays, key, change):
    arrays[key] = change(arrays[key])
    with pytest.raises(ValueError, match="not a table of float32 and its labels"):
        in_order_of_values(arrays)


def test_text_gives_the_nearest_float32(tmp_path, lzw_compress):
    # All the values that four decimals can write in [-1, 1]: -1.0000, -0.9999, ..., 1.0000.
    text = "".join(f"{i / 10_000:.4f}, 0.0000, 26.\n" for i in range(-10_000, 10_001))
    with zipfile.ZipFile(tmp_path / "isolet.zip", "w") as archive:
        archive.writestr("isolet1+2+3+4.data.Z", lzw_compress(text.encode()))
        archive.writestr("isolet5.data.Z", lzw_compress(b"0.5, -0.5, 1.\n"))
    found = from_originals(tmp_path)
    expected = (np.arange(-10_000, 10_001) / 10_000).astype(np.float32)
    np.testing.assert_array_equal(found["x_train"][:, 0], expected, strict=True)
    assert (found["y_train"] == 25).all()
    np.testing.assert_array_equal(found["x_test"], np.float32([[0.5, -0.5]]), strict=True)
    np.testing.assert_array_equal(found["y_test"], np.uint8([0]), strict=True)


def test_the_real_one(isolet):
    assert isolet.X.shape == (7_797, 617)
    assert isolet.X.dtype == np.float32
    assert isolet.X.flags.c_contiguous
    assert isolet.X.min() == -1
    assert isolet.X.max() == 1
    assert isolet.image_shape is None
    assert isolet.official_split
    assert isolet.class_names[5] == "F"
    assert isolet.feature_names[0] == "f1"
    assert isolet.feature_names[-1] == "f617"
    assert len(isolet.train) + len(isolet.validation) == 6_238
    training = np.bincount(isolet.y[:6_238])
    assert training.tolist() == [240] * 5 + [238] + [240] * 20
    testing = np.bincount(isolet.y[isolet.test])
    assert testing.tolist() == [60] * 12 + [59] + [60] * 13
    assert np.bincount(isolet.y[isolet.validation]).tolist() == [48] * 26


def test_the_real_values_have_four_decimals(isolet):
    rounded = np.round(isolet.X.astype(np.float64), 4).astype(np.float32)
    np.testing.assert_array_equal(isolet.X, rounded)


def test_the_real_split_never_changes(isolet):
    assert isolet.train[:5].tolist() == [4938, 2865, 452, 5340, 5666]
    assert isolet.validation[:5].tolist() == [2626, 4852, 4587, 2940, 5466]
    assert isolet.test[:3].tolist() == [6238, 6239, 6240]


def test_the_real_training_rows_are_shuffled(isolet):
    for rows in (isolet.train, isolet.validation):
        share_of_equal_neighbours = (np.diff(isolet.y[rows]) == 0).mean()
        assert share_of_equal_neighbours < 2 / 26


def test_every_group_of_speakers_said_every_letter_twice(isolet):
    speakers = isolet.factors["speakers"]
    np.testing.assert_array_equal(np.bincount(speakers), [0, 1560, 1560, 1560, 1558, 1559])
    letters = np.stack([np.bincount(isolet.y[speakers == group]) for group in range(1, 6)])
    assert (letters >= 58).all()  # 30 speakers, twice; three recordings are lost
    np.testing.assert_array_equal(np.flatnonzero(speakers == 5), isolet.test)
