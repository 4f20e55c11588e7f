"""What answers at an address where no broker's peers are served: for a line that says which port was meant."""

from __future__ import annotations

import asyncio
import contextlib
import json

from openclust.wire.frames import FRAME_METHOD, PROTOCOL_HEADER

WAIT_S = 1.0
ANSWER_BYTES_MAX = 4_096
TLS_ALERT = b"\x15\x03"
"""How TLS answers to bytes that are none of its own: a record of type alert, in any version 3."""


async def who_answers(host: str, port: int) -> str:
    """What speaks there, where a link to it has failed; empty where that says nothing."""
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
    """Where the broker behind an HTTP API has its peers; empty where it is another server."""
    request = f"GET /api/ready HTTP/1.0\r\nHost: {host}\r\n\r\n"
    _, _, body = (await _answer(host, port, request.encode())).partition(b"\r\n\r\n")
    with contextlib.suppress(ValueError):
        document = json.loads(body)
        peers = document.get("peers") if isinstance(document, dict) else None
        return peers if isinstance(peers, str) else ""
    return ""


async def _answer(host: str, port: int, data: bytes) -> bytes:
    """What comes back until the other side says no more, or as much as there is after a while."""
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
