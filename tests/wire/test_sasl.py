"""SASL responses: names and passwords, and what is malformed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import encode

from openclust.wire.sasl import AMQPLAIN, EXTERNAL, MECHANISMS, PLAIN, Credentials, parse_response
from openclust.wire.table import Value, encode_table
from tests.support.wire import PROPERTY_TEST, texts


def amqplain(**fields: Value) -> bytes:
    """A table without its length."""
    return encode_table(dict(fields))[4:]


def test_plain_has_an_identity_a_name_and_a_password() -> None:
    assert parse_response(PLAIN, b"\0guest\0secret", "") == Credentials("guest", b"secret")
    assert parse_response(PLAIN, b"other\0guest\0secret", "") == Credentials("guest", b"secret")
    assert parse_response(PLAIN, b"\0\0", "") == Credentials("", b"")


@pytest.mark.parametrize("response", [b"", b"guest", b"\0guest", b"\0guest\0secret\0more"])
def test_plain_with_more_or_fewer_parts_is_malformed(response: bytes) -> None:
    assert parse_response(PLAIN, response, "") is None


@PROPERTY_TEST
@given(texts().filter(lambda name: "\0" not in name), st.binary(max_size=20).filter(lambda word: b"\0" not in word))
def test_plain_takes_any_name_and_password(name: str, password: bytes) -> None:
    response = b"\0" + name.encode("utf-8", "surrogateescape") + b"\0" + password
    assert parse_response(PLAIN, response, "") == Credentials(name, password)


def test_amqplain_is_a_table_without_its_length() -> None:
    assert parse_response(AMQPLAIN, amqplain(LOGIN="guest", PASSWORD="secret"), "") == Credentials("guest", b"secret")
    assert parse_response(AMQPLAIN, amqplain(PASSWORD=b"\xff", LOGIN="guest"), "") == Credentials("guest", b"\xff")


def test_amqplain_of_pamqp_is_understood() -> None:
    response = encode.field_table({"LOGIN": "guest", "PASSWORD": "geheim-ß"})[4:]
    assert parse_response(AMQPLAIN, response, "") == Credentials("guest", "geheim-ß".encode())


@pytest.mark.parametrize(
    "response",
    [
        b"",
        amqplain(LOGIN="guest"),
        amqplain(PASSWORD="secret"),
        amqplain(LOGIN=1, PASSWORD="secret"),
        amqplain(LOGIN="guest", PASSWORD=None),
        amqplain(LOGIN="guest", PASSWORD="secret")[:-1],
        b"\xff" * 40,
    ],
)
def test_amqplain_without_both_as_strings_is_malformed(response: bytes) -> None:
    assert parse_response(AMQPLAIN, response, "") is None


def test_external_takes_the_certificates_name_whatever_is_said() -> None:
    for response in (b"", b"somebody else"):
        assert parse_response(EXTERNAL, response, "device-7") == Credentials("device-7", None)


def test_external_without_a_certificate_is_nobody() -> None:
    assert parse_response(EXTERNAL, b"guest", "") is None


@pytest.mark.parametrize("mechanism", ["", "plain", "GSSAPI", "ANONYMOUS", "PLAIN\0"])
def test_another_mechanism_is_nobody(mechanism: str) -> None:
    assert parse_response(mechanism, b"\0guest\0secret", "device-7") is None


@PROPERTY_TEST
@given(st.sampled_from(MECHANISMS), st.binary(max_size=80))
def test_any_response_is_credentials_or_malformed(mechanism: str, response: bytes) -> None:
    found = parse_response(mechanism, response, "")
    assert found is None or isinstance(found.password, bytes)
