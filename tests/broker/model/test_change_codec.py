"""Changes as bytes: every one there and back, and what is none."""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclust.broker.model.access import Permission, User
from openclust.broker.model.change_codec import decode_change, encode_canonical, encode_change
from openclust.broker.model.changes import Bind, Change, DeclareQueue, PutPolicy, PutUser
from openclust.broker.model.policy import Policy
from openclust.wire.table import DEPTH_MAX, Table, Timestamp, Value, decode_table, encode_table
from tests.support.changes import any_change
from tests.support.wire import PROPERTY_TEST, tables, values


def types_of(value: Any) -> Any:
    """The types all the way down: 1 equals True and Timestamp(1), and they are not the same."""
    if isinstance(value, dict):
        return {name: types_of(each) for name, each in value.items()}
    if isinstance(value, list):
        return [types_of(each) for each in value]
    return type(value)


def with_(table: Table, **fields: Value) -> bytes:
    return encode_table({**table, **fields})


@PROPERTY_TEST
@given(any_change)
def test_a_change_comes_back_as_it_went(change: Change) -> None:
    again = decode_change(encode_change(change))
    assert type(again) is type(change)
    assert again == change
    for name in change.__struct_fields__:
        assert types_of(getattr(again, name)) == types_of(getattr(change, name)), name


def test_every_kind_of_change_is_tried_above() -> None:
    assert len(get_args(Change)) == 23, "then tests.support.changes must know the new kinds too"


@PROPERTY_TEST
@given(st.dictionaries(st.text(max_size=3), values, max_size=5))
def test_tables_in_another_order_are_canonically_the_same_bytes(arguments: Table) -> None:
    def bind(table: Table) -> Bind:
        return Bind(vhost="/", source="s", destination="d", arguments={"nested": [table], **table})

    turned = dict(reversed(arguments.items()))
    assert encode_canonical(bind(turned)) == encode_canonical(bind(arguments))
    assert decode_change(encode_canonical(bind(turned))) == bind(arguments)


def test_the_order_of_arguments_comes_back() -> None:
    # Bindings whose nested tables differ in order are two: the way through the log must not make them one.
    change = Bind(vhost="/", source="s", destination="d", arguments={"b": {"d": 1, "c": 2}, "a": 3})
    again = decode_change(encode_change(change))
    assert isinstance(again, Bind)
    assert str(again.arguments) == str(change.arguments)


def test_permissions_in_another_order_are_the_same_bytes() -> None:
    one, two = Permission(read=".*"), Permission(write=".*")
    first = User(name="u", permissions={"a": one, "b": two})
    second = User(name="u", permissions={"b": two, "a": one})
    assert encode_change(PutUser(user=first)) == encode_change(PutUser(user=second))


@pytest.mark.parametrize("value", [True, 1, 1.0, Timestamp(1), Decimal(1), "1", b"1"])
def test_values_that_python_calls_equal_stay_apart(value: Value) -> None:
    change = DeclareQueue(vhost="/", name="q", arguments={"x-unknown": value})
    again = decode_change(encode_change(change))
    assert isinstance(again, DeclareQueue)
    assert type(again.arguments["x-unknown"]) is type(value)


def test_arguments_may_nest_as_deep_as_a_client_may_say_them() -> None:
    arguments: Table = {}
    for _ in range(DEPTH_MAX):
        arguments = {"deeper": arguments}
    assert decode_table(encode_table(arguments), 0)[0] == arguments, "a client can say them"
    change = DeclareQueue(vhost="/", name="q", arguments=arguments)
    assert decode_change(encode_change(change)) == change


def test_a_policy_may_hold_what_definitions_files_hold() -> None:
    definition = {"ha-mode": "all", "ha-params": ["a", {"b": None}], "max-length": 2**40, "ratio": 0.5}
    policy = Policy(vhost="/", name="p", pattern="^a", definition=definition, apply_to="queues", priority=-1)
    change = PutPolicy(vhost="/", policy=policy, operator=True)
    assert decode_change(encode_change(change)) == change


@pytest.mark.parametrize("value", [2**63, "\ud800", {"x" * 256: 1}])
def test_what_no_table_can_say_is_refused_when_it_is_written(value: Value) -> None:
    with pytest.raises(ValueError):
        encode_change(DeclareQueue(vhost="/", name="q", arguments={"x-unknown": value}))


QUEUE: Table = {"change": "DeclareQueue", "vhost": "/", "name": "q"}
USER: Table = {"name": "u", "password_hash": "", "type": "normal", "tags": [], "permissions": []}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0\0\0\0",
        b"\0\0\0\x09short",
        encode_table(QUEUE) + b"\0",
        encode_table({"change": "DropEverything", "vhost": "/"}),
        encode_table({"change": 7, "vhost": "/"}),
        encode_table({"change": "DeclareQueue", "vhost": "/"}),
        with_(QUEUE, name=7),
        with_(QUEUE, durable=1),
        with_(QUEUE, arguments={}),
        with_(QUEUE, arguments=b"\0\0\0\x01"),
        with_(QUEUE, arguments=b"\0\0\0\0\0"),
        with_(QUEUE, colour="red"),
        encode_table({"change": "PutUser", "user": "u"}),
        encode_table({"change": "PutUser", "user": {**USER, "type": "king"}}),
        encode_table({"change": "PutUser", "user": {**USER, "permissions": [{"read": ".*"}]}}),
        encode_table({"change": "PutUser", "user": {**USER, "permissions": {"/": {}}}}),
        encode_table({"change": "PutPolicy", "vhost": "/", "policy": {"name": "p"}}),
    ],
)
def test_what_is_no_change_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"^no change"):
        decode_change(data)


@PROPERTY_TEST
@given(any_change, st.binary(min_size=1, max_size=3), st.integers(min_value=0))
def test_broken_bytes_are_a_change_or_a_value_error(change: Change, patch: bytes, at: int) -> None:
    data = bytearray(encode_change(change))
    at %= len(data)
    data[at : at + len(patch)] = patch
    with suppress(ValueError):
        decode_change(bytes(data))


@PROPERTY_TEST
@given(st.sampled_from(sorted(kind.__name__ for kind in get_args(Change))), tables)
def test_any_table_is_a_change_or_a_value_error(kind: str, fields: Table) -> None:
    names = ("vhost", "name", "user", "policy", "permission", "arguments")
    renamed = dict(zip(names, fields.values(), strict=False))
    with suppress(ValueError):
        decode_change(encode_table({**fields, **renamed, "change": kind}))
