"""What a server makes of the certificate that a handshake has verified."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from typing import Any

import pytest

from openclust.shell.config import Config, Tls
from openclust.shell.handshake_context import HandshakeContext
from openclust.shell.server import Server
from openclust.shell.tls_failure import HandshakeFailures
from openclust.shell.tls_stream import TlsStream


@pytest.fixture
def server() -> Iterator[Server]:
    loop = asyncio.new_event_loop()
    server = Server(Config(cluster_key="test", name="b1", tls=Tls(login_from="san")), loop)
    yield server
    server.logins.close()
    loop.close()


def name_of(server: Server, certificate: dict[str, Any], *, is_peer: bool) -> str:
    stream = TlsStream(
        server, HandshakeContext(ssl.PROTOCOL_TLS_SERVER), HandshakeFailures("", "", ""), is_peer=is_peer
    )
    return server.tls_connected(stream, certificate).peer.certificate_name


def test_a_client_is_named_by_what_the_configuration_says(server: Server) -> None:
    certificate = {"subject": ((("commonName", "alice"),),), "subjectAltName": (("email", "a@example"),)}
    assert name_of(server, certificate, is_peer=False) == "a@example"
    assert name_of(server, {"subject": certificate["subject"]}, is_peer=False) == ""
    assert name_of(server, {}, is_peer=False) == ""


def test_any_certificate_of_the_authority_proves_a_broker_whatever_names_clients(server: Server) -> None:
    assert name_of(server, {"subject": ((("commonName", "p1"),),)}, is_peer=True) == "p1"
    assert name_of(server, {"subject": ((("organizationName", "Example"),),)}, is_peer=True) == "O=Example"
    assert name_of(server, {"serialNumber": "1F"}, is_peer=True) == "a broker"
