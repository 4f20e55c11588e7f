"""What answers where no broker's peers are served."""

from __future__ import annotations

import asyncio

import pytest

from openclust.shell.net.answering import who_answers

pytestmark = pytest.mark.sockets

HTTP_400 = b"HTTP/1.0 400 Bad Request\r\n\r\n"


def asked(*answers: bytes) -> str:
    """What is said of a server that gives these answers, one a connection."""
    left = list(answers)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1_000)
        writer.write(left.pop(0) if left else b"")
        await writer.drain()
        writer.close()

    async def run() -> str:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            return await who_answers(*server.sockets[0].getsockname())

    return asyncio.run(run())


def test_at_an_http_api_of_a_broker_its_port_for_peers_is_named() -> None:
    ready = b'HTTP/1.0 503 Service Unavailable\r\n\r\n{"is_ready": false, "peers": "127.0.0.1:5682"}'
    assert asked(HTTP_400, ready) == "wrong port: HTTP is served there; peers are at 127.0.0.1:5682"


@pytest.mark.parametrize("body", [b"", b"not JSON", b"[]", b"{}", b'{"peers": 7}', b"\xff"])
def test_at_another_http_server_the_port_for_peers_is_asked_for(body: bytes) -> None:
    said = asked(HTTP_400, b"HTTP/1.0 200 OK\r\n\r\n" + body)
    assert said == "wrong port: HTTP is served there; give the port for peers"


def test_a_port_for_tls_is_told() -> None:
    assert asked(b"\x15\x03\x01\x00\x02\x02\x46").startswith("TLS is served there")


def test_another_protocol_is_told() -> None:
    assert asked(b"220 mail.example ESMTP\r\n").startswith("wrong port: another protocol than AMQP")


@pytest.mark.parametrize("answer", [b"", b"AMQP\x00\x00\x09\x01", b"\x01\x00\x00"])
def test_of_amqp_and_of_silence_nothing_is_said(answer: bytes) -> None:
    assert asked(answer) == ""


def test_of_a_port_where_nobody_is_nothing_is_said() -> None:
    assert asyncio.run(who_answers("127.0.0.1", 1)) == ""
