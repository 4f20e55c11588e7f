"""Finds out what listens at an address where a link failed, so that the log can say which port was meant."""

from __future__ import annotations

import asyncio
import contextlib
import json

from openclust.wire.frames import FRAME_METHOD, PROTOCOL_HEADER

WAIT_S = 1.0
ANSWER_BYTES_MAX = 4_096
TLS_ALERT = b"\x15\x03"
"""The beginning of TLS's answer to bytes that are not TLS: an alert record of any version 3."""


async def who_answers(host: str, port: int) -> str:
    """What listens there instead of a broker's port for peers; empty if that cannot be told."""
    began = await _answer(host, port, PROTOCOL_HEADER)
    if began.startswith(b"HTTP/"):
        peers = await _peers_by_http(host, port)
        return f"wrong port: HTTP is served there; {f'peers are at {peers}' if peers else 'give the port for peers'}"
    if began.startswith(TLS_ALERT):
        return "TLS is served there: give the port for peers, or cluster.peer_cert where that one wants TLS"
    if began and not began.startswith((b"AMQP", bytes((FRAME_METHOD,)))):
        return "wrong port: another protocol than AMQP is served there; give the port for peers"
    return ""


async def _peers_by_http(host: str, port: int) -> str:
    """The address for peers of the broker behind an HTTP API; empty if the server is no broker."""
    request = f"GET /api/ready HTTP/1.0\r\nHost: {host}\r\n\r\n"
    _, _, body = (await _answer(host, port, request.encode())).partition(b"\r\n\r\n")
    with contextlib.suppress(ValueError):
        document = json.loads(body)
        peers = document.get("peers") if isinstance(document, dict) else None
        return peers if isinstance(peers, str) else ""
    return ""


async def _answer(host: str, port: int, data: bytes) -> bytes:
    """The bytes that come back until the other side closes, or within `WAIT_S`."""
    answer = b""
    writer: asyncio.StreamWriter | None = None
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(WAIT_S):
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(data)
            while len(answer) < ANSWER_BYTES_MAX and (part := await reader.read(ANSWER_BYTES_MAX)):
                answer += part
    if writer is not None:
        writer.transport.abort()
    return answer
