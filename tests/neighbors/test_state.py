"""An index in a file: what is kept of it, and what isn't taken from one."""

import pickle

import numpy as np
import pytest
from sklearn.datasets import make_blobs

from ccml.neighbors import ClassIndex


class TestState:
    """What is kept of an index is its rows and labels; the rest is made again."""

    def test_of_an_index_that_rows_have_come_to_and_gone_from(self):
        X, y = make_blobs(200, 5, centers=6, random_state=0)
        index = ClassIndex(X[:100], y[:100])
        index.add(X[100:], y[100:])
        index.remove(np.arange(0, 200, 3))
        again = pickle.loads(pickle.dumps(index))
        np.testing.assert_array_equal(again.labels, index.labels)
        for found, expected in zip(again.search(X, 4), index.search(X, 4), strict=True):
            np.testing.assert_array_equal(found, expected)

    def test_only_rows_and_labels_are_kept(self):
        X, y = make_blobs(1000, 5, random_state=0)
        assert len(pickle.dumps(ClassIndex(X, y))) < 1.1 * (X.nbytes + y.nbytes)

    @pytest.mark.parametrize(
        ("rows", "message"),
        [
            (np.zeros((0, 3)), "at least one row"),
            (np.full((4, 3), np.nan), "NaN"),
            (np.zeros((3, 3)), "as many labels"),
        ],
    )
    def test_a_state_from_a_file_is_checked(self, rows, message):
        index = ClassIndex.__new__(ClassIndex)
        with pytest.raises(ValueError, match=message):
            index.__setstate__({"rows": rows, "labels": np.arange(4)})

    def test_another_order_of_bytes(self):
        X, y = make_blobs(60, 3, random_state=0)
        index = ClassIndex.__new__(ClassIndex)
        index.__setstate__({"rows": X.astype(">f8"), "labels": y})
        expected = ClassIndex(X, y).search(X, 3).indices
        np.testing.assert_array_equal(index.search(X, 3).indices, expected)
