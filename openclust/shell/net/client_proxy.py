"""Clients that another broker serves through this one, which logs in there as they did here, then copies bytes.

It looks at no frame after that: heartbeats and errors are between the client and the broker that serves it.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import TYPE_CHECKING, TypeVar

from openclust.broker.amqp.placement import PROXIED
from openclust.broker.model.effects import Proxy
from openclust.shell.config.addresses import split_address
from openclust.shell.host.clock import monotonic_ms
from openclust.shell.host.event_log import fields
from openclust.shell.host.notes import about
from openclust.shell.net.stream import Stream, StreamHost
from openclust.wire.codec import decode_method, method_frame, name_of
from openclust.wire.errors import ConnectionError as PeerError
from openclust.wire.frames import FRAME_HEARTBEAT, FRAME_METHOD, PROTOCOL_HEADER
from openclust.wire.handshake import State
from openclust.wire.methods import (
    ConnectionClose,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    Method,
)

if TYPE_CHECKING:
    from openclust.broker.amqp.connection import Connection
    from openclust.broker.server.broker import Broker

log = logging.getLogger("openclust.proxy")

DIAL_WAIT_S = 1.0
LINGER_S = 5.0
PIECE_BYTES = 65_536
"""So many bytes are read from one side and written to the other before more are read."""

ANSWER_BYTES_MAX = 65_536
_HEAD_BYTES = 7

T = TypeVar("T", bound=Method)


class Unwilling(Exception):
    """The other broker does not accept the client; the text is the reason."""


class ClientProxies:
    """All clients that another broker serves through this one."""

    def __init__(self, broker: Broker, host: StreamHost) -> None:
        self._broker = broker
        self._host = host
        self._loop = host.loop
        self._tasks: dict[asyncio.Task[None], None] = {}

    def __len__(self) -> int:
        return len(self._tasks)

    def begin(self, effect: Proxy) -> None:
        """Connect the client to the other broker; if that fails within a second, this broker serves it."""
        task = self._loop.create_task(self._serve(effect))
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))

    def end(self, count: int) -> int:
        """Cut off so many of them, the youngest first. Returns how many there were."""
        ended = list(self._tasks)[::-1][:count]
        for task in ended:
            task.cancel()
        return len(ended)

    async def stop(self) -> None:
        tasks = list(self._tasks)
        self.end(len(tasks))
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, effect: Proxy) -> None:
        connection = effect.connection
        try:
            if len(self._tasks) + self._broker.open_count() > self._broker.limits.connections_max:
                raise Unwilling("limits.connections_max is reached")
            async with asyncio.timeout(DIAL_WAIT_S):
                far, open_ok = await self._dial(effect)
        except (OSError, TimeoutError, Unwilling, PeerError) as error:
            reason = str(error) or f"no answer within {DIAL_WAIT_S:g} s"
            told = fields(**about(connection), to=effect.placement.name)
            log.info("a client is served here and not elsewhere: %s", reason, extra=told)
            self._stay(effect)
            return
        with far:
            rest = connection.reader.rest if connection.state is State.OPENING else b""
            near = self._take(connection)
            if near is None:
                self._stay(effect)
                return
            with near:
                await self._loop.sock_sendall(far, rest)
                await self._loop.sock_sendall(near, open_ok)
                await splice(self._loop, near, far)

    def _stay(self, effect: Proxy) -> None:
        """Serve the client here, if it is still connected."""
        self._broker.now_ms = monotonic_ms()
        effect.connection.stay(effect.open)
        self._host.turn_soon()

    def _take(self, connection: Connection) -> socket.socket | None:
        """Take the client's socket away from the broker; None if the client is gone, or its socket cannot be taken."""
        stream = connection.transport
        if connection.state is not State.OPENING or not isinstance(stream, Stream):
            return None
        sock = stream.hand_over()
        if sock is not None:
            self._host.connection_lost(connection)
        return sock

    # -- the login at the other broker

    async def _dial(self, effect: Proxy) -> tuple[socket.socket, bytes]:
        """A socket to the other broker with the client logged in, and the open-ok to be sent to the client."""
        host, port = split_address(effect.placement.address)
        family, kind, protocol, _, address = (await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM))[0]
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            await self._loop.sock_connect(sock, address)
            return sock, await self._log_in(sock, effect)
        except BaseException:
            sock.close()
            raise

    async def _log_in(self, sock: socket.socket, effect: Proxy) -> bytes:
        connection = effect.connection
        await self._loop.sock_sendall(sock, PROTOCOL_HEADER)
        await self._expect(sock, ConnectionStart)
        start_ok = ConnectionStartOk(
            client_properties={**connection.client_properties, PROXIED: True},
            mechanism=connection.mechanism,
            response=effect.response,
            locale="en_US",
        )
        await self._loop.sock_sendall(sock, method_frame(0, start_ok))
        tune, _ = await self._expect(sock, ConnectionTune)
        for ours, theirs in ((connection.frame_max, tune.frame_max), (connection.channel_max, tune.channel_max)):
            if theirs and (not ours or ours > theirs):
                raise Unwilling("the other broker grants smaller frames or fewer channels than this one did")
        tune_ok = ConnectionTuneOk(
            channel_max=connection.channel_max, frame_max=connection.frame_max, heartbeat=connection.heartbeat_s
        )
        await self._loop.sock_sendall(sock, method_frame(0, tune_ok) + method_frame(0, effect.open))
        return (await self._expect(sock, ConnectionOpenOk))[1]

    async def _expect(self, sock: socket.socket, kind: type[T]) -> tuple[T, bytes]:
        """The next method and its frame. No byte after it is read: the rest belongs to the client."""
        while True:
            head = await self._read(sock, _HEAD_BYTES)
            size = int.from_bytes(head[3:], "big")
            if size > ANSWER_BYTES_MAX:
                raise Unwilling("the other broker does not speak AMQP 0-9-1")
            rest = await self._read(sock, size + 1)
            if head[0] == FRAME_HEARTBEAT:
                continue
            if head[0] != FRAME_METHOD:
                raise Unwilling("the other broker does not speak AMQP 0-9-1")
            method = decode_method(rest[:-1])
            if isinstance(method, kind):
                return method, head + rest
            if isinstance(method, ConnectionClose):
                raise Unwilling(f"the other broker says: {method.reply_text}")
            raise Unwilling(f"the other broker says {name_of(type(method))} where {name_of(kind)} was to come")

    async def _read(self, sock: socket.socket, count: int) -> bytes:
        data = b""
        while len(data) < count:
            piece = await self._loop.sock_recv(sock, count - len(data))
            if not piece:
                raise Unwilling("the other broker ended the connection")
            data += piece
        return data


async def splice(loop: asyncio.AbstractEventLoop, near: socket.socket, far: socket.socket) -> None:
    """Copy bytes both ways until both sides have closed. After one has, the other has `LINGER_S` to close too."""
    ways = {loop.create_task(_pass_on(loop, near, far)), loop.create_task(_pass_on(loop, far, near))}
    try:
        done, open_ways = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        if open_ways and all(way.result() for way in done):
            await asyncio.wait(open_ways, timeout=LINGER_S)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)


async def _pass_on(loop: asyncio.AbstractEventLoop, source: socket.socket, sink: socket.socket) -> bool:
    """Copy bytes until `source` closes. Whether it did so without an error."""
    try:
        while data := await loop.sock_recv(source, PIECE_BYTES):
            await loop.sock_sendall(sink, data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        return False
    return True
