"""Methods: there and back, beside pamqp both ways, and what is no method."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import commands
from pamqp import frame as pamqp_frame

from openclust.wire.codec import decode_method, encode_method, method_frame, method_id, name_of
from openclust.wire.errors import COMMAND_INVALID, FRAME_ERROR, SYNTAX_ERROR, ConnectionError
from openclust.wire.methods import (
    AccessRequest,
    AccessRequestOk,
    BasicNack,
    BasicPublish,
    ChannelOpenOk,
    ConnectionRedirect,
    ConnectionStartOk,
    ExchangeDeclare,
    ExchangeUnbindOk,
    Method,
    QueueDeclare,
)
from tests.support.wire import METHODS, PROPERTY_TEST, SMALL_PROPERTY_TEST, any_method, instances, kinds_of, plain_texts

BY_ID: dict[int, type[Any]] = commands.INDEX_MAPPING
NOT_IN_PAMQP = {AccessRequest, AccessRequestOk, ConnectionRedirect}
"""0-8's access class and its redirect, which 0-9-1 dropped."""


@PROPERTY_TEST
@given(any_method)
def test_a_method_comes_back_as_it_went(method: Method) -> None:
    assert decode_method(encode_method(method)) == method


@pytest.mark.parametrize("kind", METHODS, ids=name_of)
@given(st.data())
@SMALL_PROPERTY_TEST
def test_every_method_comes_back_as_it_went(kind: type[Method], data: st.DataObject) -> None:
    method = data.draw(instances(kind))
    again = decode_method(encode_method(method))
    assert again == method and type(again) is kind


@pytest.mark.parametrize("kind", METHODS, ids=name_of)
def test_every_method_has_the_number_and_arguments_of_pamqp(kind: type[Method]) -> None:
    if kind in NOT_IN_PAMQP:
        return
    theirs = BY_ID[kind.ID[0] << 16 | kind.ID[1]]
    assert name_of(kind).replace("-", "") == theirs.name.lower().replace("-", "")
    assert [theirs.amqp_type(name) for name in theirs.attributes()] == [
        {"fieldtable": "table"}.get(kind.lower(), kind.lower()) for kind in kinds_of(kind).values()
    ]


def test_no_method_of_pamqp_is_missing() -> None:
    ours = {kind.ID[0] << 16 | kind.ID[1] for kind in METHODS}
    assert {theirs.name for number, theirs in BY_ID.items() if number not in ours} == set()


# What pamqp can say of each type: only text in strings, also in long ones; delivery tags are signed to it.
_PAMQP_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "Octet": st.integers(0, 255),
    "Short": st.integers(0, 2**16 - 1),
    "Long": st.integers(0, 2**32 - 1),
    "LongLong": st.integers(0, 2**63 - 1),
    "ShortStr": plain_texts(255),
    "LongStr": plain_texts(200).map(lambda text: text.encode()),
    "Bit": st.booleans(),
    "FieldTable": st.dictionaries(plain_texts(40), plain_texts() | st.booleans() | st.integers(0, 9), max_size=3),
}


def as_pamqp(method: Method) -> Any:
    """The same method of pamqp, set past its constructor, which checks names and reserved arguments."""
    theirs = BY_ID[method.ID[0] << 16 | method.ID[1]]()
    theirs.validate = lambda: None
    for name, their_name, kind in zip(
        method.__struct_fields__, theirs.attributes(), kinds_of(type(method)).values(), strict=True
    ):
        value = getattr(method, name)
        setattr(theirs, their_name, value.decode() if kind == "LongStr" else value)
    return theirs


@pytest.mark.filterwarnings("ignore:This command is deprecated")
@pytest.mark.parametrize("kind", [kind for kind in METHODS if kind not in NOT_IN_PAMQP], ids=name_of)
@given(st.data())
@SMALL_PROPERTY_TEST
def test_pamqp_and_we_read_what_the_other_writes(kind: type[Method], data: st.DataObject) -> None:
    method = kind(**{name: data.draw(_PAMQP_VALUES[type_name]) for name, type_name in kinds_of(kind).items()})
    theirs = as_pamqp(method)
    # pamqp sorts tables and writes numbers in the smallest type, so what is read counts, not the bytes.
    assert decode_method(struct.pack(">HH", *kind.ID) + theirs.marshal()) == method
    frame = method_frame(7, method)
    consumed, channel, read = pamqp_frame.unmarshal(frame)
    assert (consumed, channel) == (len(frame), 7)
    for name in theirs.attributes():
        assert getattr(read, name) == getattr(theirs, name)


