"""Errors: their codes, and the text that a peer is told."""

from __future__ import annotations

import pytest
from hypothesis import given

from openclust.wire import errors
from openclust.wire.codec import decode_method, encode_method
from openclust.wire.errors import NAMES, AmqpError, ChannelError, ConnectionError
from openclust.wire.methods import ConnectionClose
from tests.support.wire import PROPERTY_TEST, texts

SCOPES = (ChannelError, ConnectionError)


@pytest.mark.parametrize("code", [code for code in NAMES if code != 200])
def test_every_code_has_the_name_of_its_constant(code: int) -> None:
    assert getattr(errors, NAMES[code]) == code


def test_every_code_of_the_specification_is_there() -> None:
    assert set(NAMES) == {200, 311, 312, 313, 320, 402, 403, 404, 405, 406, *range(501, 507), 530, 540, 541}


@pytest.mark.parametrize("scope", SCOPES)
def test_the_text_begins_with_the_codes_name(scope: type[AmqpError]) -> None:
    assert scope(404, "no queue 'q' in vhost '/'").reply_text == "NOT_FOUND - no queue 'q' in vhost '/'"


def test_a_code_without_a_name_is_told_by_its_number() -> None:
    assert AmqpError(599, "x").reply_text == "599 - x"


def test_a_long_text_is_cut_to_a_short_string_between_letters() -> None:
    text = ChannelError(404, "é" * 300).reply_text
    assert 254 <= len(text.encode()) <= 255
    assert text == "NOT_FOUND - " + "é" * ((255 - 12) // 2)


@PROPERTY_TEST
@given(texts(600))
def test_any_text_reaches_the_peer_as_utf_8(text: str) -> None:
    told = ConnectionError(530, text).reply_text
    told.encode()
    close = ConnectionClose(reply_code=530, reply_text=told, failing_class_id=10, failing_method_id=40)
    assert decode_method(encode_method(close)) == close


def test_an_error_shows_its_code_and_text() -> None:
    assert "404" in repr(ChannelError(404, "no queue")) and "no queue" in str(ChannelError(404, "no queue"))
    assert not isinstance(ConnectionError(501, ""), ChannelError)
