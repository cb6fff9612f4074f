"""Checks of what a user passes, and how an error reads.

Every message names the parameter, the value and the way out.
"""

from collections.abc import Collection, Iterable
from difflib import get_close_matches
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray


def check_option(owner: str, name: str, value: Any, options: Collection[str]) -> str:
    """Return ``value`` if it is one of ``options``; else say which was probably meant.

    Examples
    --------
    >>> check_option("CCML", "loss", "log-likelyhood", ["expected-accuracy", "log-likelihood"])
    Traceback (most recent call last):
        ...
    ValueError: CCML(loss='log-likelyhood') is not an option; did you mean 'log-likelihood'? The
    options are 'expected-accuracy', 'log-likelihood'.
    """
    if isinstance(value, str) and value in options:
        return value
    raise ValueError(
        f"{owner}({name}={value!r}) is not an option{did_you_mean(value, options)} "
        f"The options are {', '.join(map(repr, options))}."
    )


def did_you_mean(value: Any, options: Iterable[str]) -> str:
    """End a sentence with the nearest of ``options``, if one is near: "; did you mean 'x'?"."""
    known = {option.casefold(): option for option in options}  # nothing is nearer than its capital
    close = get_close_matches(str(value).casefold(), known, n=1)
    return f"; did you mean {known[close[0]]!r}?" if close else "."


def reason(error: BaseException) -> str:
    """Say on one line why something failed, without what a damaged file would do to a terminal.

    Examples
    --------
    >>> reason(ValueError("line 3 has too many values")), reason(KeyError("rows"))
    ('line 3 has too many values', "KeyError: 'rows'")
    """
    text, kind = str(error), type(error).__name__
    says_it = isinstance(error, ValueError | OSError) and text
    return one_line(text if says_it else f"{kind}: {text}" if text else kind)


def one_line(text: str) -> str:
    r"""Shorten a text, and leave out what would act on a terminal.

    Examples
    --------
    >>> one_line("two\nlines\x1b[2J")
    'two lines[2J'
    """
    return "".join(filter(str.isprintable, " ".join(text.split())))[:300]


def listed(names: Iterable[Any], most: int = 12) -> str:
    """Name the first ones.

    Examples
    --------
    >>> listed(["a", "b", "c"], 2)
    'a, b, and 1 more'
    """
    shown = [one_line(str(name)) for name in names]
    more = [f"and {len(shown) - most} more"] if len(shown) > most else []
    return ", ".join([*shown[:most], *more])


def check_count(owner: str, name: str, value: Any, *, minimum: int = 1) -> int:
    """Return ``value`` as an ``int`` of at least ``minimum``."""
    if _is_number(value, Integral) and value >= minimum:
        return int(value)
    raise ValueError(f"{owner}({name}={value!r}) must be a whole number of at least {minimum}.")


def check_number(
    owner: str, name: str, value: Any, *, above: float | None = None, minimum: float | None = None,
    below: float = float("inf"), maximum: float | None = None,
) -> float:  # fmt: skip
    """Return ``value`` as a ``float`` that is > ``above`` (or >= ``minimum``) and < ``below``.

    With ``maximum`` it may be at most that, instead of below something.
    """
    low = above if above is not None else minimum
    if _is_number(value, Real):
        number = float(value)
        high_enough = low is None or number > low or (above is None and number == low)
        if high_enough and (number < below if maximum is None else number <= maximum):
            return number
    bounds = []
    if low is not None:
        bounds.append(f"above {low:g}" if above is not None else f"at least {low:g}")
    if maximum is not None:
        bounds.append(f"at most {maximum:g}")
    else:
        bounds.append("finite" if below == float("inf") else f"below {below:g}")
    raise ValueError(f"{owner}({name}={value!r}) must be a number, {' and '.join(bounds)}.")


def plain_labels(y: NDArray[Any]) -> NDArray[Any]:
    """Give numbers or booleans that come in an object array their own type.

    Examples
    --------
    >>> plain_labels(np.array([3, 1], dtype=object))
    array([3, 1])
    """
    if y.dtype != object:
        return y
    plain = np.array(y.tolist())
    return plain if plain.dtype.kind in "biuf" else y


def check_same_kind_of_label(owner: str, new: NDArray[Any], known: NDArray[Any]) -> None:
    """Refuse to compare or join text with numbers: numpy would, and call 1 and "1" different."""
    if (new.dtype.kind in "OUS") != (known.dtype.kind in "OUS"):
        raise ValueError(
            f"{owner} got labels of type {new.dtype}; those it knows are of type {known.dtype}. "
            "Use one type of label."
        )


def _is_number(value: Any, kind: type) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)