# -- names and numbers


def test_names_are_those_of_the_specification() -> None:
    assert name_of(QueueDeclare) == "queue.declare"
    assert name_of(ConnectionStartOk) == "connection.start-ok"
    assert name_of(ChannelOpenOk) == "channel.open-ok"


def test_unbind_ok_has_the_odd_number_that_rabbitmq_gave_it() -> None:
    assert ExchangeUnbindOk.ID == (40, 51)


def test_bits_share_octets() -> None:
    assert encode_method(BasicNack(delivery_tag=1, multiple=True, requeue=False))[-1] == 0b01
    assert encode_method(BasicNack(delivery_tag=1, multiple=False, requeue=True))[-1] == 0b10
    declare = encode_method(ExchangeDeclare(passive=True, internal=True))
    assert declare[-5:] == bytes((0b01001, 0, 0, 0, 0))


def test_bits_without_a_name_are_ignored() -> None:
    payload = encode_method(BasicPublish())
    assert decode_method(payload[:-1] + b"\xfc") == BasicPublish()


# -- what is no method


def refusal(payload: bytes) -> ConnectionError:
    with pytest.raises(ConnectionError) as caught:
        decode_method(payload)
    return caught.value


@pytest.mark.parametrize("payload", [b"", b"\0", b"\0\x3c\0"])
def test_a_frame_too_short_for_a_method_is_a_frame_error(payload: bytes) -> None:
    assert refusal(payload).code == FRAME_ERROR
    assert method_id(payload) == (0, 0)


def test_an_unknown_method_is_named_by_its_number() -> None:
    error = refusal(struct.pack(">HH", 60, 999))
    assert (error.code, error.text) == (COMMAND_INVALID, "no method 60.999")
    assert method_id(struct.pack(">HH", 60, 999)) == (60, 999)


@pytest.mark.parametrize("kind", METHODS, ids=name_of)
def test_arguments_cut_short_are_a_syntax_error_that_names_the_method(kind: type[Method]) -> None:
    whole = encode_method(kind())
    for size in range(4, len(whole)):
        error = refusal(whole[:size])
        assert error.code == SYNTAX_ERROR
        assert error.text.startswith(f"{name_of(kind)}: ")
        assert method_id(whole[:size]) == kind.ID


@pytest.mark.parametrize("kind", METHODS, ids=name_of)
def test_bytes_after_the_last_argument_are_a_syntax_error(kind: type[Method]) -> None:
    error = refusal(encode_method(kind()) + b"\0\0")
    assert (error.code, error.text) == (SYNTAX_ERROR, f"{name_of(kind)}: 2 bytes too many")


@PROPERTY_TEST
@given(st.sampled_from(METHODS), st.binary(max_size=60))
def test_any_bytes_are_a_method_or_a_syntax_error(kind: type[Method], arguments: bytes) -> None:
    payload = struct.pack(">HH", *kind.ID) + arguments
    try:
        method = decode_method(payload)
    except ConnectionError as error:
        assert error.code == SYNTAX_ERROR
        assert error.text.startswith(f"{name_of(kind)}: ")
    else:
        assert decode_method(encode_method(method)) == method


@PROPERTY_TEST
@given(st.binary(max_size=40))
def test_any_bytes_at_all_raise_nothing_but_a_connection_error(payload: bytes) -> None:
    try:
        decode_method(payload)
    except ConnectionError as error:
        assert error.code in (FRAME_ERROR, SYNTAX_ERROR, COMMAND_INVALID)


def test_a_name_longer_than_a_short_string_is_our_own_mistake() -> None:
    with pytest.raises(ValueError, match="queue is longer than 255 bytes"):
        encode_method(QueueDeclare(queue="é" * 128))
