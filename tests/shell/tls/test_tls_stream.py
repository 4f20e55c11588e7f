"""Handshakes from the side of the server: how long, how many, and what it makes of the certificate."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from openclust.broker.model.limits import Limits
from openclust.shell.config.schema import Config, HttpSection, ListenSection, TlsSection
from openclust.shell.net.answering import who_answers
from openclust.shell.server import Server
from openclust.shell.tls.handshake_context import HandshakeContext
from openclust.shell.tls.handshake_failure import HandshakeFailures
from openclust.shell.tls.tls_dialling import Streams
from openclust.shell.tls.tls_stream import TlsStream
from tests.support.clients.broker_process import free_port
from tests.support.clients.certificates import Authority


@pytest.fixture
def server() -> Iterator[Server]:
    loop = asyncio.new_event_loop()
    server = Server(Config(cluster_key="test", name="b1", tls=TlsSection(login_from="san")), loop)
    yield server
    server.logins.close()
    loop.close()


def name_of(server: Server, certificate: dict[str, Any], *, is_peer: bool) -> str:
    stream = TlsStream(
        server,
        HandshakeContext(ssl.PROTOCOL_TLS_SERVER),
        HandshakeFailures("", "", ""),
        handshake_timeout_ms=1_000,
        is_peer=is_peer,
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


@contextlib.asynccontextmanager
async def running(folder: Path, **limits: int) -> AsyncIterator[Server]:
    cert, key = Authority(folder).issue("localhost", server=True)
    config = Config(
        cluster_key="test",
        name="b1",
        listen=ListenSection(port=0),
        tls=TlsSection(port=free_port(), cert=str(cert), key=str(key)),
        http=HttpSection(enabled=False),
        limits=Limits(**limits),
    )
    server = Server(config, asyncio.get_running_loop())
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


async def dialled(server: Server) -> Streams:
    return await asyncio.open_connection("127.0.0.1", server.config.tls.port)


@pytest.mark.sockets
def test_a_handshake_that_takes_too_long_is_ended_and_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with running(tmp_path, handshake_timeout_ms=200) as server:
            reader, writer = await dialled(server)
            writer.write(b"\x16\x03\x01")
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""
            writer.close()

    asyncio.run(test())
    assert "the TLS handshake of a client failed: it took too long" in caplog.text


@pytest.mark.sockets
def test_handshakes_count_among_those_who_have_not_logged_in(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with running(tmp_path, connections_before_login_max=1) as server:
            first, second = await dialled(server), await dialled(server)
            with contextlib.suppress(ConnectionResetError):
                assert await second[0].read() == b"", "there is room for one"
            for _, writer in (first, second):
                writer.close()

    asyncio.run(test())
    assert "1 others have not logged in yet" in caplog.text


@pytest.mark.sockets
def test_a_broker_without_tls_that_dials_a_port_with_it_sees_what_is_there(tmp_path: Path) -> None:
    async def test() -> str:
        async with running(tmp_path) as server:
            assert server.config.tls.port is not None
            return await who_answers("127.0.0.1", server.config.tls.port)

    assert asyncio.run(test()).startswith("TLS is served there")
