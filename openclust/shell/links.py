"""Links: this broker's AMQP connections to its peers, by aiormq. They only publish; answers come on the peers' own."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import socket
from typing import TYPE_CHECKING, Any, Literal

import aiormq
from aiormq.abc import ChannelFrame
from aiormq.connection import TCPTransportFactory
from aiormq.exceptions import AMQPError, AuthenticationError, ConnectionClosed, ProbableAuthenticationError
from pamqp.commands import Connection as ConnectionMethods

from openclust.broker.control import CLUSTER_EXCHANGE
from openclust.cluster.hello import Hello, introduce
from openclust.shell.log import fields
from openclust.wire.codec import method_frame
from openclust.wire.frames import FRAME_MIN, content_frames
from openclust.wire.methods import BasicPublish
from openclust.wire.properties import Properties, encode_header
from openclust.wire.sasl import PEER

if TYPE_CHECKING:
    from yarl import URL

log = logging.getLogger("openclust.links")
# It logs every failed attempt; a link says so once, with the peer's name.
logging.getLogger("aiormq").setLevel(logging.CRITICAL)

BACKOFF_MIN_S = 0.05
BACKOFF_MAX_S = 1.0
CONNECT_TIMEOUT_S = 2.0
SILENCE_MAX_MS = 2_000
"""How long what was sent may stay without a sign of receipt, before the link is given up and dialled anew."""

OUTBOX_FRAMES_MAX = 1_000
CONTROL_CHANNEL = 1

State = Literal["connecting", "connected", "refused"]


class _Introduction:
    """What aiormq takes for a way to log in: our name, and the proof over the nonce that the peer gave us."""

    name = PEER

    def __init__(self, response: bytes) -> None:
        self._response = response

    def value(self, _: aiormq.abc.AbstractConnection) -> _Introduction:
        return self

    def marshal(self) -> str:
        return self._response.decode()


class _Transport(TCPTransportFactory):
    """A socket that gives up on a peer that takes nothing; TCP by itself would try on for many minutes."""

    async def create(self, url: URL, **kwargs: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await super().create(url, **kwargs)
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SILENCE_MAX_MS)
        return reader, writer


class _Dialled(aiormq.Connection):
    """An aiormq connection that introduces itself as a broker."""

    FRAME_BUFFER_SIZE = OUTBOX_FRAMES_MAX

    def __init__(self, url: str, hello: Hello, secret: str) -> None:
        super().__init__(url, transport_factory=_Transport())
        self._hello = hello
        self._secret = secret

    def _credentials_class(self, start_frame: ConnectionMethods.Start) -> Any:
        nonce = str(start_frame.server_properties.get("nonce", ""))
        return _Introduction(introduce(self._hello, nonce, self._secret))


class Link:
    """Dials one peer for ever. What is sent while it is not connected is dropped: a later status says it all."""

    def __init__(self, peer: str, address: str, hello: Hello, secret: str) -> None:
        self.peer = peer
        self.address = address
        self.state: State = "connecting"
        self.error = ""
        self.sent = 0
        self.dropped = 0
        self._hello = hello
        self._secret = secret
        self._connection: _Dialled | None = None
        self._task = asyncio.get_running_loop().create_task(self._dial())

    def send(self, kind: str, body: bytes) -> None:
        """Publish a control message to the peer."""
        connection = self._connection
        if connection is None:
            return
        header = encode_header(Properties(type=kind), len(body))
        method = method_frame(CONTROL_CHANNEL, BasicPublish(exchange=CLUSTER_EXCHANGE))
        frames = method + content_frames(CONTROL_CHANNEL, header, body, FRAME_MIN)
        try:
            connection.write_queue.put_nowait(ChannelFrame(payload=frames, should_close=False))
        except asyncio.QueueFull:
            self.dropped += 1
            return
        self.sent += 1

    @property
    def waiting(self) -> int:
        """Messages that the socket has not taken yet."""
        return self._connection.write_queue.qsize() if self._connection is not None else 0

    async def _dial(self) -> None:
        backoff_s = BACKOFF_MIN_S
        while True:
            try:
                async with asyncio.timeout(CONNECT_TIMEOUT_S):
                    connection = await self._connect()
            except (OSError, TimeoutError, AMQPError, asyncio.CancelledError) as error:
                if isinstance(error, asyncio.CancelledError) and self._is_ending():
                    raise
                self._failed(error)
            else:
                backoff_s = BACKOFF_MIN_S
                self._connection, self.state, self.error = connection, "connected", ""
                log.info("linked", extra=fields(peer=self.peer, address=self.address))
                with contextlib.suppress(AMQPError, OSError, ConnectionError):
                    await connection.closing
                self._connection, self.state = None, "connecting"
                log.warning("link lost", extra=fields(peer=self.peer, address=self.address))
            # Not all brokers at once, and not in step.
            await asyncio.sleep(backoff_s * random.uniform(0.5, 1.0))
            backoff_s = min(backoff_s * 2, BACKOFF_MAX_S)

    async def _connect(self) -> _Dialled:
        connection = _Dialled(f"amqp://{self.address}/?heartbeat=10", self._hello, self._secret)
        await connection.connect()
        try:
            channel = await connection.channel(CONTROL_CHANNEL, publisher_confirms=False)
            assert channel.number == CONTROL_CHANNEL, "a new connection has its first channel free"
        except BaseException:
            await connection.close()
            raise
        return connection

    def _failed(self, error: BaseException) -> None:
        refused = isinstance(error, AuthenticationError | ConnectionClosed | ProbableAuthenticationError)
        text = str(error) or f"no answer within {CONNECT_TIMEOUT_S:g} s"
        if not self.error or (refused and text != self.error):
            # Once for each time that it is lost; how it fails may change with every try.
            level = logging.ERROR if refused else logging.INFO
            log.log(level, "no link: %s", text, extra=fields(peer=self.peer, address=self.address))
        self.state, self.error = ("refused" if refused else "connecting"), text

    def _is_ending(self) -> bool:
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0

    async def close(self) -> None:
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        if self._connection is not None:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(self._connection.close(), 1.0)
