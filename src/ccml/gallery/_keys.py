"""What stands for ids, labels and values of payloads in the database.

Milvus has a language of expressions, and its escapes aren't the same in Milvus and Milvus Lite. So
nothing that a user gives is ever part of an expression: digests stand for it, which are made of
hexadecimal digits alone.
"""

import json
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any

KEY, LABEL, ITEM, TERMS, VECTOR = "key", "label_key", "item", "terms", "vector"  # fields
KEY_LENGTH = 32  # digits, of 128 bits
MOST_TERMS = 4096  # of an array in Milvus
Scalar = str | int | float | bool | None


def text_of(value: Any) -> str:
    r"""Write JSON in one way only, and in ASCII: also what isn't valid in UTF-8.

    Examples
    --------
    >>> text_of({"b": 1, "a": "\ud800"})
    '{"a":"\\ud800","b":1}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def key_of(value: Any) -> str:
    """Return the digest of a value; 1 and "1" have different ones.

    Examples
    --------
    >>> key_of("1") == key_of(1), len(key_of("1"))
    (False, 32)
    """
    return blake2b(text_of(value).encode(), digest_size=KEY_LENGTH // 2).hexdigest()


def terms_of(payload: Any) -> list[str]:
    """Return what a payload can be found by: its fields with a plain value, or a list of them."""
    if not isinstance(payload, Mapping):
        return []
    found = {
        _term(field, value)
        for field, values in payload.items()
        for value in (values if isinstance(values, list | tuple) else [values])
        if isinstance(value, Scalar)
    }
    return sorted(found)


def among(field: str, keys: Iterable[str]) -> str:
    """Write the expression that a field is one of some keys."""
    return f"{field} in [{_listed(keys)}]"


def expression_of(filter: Mapping[str, Any] | None) -> str:
    """Write a filter as an expression: all fields have to match, each by one of its values.

    Examples
    --------
    >>> expression_of({})
    ''
    >>> "'; drop" in expression_of({"label": "'; drop"})
    False
    """
    conditions = []
    for field, wanted in (filter or {}).items():
        values = list(wanted) if isinstance(wanted, list | tuple | set | frozenset) else [wanted]
        values = [value.item() if hasattr(value, "item") else value for value in values]
        are_plain = values and all(isinstance(value, Scalar) for value in values)
        if not isinstance(field, str) or not are_plain:
            raise ValueError(
                f"filter={{{field!r}: {wanted!r}}} must give for a field's name a text, a number, "
                "True, False or None, or a list of some of them."
            )
        if field == "label":
            conditions.append(among(LABEL, map(key_of, values)))
        else:
            terms = _listed(_term(field, value) for value in values)
            conditions.append(f"array_contains_any({TERMS}, [{terms}])")
    return " and ".join(conditions)


def _term(field: str, value: Scalar) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # JSON has one kind of number
    return key_of([field, value])


def _listed(keys: Iterable[str]) -> str:
    return ", ".join(f'"{key}"' for key in keys)
