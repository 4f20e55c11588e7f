"""SASL responses: the credentials in them."""

from __future__ import annotations

import msgspec

from openclust.wire.errors import ConnectionError
from openclust.wire.table import decode_table
from openclust.wire.text import decode_text, encode_text

PLAIN = "PLAIN"
AMQPLAIN = "AMQPLAIN"
EXTERNAL = "EXTERNAL"
PEER = "OPENCLUST-PEER"
"""The mechanism of brokers of one cluster: see `cluster/protocol/hello.py`."""

MECHANISMS = (PLAIN, AMQPLAIN, EXTERNAL)


class Credentials(msgspec.Struct, frozen=True):
    """A name and a password; None for the password if a client certificate proves the name."""

    name: str
    password: bytes | None


def parse_response(mechanism: str, response: bytes, certificate_name: str) -> Credentials | None:
    """The credentials in a response; None if it is malformed."""
    if mechanism == PLAIN:
        return _plain(response)
    if mechanism == AMQPLAIN:
        return _amqplain(response)
    if mechanism == EXTERNAL and certificate_name:
        return Credentials(certificate_name, None)
    return None


def _plain(response: bytes) -> Credentials | None:
    # RFC 4616: authorization identity, NUL, authentication identity, NUL, password.
    parts = response.split(b"\0")
    if len(parts) != 3:
        return None
    return Credentials(decode_text(parts[1]), parts[2])


def _amqplain(response: bytes) -> Credentials | None:
    try:
        table, _ = decode_table(len(response).to_bytes(4, "big") + response, 0)
    except ConnectionError:
        return None
    name, password = table.get("LOGIN"), table.get("PASSWORD")
    if isinstance(password, str):
        password = encode_text(password)
    if not isinstance(name, str) or not isinstance(password, bytes):
        return None
    return Credentials(name, password)
