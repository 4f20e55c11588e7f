"""An aiormq connection that understands `connection.redirect` and keeps the known hosts of open-ok."""

from __future__ import annotations

import asyncio
from typing import Any

import aiormq
import pamqp.frame
from aiormq.connection import FrameReceiver
from aiormq.exceptions import AMQPConnectionError, ConnectionClosed, InvalidFrameError
from pamqp.base import Frame
from pamqp.commands import Connection as Methods
from pamqp.exceptions import PAMQPException
from yarl import URL

from openclust.broker.amqp.placement import REDIRECTED
from openclust.wire.codec import decode_method
from openclust.wire.errors import ConnectionError as PeerError
from openclust.wire.frames import FRAME_HEARTBEAT, FRAME_METHOD
from openclust.wire.methods import ConnectionRedirect

REDIRECT = "connection.redirect"
"""The capability by which a client announces that it follows `connection.redirect`."""

ANSWER_BYTES_MAX = 4_096
"""More than enough for an answer to connection.open, which has three short strings at most."""

_HEAD_BYTES = 7
_REDIRECT_ID = b"\x00\x0a\x00\x2a"


class Redirected(AMQPConnectionError):
    """The broker redirects the client; `Dialled.redirect` has the target."""


class Dialled(aiormq.Connection):
    """`connect()` opens it. `Redirected` if the broker redirects the client."""

    def __init__(self, url: URL, *, is_redirected: bool = False, **options: Any) -> None:
        super().__init__(url, **options)
        self._is_redirected = is_redirected
        self.known_hosts = ""
        self.redirect: ConnectionRedirect | None = None

    def _client_properties(self, **properties: Any) -> dict[str, Any]:
        told = super()._client_properties(**properties)
        told["capabilities"] = {**told.get("capabilities", {}), REDIRECT: True}
        if self._is_redirected:
            told[REDIRECTED] = True
        return told

    # aiormq's handshake is one function, which sends each request by `_rpc`. For connection.open that would fail on
    # redirect (10.42), which pamqp does not know, and drop the known hosts of open-ok (10.41). So it is sent here.
    async def _rpc(  # type: ignore[override]
        self,
        request: Frame,
        writer: asyncio.StreamWriter,
        frame_receiver: FrameReceiver,
        wait_response: bool = True,
    ) -> Any:
        if not isinstance(request, Methods.Open):
            return await aiormq.Connection._rpc(request, writer, frame_receiver, wait_response)
        writer.write(pamqp.frame.marshal(request, 0))
        await writer.drain()
        raw = await _method(frame_receiver.reader)
        if raw[_HEAD_BYTES : _HEAD_BYTES + 4] == _REDIRECT_ID:
            self.redirect = _redirect(raw[_HEAD_BYTES:-1])
            raise Redirected(f"sent to {self.redirect.host}")
        try:
            answer = pamqp.frame.unmarshal(raw)[2]
        except PAMQPException as error:
            raise InvalidFrameError(str(error)) from error
        if isinstance(answer, Methods.Close):
            # aiormq would raise an error without the code and text of the close.
            raise ConnectionClosed(answer.reply_code, answer.reply_text)
        if isinstance(answer, Methods.OpenOk):
            self.known_hosts = answer.known_hosts or ""
        return answer


def _redirect(payload: bytes) -> ConnectionRedirect:
    try:
        method = decode_method(payload)
    except PeerError as error:
        raise InvalidFrameError(error.text) from error
    assert isinstance(method, ConnectionRedirect), "its id says so"
    return method


async def _method(reader: asyncio.StreamReader) -> bytes:
    """The next frame that is no heartbeat. A broker that waits for its root sends heartbeats before its answer."""
    while True:
        try:
            head = await reader.readexactly(_HEAD_BYTES)
            size = int.from_bytes(head[3:], "big")
            if size > ANSWER_BYTES_MAX:
                raise InvalidFrameError(f"an answer of {size} bytes to connection.open")
            rest = await reader.readexactly(size + 1)
        except asyncio.IncompleteReadError as error:
            raise AMQPConnectionError("the broker ended the connection at connection.open") from error
        if head[0] == FRAME_METHOD:
            return head + rest
        if head[0] != FRAME_HEARTBEAT:
            raise InvalidFrameError(f"a frame of type {head[0]} in answer to connection.open")
