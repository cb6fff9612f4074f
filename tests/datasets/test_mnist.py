import numpy as np
import pytest

from ccml.datasets._mnist import read_idx


def test_reads_bytes_of_any_shape():
    three = bytes([0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3, 1, 2, 3, 4, 5, 255])
    np.testing.assert_array_equal(
        read_idx(three), np.array([[[1, 2, 3]], [[4, 5, 255]]], dtype=np.uint8), strict=True
    )
    # 258 = 0x0102: the highest byte of a dimension comes first.
    one = bytes([0, 0, 8, 1, 0, 0, 1, 2]) + bytes(258)
    assert read_idx(one).shape == (258,)
    assert read_idx(bytes([0, 0, 8, 2, 0, 0, 0, 0, 0, 0, 0, 5])).shape == (0, 5)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "starts with 00 00 08"),
        (bytes([0, 0, 8]), "starts with 00 00 08"),
        (bytes([1, 0, 8, 1, 0, 0, 0, 1, 7]), "starts with 00 00 08, not 01 00 08"),
        (bytes([0, 0, 13, 1, 0, 0, 0, 1, 7, 7, 7, 7]), "not 00 00 0d"),
        (bytes([0, 0, 8, 2, 0, 0, 0, 1]), "of 2 dimensions ends within its header"),
        (bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 7]), r"shape \(3,\) has 2 values, not 3"),
        (bytes([0, 0, 8, 1, 0, 0, 0, 1, 7, 7]), r"shape \(1,\) has 2 values, not 1"),
        (bytes([0, 0, 8, 3]) + b"\xff" * 12, "has 0 values"),  # no wrap-around of 2**96
    ],
)
def test_what_is_no_such_file_is_refused(content, message):
    with pytest.raises(ValueError, match=message):
        read_idx(content)


def test_the_real_one(mnist):
    assert mnist.X.shape == (70_000, 784)
    assert mnist.X.dtype == np.uint8
    assert mnist.image_shape == (28, 28)
    assert mnist.feature_names[29] == "pixel_1_1"
    assert mnist.official_split
    np.testing.assert_array_equal(mnist.train, np.arange(50_000))
    np.testing.assert_array_equal(mnist.validation, np.arange(50_000, 60_000))
    np.testing.assert_array_equal(mnist.test, np.arange(60_000, 70_000))
    assert mnist.y[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
    assert mnist.y[mnist.test[:10]].tolist() == [7, 2, 1, 0, 4, 1, 4, 9, 5, 9]
    counts = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert np.bincount(mnist.y[:60_000]).tolist() == counts
    counts = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert np.bincount(mnist.y[60_000:]).tolist() == counts
    training = mnist.X[:60_000]
    assert training.mean() / 255 == pytest.approx(0.1307, abs=5e-5)
    assert training.std(dtype=np.float32) / 255 == pytest.approx(0.3081, abs=5e-5)
