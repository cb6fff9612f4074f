import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ccml.datasets._split import stratified_split, train_validation_test

labels = st.lists(st.integers(0, 4), min_size=1, max_size=200).map(np.array)


@given(labels, st.floats(0, 1))
def test_every_class_gives_its_share(y, fraction):
    rest, aside = stratified_split(y, fraction)
    assert sorted([*rest, *aside]) == list(range(len(y)))
    for label in range(5):
        n_rows, n_aside = (y == label).sum(), (y[aside] == label).sum()
        assert n_aside == round(fraction * n_rows)


@given(labels)
def test_three_parts_are_every_row_once(y):
    parts = train_validation_test(y)
    assert sorted(np.concatenate(parts)) == list(range(len(y)))
    again = train_validation_test(y.copy())
    assert all(np.array_equal(one, other) for one, other in zip(parts, again, strict=True))


def test_rows_sorted_by_class_come_out_mixed():
    y = np.repeat(np.arange(10), 100)
    for rows in stratified_split(y, 0.2):
        assert (np.diff(y[rows]) == 0).mean() < 0.2
