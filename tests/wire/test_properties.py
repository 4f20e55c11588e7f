"""Content headers: the fourteen properties there and back, beside pamqp, and what is no header."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import commands, header

from openclust.wire import properties as flags
from openclust.wire.errors import SYNTAX_ERROR, ConnectionError
from openclust.wire.properties import PREAMBLE, Properties, decode_properties, encode_header
from openclust.wire.table import Timestamp
from tests.support.wire import PROPERTY_TEST, plain_texts, properties

NAMES = Properties.__struct_fields__


@PROPERTY_TEST
@given(properties, st.integers(0, 2**64 - 1))
def test_properties_come_back_as_they_went(given_properties: Properties, size: int) -> None:
    payload = encode_header(given_properties, size)
    assert decode_properties(payload) == given_properties
    assert PREAMBLE.unpack_from(payload)[:3] == (60, 0, size)


@pytest.mark.parametrize("name", NAMES)
def test_an_absent_property_is_none_and_an_empty_one_is_not(name: str) -> None:
    empty: Any = {"headers": {}, "delivery_mode": 0, "priority": 0, "timestamp": Timestamp(0)}.get(name, "")
    again = decode_properties(encode_header(Properties(**{name: empty}), 0))
    assert getattr(again, name) == empty
    assert [other for other in NAMES if getattr(again, other) is not None] == [name]


def test_each_property_has_the_flag_of_the_specification() -> None:
    # 0-9-1 4.2.6.1: the first property has the highest bit.
    for at, name in enumerate(NAMES):
        assert getattr(flags, name.upper()) == 1 << (15 - at)


# -- beside pamqp: it takes an empty string for an absent one, delivery modes 1 and 2 only, no cluster_id, and a
# timestamp past 32 bits for one of milliseconds.

pamqp_properties = st.fixed_dictionaries(
    {},
    optional={
        "delivery_mode": st.sampled_from((1, 2)),
        "priority": st.integers(0, 255),
        "timestamp": st.integers(0, 2**32 - 1).map(Timestamp),
        "headers": st.dictionaries(
            plain_texts(40), plain_texts() | st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=3
        ),
        **{
            name: plain_texts(60).filter(bool)
            for name in (
                "content_type",
                "content_encoding",
                "correlation_id",
                "reply_to",
                "expiration",
                "message_id",
                "user_id",
                "app_id",
            )
        },
    },
)


def pamqp_names(values: dict[str, Any]) -> dict[str, Any]:
    moment = values.get("timestamp")
    if moment is None:
        return values
    return {**values, "timestamp": datetime.datetime.fromtimestamp(moment, datetime.UTC)}


@PROPERTY_TEST
@given(pamqp_properties, st.integers(0, 2**63 - 1))
def test_we_read_what_pamqp_writes(values: dict[str, Any], size: int) -> None:
    theirs = header.ContentHeader(0, size, commands.Basic.Properties(**pamqp_names(values)))
    payload = theirs.marshal()
    assert decode_properties(payload) == Properties(**values)
    assert PREAMBLE.unpack_from(payload)[2] == size


@PROPERTY_TEST
@given(pamqp_properties, st.integers(0, 2**63 - 1))
def test_pamqp_reads_what_we_write(values: dict[str, Any], size: int) -> None:
    theirs = header.ContentHeader()
    theirs.unmarshal(encode_header(Properties(**values), size))
    assert theirs.body_size == size
    for name, value in pamqp_names(values).items():
        assert getattr(theirs.properties, name) == value


# -- what is no header


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        (b"", "malformed content header"),
        (b"\0" * 13, "malformed content header"),
        (PREAMBLE.pack(60, 0, 0, 0x0001), "unknown property flags"),
        (PREAMBLE.pack(60, 0, 0, 0x0002), "unknown property flags"),
        (PREAMBLE.pack(60, 0, 0, 0) + b"x", "1 bytes too many"),
        (PREAMBLE.pack(60, 0, 0, flags.MESSAGE_ID), "malformed content header"),
        (PREAMBLE.pack(60, 0, 0, flags.MESSAGE_ID) + b"\x05abc", "message_id passes the end"),
        (PREAMBLE.pack(60, 0, 0, flags.PRIORITY), "malformed content header"),
        (PREAMBLE.pack(60, 0, 0, flags.TIMESTAMP) + b"\0" * 7, "malformed content header"),
        (PREAMBLE.pack(60, 0, 0, flags.HEADERS) + b"\0\0\0\x09", "does not fit"),
    ],
)
def test_a_malformed_header_is_a_syntax_error(payload: bytes, words: str) -> None:
    with pytest.raises(ConnectionError) as caught:
        decode_properties(payload)
    assert caught.value.code == SYNTAX_ERROR
    assert words in caught.value.text


@PROPERTY_TEST
@given(st.integers(0, 0xFFFF), st.binary(max_size=60))
def test_any_bytes_are_properties_or_a_syntax_error(property_flags: int, rest: bytes) -> None:
    for payload in (rest, PREAMBLE.pack(60, 0, 0, property_flags) + rest):
        try:
            found = decode_properties(payload)
        except ConnectionError as error:
            assert error.code == SYNTAX_ERROR
        else:
            assert encode_header(found, 0)


def test_a_property_longer_than_a_short_string_is_our_own_mistake() -> None:
    with pytest.raises(ValueError, match="app_id is longer than 255 bytes"):
        encode_header(Properties(app_id="é" * 128), 0)
