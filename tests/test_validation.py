"""What the checks let pass, and how they refuse."""

import numpy as np
import pytest

from ccml._validation import check_count, check_number, check_option


@pytest.mark.parametrize("value", [1, np.int64(7), 10**9])
def test_counts(value):
    assert check_count("Owner", "n", value) == value


@pytest.mark.parametrize("value", [0, -1, 1.0, 2.5, True, None, "3", np.nan])
def test_not_counts(value):
    with pytest.raises(ValueError, match=r"Owner\(n=.*whole number of at least 1"):
        check_count("Owner", "n", value)


def test_bounds_of_numbers():
    assert check_number("Owner", "x", 0, minimum=0) == 0.0
    assert check_number("Owner", "x", np.float32(0.5), above=0, below=1) == 0.5
    for value in (0, -1, 1, np.nan, np.inf, None, "0.5", True):
        with pytest.raises(ValueError, match=r"Owner\(x=.*above 0 and below 1"):
            check_number("Owner", "x", value, above=0, below=1)
    with pytest.raises(ValueError, match="at least 0 and finite"):
        check_number("Owner", "x", np.inf, minimum=0)


def test_options():
    assert check_option("Owner", "rule", "sum", ["sum", "gaussian"]) == "sum"
    with pytest.raises(ValueError, match=r"did you mean 'gaussian'\? The options are 'sum', 'gau"):
        check_option("Owner", "rule", "gausian", ["sum", "gaussian"])
    with pytest.raises(ValueError, match=r"Owner\(rule=3\) is not an option. The options"):
        check_option("Owner", "rule", 3, ["sum", "gaussian"])
