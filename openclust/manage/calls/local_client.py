"""An AMQP client in the broker's own process: what a call does with queues and messages happens as for any client.

So permissions, limits and confirms are those of a client, and a queue that is active at another broker is used there.
"""

from __future__ import annotations

import asyncio
from collections import deque
from types import TracebackType
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import msgspec

from openclust.broker.amqp.connection import Connection
from openclust.broker.model.access import User
from openclust.broker.model.peer import Peer
from openclust.broker.server.vhost import VirtualHost
from openclust.shell.net.stream import GONE
from openclust.shell.net.traffic import NO_TRAFFIC, SocketTraffic
from openclust.wire.codec import decode_method, method_frame
from openclust.wire.errors import CONNECTION_FORCED, NAMES, AmqpError, ChannelError
from openclust.wire.frames import content_frames
from openclust.wire.methods import (
    BasicAck,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    BasicReturn,
    ChannelClose,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionOpenOk,
    ConnectionUnblocked,
    Method,
)
from openclust.wire.properties import PREAMBLE, Properties, decode_properties, encode_header
from openclust.wire.reader import FrameReader

if TYPE_CHECKING:
    from openclust.shell.server import Server

CHANNEL = 1
WAIT_S = 30.0
"""So long all that one client does may take together."""

_M = TypeVar("_M", bound=Method)


class Fetched(msgspec.Struct, frozen=True):
    """A message that basic.get has fetched."""

    method: BasicGetOk
    properties: Properties
    body: bytes


Heard: TypeAlias = Method | Fetched
"""What the broker says: a method, or a message with its content."""


class LocalClient:
    """One connection with one channel, as a user in a virtual host; nothing else knows of it.

    `async with` it. What the broker refuses is raised as an AmqpError, and TimeoutError where it does not answer in
    time: what was asked may happen all the same. What is not acknowledged at the end goes back to its queue.
    """

    def __init__(self, server: Server, user: User, vhost: VirtualHost, host: str) -> None:
        self._server = server
        self._user = user
        self._vhost = vhost
        self._host = host
        self._heard: deque[Heard | AmqpError] = deque()
        self._waiting: asyncio.Future[None] | None = None
        self._ends_s = 0.0
        self.blocked = ""
        """Why publishers have to wait, if they do."""

    async def __aenter__(self) -> LocalClient:
        server = self._server
        self._ends_s = server.loop.time() + WAIT_S
        peer = Peer(self._host, 0, True, is_internal=True)
        connection = Connection(server.broker, peer, _Memory(self))
        self.connection = connection
        connection.client_properties = {"connection_name": "HTTP API", "capabilities": {"connection.blocked": True}}
        self._reader = FrameReader(_Frames(self), 2**31)
        server.broker.now_ms = server.now_ms()
        connection.enter(self._user, self._vhost)
        await self.call(ChannelOpen(), ChannelOpenOk)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    # -- what it does

    async def call(self, method: Method, answer: type[_M]) -> _M:
        """Send a method, and return the broker's answer."""
        self._send(method_frame(CHANNEL, method))
        return await self._wait(answer)

    def tell(self, method: Method) -> None:
        """Send a method that has no answer."""
        self._send(method_frame(CHANNEL, method))

    async def get(self, queue: str) -> Fetched | None:
        """The next message of a queue, to be acknowledged; None where it is empty."""
        self.tell(BasicGet(queue=queue))
        while True:
            heard = await self._next()
            if isinstance(heard, Fetched):
                return heard
            if isinstance(heard, BasicGetEmpty):
                return None

    async def publish(self, exchange: str, routing_key: str, properties: Properties, body: bytes) -> tuple[bool, bool]:
        """Publish a message, and wait for its confirm: whether any queue wanted it, and whether all of them took it."""
        method = BasicPublish(exchange=exchange, routing_key=routing_key, mandatory=True)
        data = method_frame(CHANNEL, method) + content_frames(CHANNEL, encode_header(properties, len(body)), body, 0)
        await self.call(ConfirmSelect(), ConfirmSelectOk)
        self._send(data)
        is_routed = True
        while True:
            heard = await self._next()
            if isinstance(heard, BasicReturn):
                is_routed = False
            elif isinstance(heard, BasicAck | BasicNack):
                return is_routed, isinstance(heard, BasicAck)

    @property
    def left_s(self) -> float:
        """How long it may still take."""
        return self._ends_s - self._server.loop.time()

    # -- what goes between it and the broker

    def _send(self, data: bytes) -> None:
        if self.connection.transport is GONE:
            raise ChannelError(CONNECTION_FORCED, "the broker has ended the connection")
        self._server.receive(self.connection, data)

    async def _wait(self, answer: type[_M]) -> _M:
        while True:
            heard = await self._next()
            if isinstance(heard, answer):
                return heard

    async def _next(self) -> Heard:
        """What the broker says next; what it says for an error is raised."""
        while not self._heard:
            self._waiting = self._server.loop.create_future()
            async with asyncio.timeout(self.left_s):
                await self._waiting
        heard = self._heard.popleft()
        if isinstance(heard, AmqpError):
            raise heard
        return heard

    def hear(self, heard: Heard | AmqpError) -> None:
        """The broker says something."""
        if isinstance(heard, ConnectionOpenOk):
            return
        if isinstance(heard, ConnectionBlocked):
            self.blocked = heard.reason
        elif isinstance(heard, ConnectionUnblocked):
            self.blocked = ""
        elif isinstance(heard, ChannelClose | ConnectionClose):
            self._tell(_error(heard.reply_code, heard.reply_text))
        else:
            self._tell(heard)

    def _tell(self, heard: Heard | AmqpError) -> None:
        self._heard.append(heard)
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def read(self, data: bytes) -> None:
        """The broker has written this."""
        self._reader.read(data)

    def end(self) -> None:
        """Be gone; whoever waits is told."""
        if self.connection.transport is GONE:
            return
        self._server.connection_lost(self.connection)
        self._tell(ChannelError(CONNECTION_FORCED, "the broker has ended the connection"))


