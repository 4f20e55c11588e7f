"""Field tables: every value there and back, pamqp's reading of them, and what is no table."""

from __future__ import annotations

import datetime
import math
import struct
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import decode, encode

from openclust.wire.errors import SYNTAX_ERROR, ConnectionError
from openclust.wire.table import (
    DEPTH_MAX,
    Table,
    Timestamp,
    Value,
    decode_field,
    decode_table,
    encode_table,
    encode_value,
    join_array,
    join_table,
    split_array,
    split_table,
)
from tests.support.wire import PROPERTY_TEST, plain_texts, tables


def table_bytes(content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + content


def one_field(value: bytes) -> bytes:
    return table_bytes(b"\x01k" + value)


def decode_whole(data: bytes) -> Table:
    table, end = decode_table(data, 0)
    assert end == len(data)
    return table


def types_of(value: Value) -> Any:
    """The types all the way down: 1 equals True and Timestamp(1), and on the wire they differ."""
    if isinstance(value, dict):
        return {name: types_of(each) for name, each in value.items()}
    if isinstance(value, list):
        return [types_of(each) for each in value]
    return type(value)


@PROPERTY_TEST
@given(tables)
def test_a_table_comes_back_as_it_went(table: Table) -> None:
    again = decode_whole(encode_table(table))
    assert again == table
    assert types_of(again) == types_of(table)
    assert list(again) == list(table), "in the order it was written"


@PROPERTY_TEST
@given(tables)
def test_bytes_that_were_decoded_encode_to_the_same_bytes(table: Table) -> None:
    data = encode_table(table)
    assert encode_table(decode_whole(data)) == data


@PROPERTY_TEST
@given(tables)
def test_a_table_that_is_split_and_joined_has_the_same_bytes(table: Table) -> None:
    data = encode_table(table)
    fields = split_table(data)
    assert join_table(fields) == data
    assert {name: decode_field(value) for name, value in fields.items()} == table
    for value in fields.values():
        if value[:1] == b"A":
            assert join_array(split_array(value)) == value
        else:
            assert split_array(value) == []


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"t\x00", False),
        (b"t\x01", True),
        (b"t\x02", True),
        (b"b\xff", -1),
        (b"B\xff", 255),
        (b"s\xff\xfe", -2),
        (b"u\xff\xfe", 65_534),
        (b"I\xff\xff\xff\xff", -1),
        (b"i\xff\xff\xff\xff", 2**32 - 1),
        (b"l" + b"\xff" * 8, -1),
        (b"L" + b"\xff" * 8, -1),
        (b"f" + struct.pack(">f", 0.5), 0.5),
        (b"d" + struct.pack(">d", 0.1), 0.1),
        (b"D\x02\x00\x00\x01\x3a", Decimal("3.14")),
        (b"S\x00\x00\x00\x02\xc3\xa9", "é"),
        (b"S\x00\x00\x00\x01\xff", "\udcff"),
        (b"x\x00\x00\x00\x01\xff", b"\xff"),
        (b"T" + struct.pack(">Q", 2**64 - 1), Timestamp(2**64 - 1)),
        (b"V", None),
        (b"A\x00\x00\x00\x03t\x01V", [True, None]),
        (b"A\x00\x00\x00\x00", []),
        (b"F\x00\x00\x00\x03\x01aV", {"a": None}),
        (b"F\x00\x00\x00\x00", {}),
    ],
)
def test_every_type_letter_is_read_as_rabbitmq_reads_it(data: bytes, value: Value) -> None:
    table = decode_whole(one_field(data))
    assert table == {"k": value}
    assert types_of(table) == {"k": types_of(value)}


def test_not_a_number_survives() -> None:
    number = decode_whole(encode_table({"k": math.nan}))["k"]
    assert isinstance(number, float) and math.isnan(number)


def test_a_table_starts_where_it_is_said_to() -> None:
    data = b"before" + encode_table({"a": 1}) + b"after"
    assert decode_table(data, 6) == ({"a": 1}, len(data) - 5)


def test_of_a_name_given_twice_the_last_counts() -> None:
    assert decode_whole(table_bytes(b"\x01kt\x00\x01kt\x01")) == {"k": True}


# -- beside pamqp

# What pamqp can say. It writes any float as one of 32 bits, and any time as a datetime; byte arrays must be bytearrays;
# of decimals it writes signed digits but reads unsigned ones; names past 128 bytes are cut, and sorted.
_pamqp_scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(width=32, allow_nan=False),
    plain_texts(),
    st.binary(max_size=20).map(bytearray),
    st.builds(lambda digits, scale: Decimal(digits).scaleb(-scale), st.integers(0, 2**31 - 1), st.integers(0, 20)),
    st.datetimes(datetime.datetime(1970, 1, 1), datetime.datetime(2100, 1, 1)).map(
        lambda moment: moment.replace(microsecond=0, tzinfo=datetime.UTC)
    ),
)
_pamqp_values = st.recursive(
    _pamqp_scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(plain_texts(80), inner, max_size=3),
    max_leaves=8,
)
pamqp_tables = st.dictionaries(plain_texts(80), _pamqp_values, max_size=4)


