"""The AMQP connection of a link. aiormq opens it, keeps it alive and reads it; this module writes to it.

A link writes whole frames, which were encoded once for all peers. aiormq has no call for that, so this module, and no
other, uses these undocumented parts of it:

- `FRAME_BUFFER_SIZE` bounds `write_queue`; each `ChannelFrame` in there is written as it is, in order, and its
  `drain_future` is done when the socket has taken it;
- `_credentials_class` is asked once, with connection.start, how to log in;
- `connection_tune` has the frame size that both ends agreed on;
- the logger `aiormq` tells of each attempt that failed.

`tests/shell/cluster/test_peer_connection.py` checks them against the installed version.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import aiormq
from aiormq.abc import ChannelFrame
from pamqp.commands import Connection as ConnectionMethods

from openclust.cluster.protocol.outbox import CONTROL_CHANNEL
from openclust.shell.tls.handshake_context import HandshakeContext
from openclust.shell.tls.tls_dialling import open_tls
from openclust.wire.frames import FRAME_MIN
from openclust.wire.sasl import PEER

if TYPE_CHECKING:
    from yarl import URL

# The link itself logs why it failed, with the peer's name.
logging.getLogger("aiormq").setLevel(logging.CRITICAL)

HEARTBEAT_S = 10
SILENCE_MAX_MS = 2_000
"""TCP ends a connection whose bytes are not acknowledged for so long; the link is then dialled anew."""

BATCHES_MAX = 1_000
"""So many writes may wait for the socket."""


class PeerTransport(aiormq.TransportFactory):
    """Makes sockets that give up on a silent peer soon. By its defaults TCP would try for many minutes."""

    def __init__(self, context: HandshakeContext | None) -> None:
        self._context = context
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def create(self, url: URL, **_: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._context is None:
            reader, writer = await asyncio.open_connection(url.host, url.port)
        else:
            assert url.host is not None and url.port is not None, "a link has an address"
            reader, writer = await open_tls(url.host, url.port, self._context)
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SILENCE_MAX_MS)
        self._reader, self._writer = reader, writer
        return reader, writer

    @property
    def is_closed(self) -> bool:
        """Whether the socket is closed, or about to be."""
        return self._writer is not None and self._writer.transport.is_closing()

    def refusal(self) -> ssl.SSLError | None:
        """The peer's TLS alert about our certificate. In TLS 1.3 it comes after our side of the handshake is done."""
        error = self._reader.exception() if self._reader is not None else None
        return error if isinstance(error, ssl.SSLError) else None


class PeerConnection(aiormq.Connection):
    """A connection that logs in as a broker: `open` it, then `write`; the future `closing` is done when it is lost."""

    FRAME_BUFFER_SIZE = BATCHES_MAX

    def __init__(self, address: str, introduction: Callable[[str], bytes], transport: aiormq.TransportFactory) -> None:
        super().__init__(f"amqp://{address}/?heartbeat={HEARTBEAT_S}", transport_factory=transport)
        self._introduction = introduction

    async def open(self) -> None:
        """Open the connection and its channel for control messages."""
        await self.connect()
        try:
            channel = await self.channel(CONTROL_CHANNEL, publisher_confirms=False)
            assert channel.number == CONTROL_CHANNEL, "a new connection has its first channel free"
        except BaseException:
            await self.close()
            raise

    @property
    def frame_max(self) -> int:
        return self.connection_tune.frame_max or FRAME_MIN

    def write(self, frames: bytes, on_drained: Callable[[], None]) -> bool:
        """Whole frames, written after all that came before; False where too many writes wait for the socket.

        `on_drained` is called when the socket has taken them, and not at all where the connection ends before.
        """
        drained = self.loop.create_future()
        drained.add_done_callback(lambda _: on_drained())
        try:
            self.write_queue.put_nowait(ChannelFrame(payload=frames, should_close=False, drain_future=drained))
        except asyncio.QueueFull:
            return False
        return True

    def _credentials_class(self, start_frame: ConnectionMethods.Start) -> Any:
        nonce = str(start_frame.server_properties.get("nonce", ""))
        return _Introduction(self._introduction(nonce))


class _Introduction:
    """A login mechanism for aiormq: our name, and the proof over the nonce that the peer sent."""

    name = PEER

    def __init__(self, response: bytes) -> None:
        self._response = response

    def value(self, _: aiormq.abc.AbstractConnection) -> _Introduction:
        return self

    def marshal(self) -> str:
        return self._response.decode()
