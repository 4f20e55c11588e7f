"""A server that logs everybody in and answers connection.open as the test tells it to."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from openclust.broker.amqp.start_frame import CAPABILITIES
from openclust.wire.codec import decode_method, method_frame
from openclust.wire.frames import FRAME_METHOD, HEARTBEAT
from openclust.wire.methods import (
    BasicQos,
    BasicQosOk,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionRedirect,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
    Method,
    QueueDeclare,
    QueueDeclareOk,
)

SILENCE = b""
"""An answer to connection.open: none."""

FRAME_END_BYTES = 1


def redirect(to: ScriptedBroker, known: str = "") -> ConnectionRedirect:
    return ConnectionRedirect(host=to.address, known_hosts=known)


class ScriptedBroker:
    """`answers` are used up one by one, the last again and again; by default it takes the connection.

    What clients said is in `logins`, `heartbeats` and `queues`, and in `properties`, one entry for each
    connection.open. One that `is_slow` sends heartbeats before it answers.
    """

    def __init__(self) -> None:
        self.answers: list[Method | bytes] = [ConnectionOpenOk()]
        self.properties: list[dict[str, Any]] = []
        self.logins: list[bytes] = []
        self.heartbeats: list[int] = []
        self.queues: list[str] = []
        self.address = ""
        self.is_slow = False
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def url(self) -> str:
        return f"amqp://guest:secret@{self.address}/"

    @property
    def opens(self) -> int:
        return len(self.properties)

    @property
    def clients(self) -> int:
        return len(self._writers)

    async def start(self) -> None:
        port = int(self.address.rpartition(":")[2] or 0)
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def close_all(self, code: int, text: str) -> None:
        """connection.close to all clients."""
        for writer in self._writers:
            writer.write(method_frame(0, ConnectionClose(reply_code=code, reply_text=text)))

    async def die(self) -> None:
        """As SIGKILL: nothing is said, and nobody listens any more."""
        assert self._server is not None
        self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            await reader.readexactly(8)
            server: dict[str, Any] = {"capabilities": dict.fromkeys(CAPABILITIES, True)}
            start = ConnectionStart(server_properties=server, mechanisms=b"PLAIN", locales=b"en_US")
            writer.write(method_frame(0, start))
            told: dict[str, Any] = {}
            while True:
                head = await reader.readexactly(7)
                body = await reader.readexactly(int.from_bytes(head[3:], "big") + FRAME_END_BYTES)
                if head[0] != FRAME_METHOD:
                    continue
                method = decode_method(body[:-FRAME_END_BYTES])
                if isinstance(method, ConnectionStartOk):
                    told = dict(method.client_properties)
                if isinstance(method, ConnectionOpen):
                    self.properties.append(told)
                if not self._answer(writer, int.from_bytes(head[1:3], "big"), method):
                    return
        except (asyncio.IncompleteReadError, OSError):
            return
        finally:
            self._writers.discard(writer)
            writer.close()

    def _answer(self, writer: asyncio.StreamWriter, channel: int, method: Method) -> bool:
        """False ends the connection."""
        match method:
            case ConnectionStartOk(response=response):
                self.logins.append(response)
                writer.write(method_frame(0, ConnectionTune(channel_max=100, frame_max=131_072, heartbeat=60)))
            case ConnectionTuneOk(heartbeat=heartbeat):
                self.heartbeats.append(heartbeat)
            case ConnectionUpdateSecret():
                writer.write(method_frame(0, ConnectionUpdateSecretOk()))
            case ConnectionOpen():
                answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                if self.is_slow:
                    writer.write(HEARTBEAT * 2)
                writer.write(answer if isinstance(answer, bytes) else method_frame(0, answer))
                return isinstance(answer, ConnectionOpenOk) or answer == SILENCE
            case ConnectionClose():
                writer.write(method_frame(0, ConnectionCloseOk()))
                return False
            case ConnectionCloseOk():
                return False
            case ChannelOpen():
                writer.write(method_frame(channel, ChannelOpenOk()))
            case ChannelClose():
                writer.write(method_frame(channel, ChannelCloseOk()))
            case ConfirmSelect():
                writer.write(method_frame(channel, ConfirmSelectOk()))
            case BasicQos():
                writer.write(method_frame(channel, BasicQosOk()))
            case QueueDeclare(queue=name):
                self.queues.append(name)
                writer.write(method_frame(channel, QueueDeclareOk(queue=name)))
        return True


@contextlib.asynccontextmanager
async def scripted_brokers(count: int) -> AsyncIterator[list[ScriptedBroker]]:
    """That many, listening; they end with the block."""
    brokers = [ScriptedBroker() for _ in range(count)]
    for each in brokers:
        await each.start()
    try:
        yield brokers
    finally:
        for each in brokers:
            await each.die()