def _error(code: int, text: str) -> AmqpError:
    """The error that a close names: its text without the code's name, which stands before it on the wire."""
    return ChannelError(code, text.removeprefix(f"{NAMES.get(code, str(code))} - "))


class _Memory:
    """The transport of a client in memory: what is written is read at once."""

    heard = True
    is_waiting = False
    sent_ms = silent_ms = wait_ms = born_ms = connected_at_ms = 0

    def __init__(self, client: LocalClient) -> None:
        self._client = client

    def flush(self) -> None:
        connection = self._client.connection
        data = b"".join(connection.out)
        connection.out.clear()
        connection.bulky = False
        if connection.out_bytes:
            connection.flushed(0)
        if data:
            self._client.read(data)

    def traffic(self) -> SocketTraffic:
        return NO_TRAFFIC

    def pause_reading(self) -> None:
        """Nothing is read: what is sent waits in the connection."""

    def resume_reading(self) -> None:
        """Nothing was stopped."""

    def finish(self) -> None:
        self.flush()
        self._client.end()

    def abort(self) -> None:
        self._client.end()


class _Frames:
    """Puts what the broker's frames say together for the client."""

    def __init__(self, client: LocalClient) -> None:
        self._client = client
        self._method: BasicGetOk | BasicReturn | None = None
        self._header = b""
        self._size = 0
        self._pieces: list[bytes] = []

    def on_publish(self, channel: int, arguments: bytes, header: bytes, body: bytes) -> bool:
        raise AssertionError("a broker does not publish to its clients")

    def on_run(self, channel: int, arguments: bytes, properties: bytes, bodies: list[bytes]) -> int:
        raise AssertionError("a broker does not publish to its clients")

    def on_ack(self, channel: int, delivery_tag: int, multiple: bool) -> bool:
        self._client.hear(BasicAck(delivery_tag=delivery_tag, multiple=multiple))
        return True

    def on_method(self, channel: int, payload: bytes) -> bool:
        method = decode_method(payload)
        if isinstance(method, BasicGetOk | BasicReturn):
            self._method = method
        else:
            self._client.hear(method)
        return True

    def on_header(self, channel: int, payload: bytes) -> bool:
        self._header = payload
        self._size = PREAMBLE.unpack_from(payload)[2]
        self._finish()
        return True

    def on_body(self, channel: int, payload: bytes) -> bool:
        self._pieces.append(payload)
        self._size -= len(payload)
        self._finish()
        return True

    def _finish(self) -> None:
        if self._size:
            return
        method, pieces = self._method, self._pieces
        self._method, self._pieces = None, []
        if isinstance(method, BasicGetOk):
            self._client.hear(Fetched(method, decode_properties(self._header), b"".join(pieces)))
        elif method is not None:
            self._client.hear(method)