def ours(value: Any) -> Any:
    """A value of pamqp's as ours."""
    if isinstance(value, dict):
        return {name: ours(each) for name, each in value.items()}
    if isinstance(value, list):
        return [ours(each) for each in value]
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, datetime.datetime):
        return Timestamp(int(value.timestamp()))
    return value


@PROPERTY_TEST
@given(pamqp_tables)
def test_we_read_what_pamqp_writes(table: Any) -> None:
    assert decode_whole(encode.field_table(table)) == ours(table)


@PROPERTY_TEST
@given(pamqp_tables)
def test_pamqp_reads_what_we_write(table: Any) -> None:
    data = encode_table(ours(table))
    consumed, again = decode.field_table(data)
    assert consumed == len(data)
    assert ours(again) == ours(table)


# -- what is no table


def refusal(data: bytes) -> ConnectionError:
    with pytest.raises(ConnectionError) as caught:
        decode_table(data, 0)
    assert caught.value.code == SYNTAX_ERROR
    return caught.value


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "malformed"),
        (b"\0\0\0", "malformed"),
        (b"\0\0\0\x01", "does not fit"),
        (b"\xff\xff\xff\xff", "does not fit"),
        (table_bytes(b"\x05ab"), "field name"),
        (table_bytes(b"\x01k"), "field name"),
        (one_field(b"S\x00\x00\x00\x02a"), "field value"),
        (one_field(b"x\xff\xff\xff\xff"), "field value"),
        (one_field(b"I\x00"), "malformed"),
        (one_field(b"I\x00") + b"more of the frame", "field value"),
        (one_field(b"D\x00"), "malformed"),
        (one_field(b"F\x00\x00\x00\x02\x01"), "field value"),
        (one_field(b"A\x00\x00\x00\x01S"), "malformed"),
        (one_field(b"A\x00\x00\x00\x01I") + b"more of the frame", "field value"),
        (one_field(b"?\x00\x00\x00\x00"), "unknown field type '?'"),
        (one_field(b"\xff\x00\x00\x00\x00"), "unknown field type"),
    ],
)
def test_a_malformed_table_is_a_syntax_error(data: bytes, words: str) -> None:
    assert words in refusal(data).text


@PROPERTY_TEST
@given(st.binary(max_size=80))
def test_any_bytes_are_a_table_or_a_syntax_error(content: bytes) -> None:
    for data in (content, table_bytes(content)):
        try:
            table, end = decode_table(data, 0)
        except ConnectionError as error:
            assert error.code == SYNTAX_ERROR
        else:
            assert end <= len(data)
            assert encode_table(table), "what was read can be written"


@PROPERTY_TEST
@given(tables, st.data())
def test_a_damaged_table_is_a_table_or_a_syntax_error(table: Table, data: st.DataObject) -> None:
    whole = bytearray(encode_table(table))
    whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    try:
        decode_table(bytes(whole), 0)
    except ConnectionError as error:
        assert error.code == SYNTAX_ERROR


def nested(depth: int, letter: bytes) -> bytes:
    data = b"V"
    for _ in range(depth):
        data = letter + table_bytes(b"\x01k" + data if letter == b"F" else data)
    return one_field(data)


@pytest.mark.parametrize("letter", [b"F", b"A"])
def test_nesting_ends_at_a_depth(letter: bytes) -> None:
    assert decode_whole(nested(DEPTH_MAX, letter))
    assert "nests deeper" in refusal(nested(DEPTH_MAX + 1, letter)).text


@pytest.mark.parametrize("letter", [b"F", b"A"])
def test_as_much_nesting_as_a_frame_holds_is_refused_like_a_little(letter: bytes) -> None:
    assert "nests deeper" in refusal(nested(20_000, letter)).text


# -- what AMQP cannot say


@pytest.mark.parametrize(
    "value",
    [2**63, -(2**63) - 1, Decimal(-1), Decimal(2**32), Decimal(1).scaleb(-256), object(), {"n" * 256: 1}, [2**64]],
)
def test_what_amqp_cannot_say_is_a_value_error(value: Any) -> None:
    with pytest.raises(ValueError, match=r"fit|cannot be|longer"):
        encode_value(value)


def test_numbers_take_the_smaller_of_two_sizes() -> None:
    assert encode_value(2**31 - 1) == b"I\x7f\xff\xff\xff"
    assert encode_value(2**31) == b"l\x00\x00\x00\x00\x80\x00\x00\x00"
    assert encode_value(-(2**31)) == b"I\x80\x00\x00\x00"
