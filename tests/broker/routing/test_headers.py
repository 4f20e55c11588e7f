"""What a headers binding matches; the table of cases was compared with RabbitMQ 3.10."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclust.broker.routing.headers import HeadersMatcher
from openclust.wire.table import Timestamp


@pytest.mark.parametrize(
    ("arguments", "headers", "expected"),
    [
        ({}, {"a": 1}, True),
        ({}, None, True),
        ({"x-match": "all"}, {}, True),
        ({"x-match": "any"}, {"a": 1}, False),
        ({"x-match": "any"}, None, False),
        ({"a": None}, {"a": 1}, True),
        ({"a": None}, {"a": None}, True),
        ({"a": None}, {}, False),
        ({"a": 1}, {"a": None}, False),
        ({"a": 1}, {"a": True}, False),
        ({"a": True}, {"a": 1}, False),
        ({"a": True}, {"a": True}, True),
        ({"a": 1}, {"a": 1.0}, False),
        ({"a": 1.0}, {"a": 1.0}, True),
        ({"a": 2**33}, {"a": 2**33}, True),
        ({"a": 1}, {"a": "1"}, False),
        ({"a": "1"}, {"a": "1"}, True),
        ({"a": b"1"}, {"a": "1"}, True),
        ({"a": "\udcff"}, {"a": b"\xff"}, True),
        ({"a": 1}, {"a": Decimal(1)}, False),
        ({"a": Decimal("1.5")}, {"a": Decimal("1.5")}, True),
        ({"a": [1, 2]}, {"a": [1, 2]}, True),
        ({"a": [1]}, {"a": [True]}, False),
        ({"a": {"k": 1}}, {"a": {"k": 1}}, True),
        ({"a": {"k": 1}}, {"a": {"k": True}}, False),
        ({"a": Timestamp(5)}, {"a": Timestamp(5)}, True),
        ({"a": Timestamp(5)}, {"a": 5}, True),
        ({"a": 5}, {"a": Timestamp(5)}, True),
        ({"x-a": 5}, {}, True),
        ({"x-match": "any", "x-a": 5}, {"x-a": 5}, False),
        ({"x-match": "all-with-x", "x-a": 5}, {}, False),
        ({"x-match": "all-with-x", "x-a": 5}, {"x-a": 5}, True),
        ({"x-match": "any-with-x", "x-a": 5}, {"x-a": 5}, True),
        ({"x-match": "any-with-x", "x-a": 5}, {}, False),
        ({"x-match": "all-with-x"}, {}, True),
        ({"x-match": "any-with-x"}, {}, False),
        ({"x-match": "any", "a": 1, "b": 2}, {"b": 2}, True),
        ({"x-match": "any", "a": 1, "b": 2}, {"b": 3}, False),
        ({"a": 1, "b": 2}, {"a": 1, "b": 2, "c": 3}, True),
        ({"a": 1, "b": 2}, {"a": 1}, False),
    ],
)
def test_a_binding_matches_as_it_does_in_rabbitmq(
    arguments: dict[str, Any], headers: dict[str, Any] | None, expected: bool
) -> None:
    assert HeadersMatcher(arguments).matches(headers) is expected


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("foo", "Invalid x-match field value 'foo'; expected all, any, all-with-x, any-with-x"),
        (1, "Invalid x-match field type signedint (value 1); expected longstr"),
        (None, "Invalid x-match field type void (value none); expected longstr"),
        (True, "Invalid x-match field type bool (value true); expected longstr"),
    ],
)
def test_an_unknown_x_match_is_refused_with_the_words_that_are_known(value: object, text: str) -> None:
    with pytest.raises(ValueError) as refused:
        HeadersMatcher({"x-match": value})
    assert str(refused.value) == text


TABLES = st.dictionaries(st.sampled_from(["a", "b", "c", "x-d"]), st.sampled_from([0, 1, True, False, 1.0, "1", None]))


@given(binding=TABLES, headers=TABLES, mode=st.sampled_from(["all", "any", "all-with-x", "any-with-x"]))
def test_all_and_any_are_what_their_names_say(binding: dict[str, Any], headers: dict[str, Any], mode: str) -> None:
    hits = [
        name in headers and (value is None or (type(value), value) == (type(headers[name]), headers[name]))
        for name, value in binding.items()
        if mode.endswith("-with-x") or not name.startswith("x-")
    ]
    expected = any(hits) if mode.startswith("any") else all(hits)
    assert HeadersMatcher({**binding, "x-match": mode}).matches(headers) is expected
