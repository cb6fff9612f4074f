"""Items, and the rows of the database that they are."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ccml.gallery._keys import (
    ITEM,
    KEY,
    LABEL,
    MOST_TERMS,
    TERMS,
    VECTOR,
    key_of,
    terms_of,
    text_of,
)
from ccml.gallery._store import MOST_BYTES, Row


class Item(NamedTuple):
    """What is kept beside a vector."""

    id: str | int
    label: str | int
    payload: Any = None

    @classmethod
    def of(cls, text: str) -> Self:
        """Read what `row_of` has written."""
        return cls(**json.loads(text))


def row_of(item: Item, vector: NDArray[np.float32]) -> Row:
    """Make a row of the database."""
    text, terms = text_of(item._asdict()), terms_of(item.payload)
    if len(text) > MOST_BYTES or len(terms) > MOST_TERMS:
        raise ValueError(
            f"Gallery can't keep the item {item.id!r}: as JSON its id, label and payload are "
            f"{len(text):,} characters and {len(terms):,} values. Milvus takes {MOST_BYTES:,} and "
            f"{MOST_TERMS:,}; keep large things elsewhere, and their names here."
        )
    return {
        KEY: key_of(item.id), LABEL: key_of(item.label), ITEM: text, TERMS: terms, VECTOR: vector
    }  # fmt: skip


def vectors_of(rows: Sequence[Row]) -> NDArray[np.float32]:
    """Collect the vectors of rows of the database."""
    return np.array([row[VECTOR] for row in rows], dtype=np.float32)


def checked_id(value: Any) -> str | int:
    """Return an id, if it is one."""
    return _text_or_int("ids", value)


def checked_label(value: Any) -> str | int:
    """Return a label, if it is one."""
    return _text_or_int("labels", value)


def checked_payload(value: Any) -> Any:
    """Return a payload as JSON gives it back."""
    try:
        return json.loads(text_of(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(
            f"Gallery can't keep the payload {str(value)[:99]!r} ({error}). Use what JSON can hold."
        ) from None


def _text_or_int(what: str, value: Any) -> str | int:
    value = value.item() if isinstance(value, np.generic) else value
    if not isinstance(value, str | int):
        raise ValueError(f"Gallery needs {what} that are text or whole numbers; got {value!r}.")
    return value


def plain(values: Iterable[Any]) -> list[Any]:
    """List values without numpy's types, which would make texts of numbers beside texts."""
    return values.tolist() if hasattr(values, "tolist") else list(values)


def as_array(labels: list[Any]) -> NDArray[Any]:
    """Make an array of labels, of their own type if they have one in common."""
    array = np.array(labels) if len({type(label) for label in labels}) == 1 else None
    if array is not None and array.tolist() == labels:  # NumPy drops the ends of some texts
        return array
    array = np.empty(len(labels), dtype=object)
    array[:] = labels
    return array


def made_ids(Z: NDArray[np.float32], labels: list[Any], payloads: list[Any]) -> list[str | int]:
    """Make an id from each item itself, and its number among equal ones."""
    copies: Counter[str] = Counter()
    ids: list[str | int] = []
    for z, label, payload in zip(Z, labels, payloads, strict=True):
        content = key_of([z.astype("<f4").tobytes().hex(), label, payload])
        ids.append(key_of([content, copies[content]]))
        copies[content] += 1
    return ids


def check_distinct(ids: list[str | int]) -> None:
    twice = [i for i, count in Counter(map(key_of, ids)).items() if count > 1]
    if twice:
        name = next(i for i in ids if key_of(i) == twice[0])
        raise ValueError(f"Gallery got the id {name!r} more than once. Ids have to be distinct.")


def check_lengths(n: int, **values: Sequence[Any] | NDArray[Any]) -> None:
    for name, given in values.items():
        if len(given) != n:
            raise ValueError(f"Gallery got {n} items, but {name} of length {len(given)}.")
