"""Whatever an id, a label or a filter is made of, it can't change what a query means."""

import re

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ccml.gallery._keys import expression_of, key_of, terms_of

ODD = [
    "", "'",
    '"', "\\", '\\"', "a\0", "\n\u2028", "{x}", "%", "] or 1 == 1 or x in [", "😀", "\ud800",
    '" or key != "', "label_key", "null", "1", "é", "e\u0301",
]  # fmt: skip
texts = st.one_of(st.sampled_from(ODD), st.text(st.characters()))
numbers = st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False))
scalars = st.one_of(texts, numbers, st.booleans(), st.none())
KEYS = r'"[0-9a-f]{32}"(, "[0-9a-f]{32}")*'
CONDITION = rf"(label_key in \[{KEYS}\]|array_contains_any\(terms, \[{KEYS}\]\))"


@given(st.dictionaries(texts, st.one_of(scalars, st.lists(scalars, min_size=1))))
def test_expressions_are_made_of_digests_alone(filter):
    expression = expression_of(filter)
    assert re.fullmatch(rf"({CONDITION}( and {CONDITION})*)?", expression)


@given(st.lists(st.one_of(texts, st.integers()), unique_by=lambda value: (type(value), value)))
def test_different_values_have_different_keys(values):
    assert len({key_of(value) for value in values}) == len(values)


@given(texts, scalars)
def test_a_payload_is_found_by_what_it_has(field, value):
    (term,) = terms_of({field: value, "nested": {"a": 1}})
    assert [term] == terms_of({field: [value, [value]]})
    if field != "label":
        assert term in expression_of({field: value})


@pytest.mark.parametrize("filter", [{"a": {"b": 1}}, {"a": [[1]]}, {"a": []}, {1: "a"}])
def test_filters_that_mean_nothing(filter):
    with pytest.raises(ValueError, match="must give for a field's name"):
        expression_of(filter)


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(texts, min_size=1, max_size=8, unique=True).map(lambda values: [*values, *ODD]))
def test_in_the_database(opened, values):
    """Items whose ids, labels and payloads are odd are found by them, and no others are."""
    values = list(dict.fromkeys(values))
    with opened() as gallery:
        gallery.remove([match.id for match in gallery.search(np.ones((1, 6)), 500)[0]])
        X = np.random.default_rng(0).normal(size=(len(values), 6))
        gallery.add(X, values, ids=values, payload=[{value: value} for value in values])
        assert sorted(gallery.classes.tolist()) == sorted(values)
        assert gallery.classify(X, 1).tolist() == values
        for value in values:
            for filter in ({"label": value}, {value: value}):
                if filter.keys() == {"label"} and value == "label":
                    continue
                (found,) = gallery.search(X[:1], 100, filter=filter)
                assert [(match.id, match.label, match.payload) for match in found] == [
                    (value, value, {value: value})
                ]
        assert gallery.remove(values[:1]) == 1
        assert gallery.count() == len(values) - 1
