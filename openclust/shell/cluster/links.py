"""Links: this broker's AMQP connections to its peers. They only publish: answers come on the peers' own links."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import Literal

from aiormq.exceptions import AMQPError, AuthenticationError, ConnectionClosed, ProbableAuthenticationError

from openclust.broker.queues.repeats import Repeats
from openclust.cluster.protocol.outbox import Outbox
from openclust.shell.cluster.peer_connection import PeerConnection, PeerTransport
from openclust.shell.config.addresses import split_address
from openclust.shell.host.clock import monotonic_ms
from openclust.shell.host.event_log import LogFields, fields
from openclust.shell.net.answering import who_answers
from openclust.shell.tls.certificate_files import TlsFiles
from openclust.shell.tls.certificates import from_der
from openclust.shell.tls.handshake_context import HandshakeFailed
from openclust.shell.tls.handshake_failure import reason, refusal
from openclust.shell.tls.peer_context import PeerContexts

log = logging.getLogger("openclust.links")

BACKOFF_MIN_S = 0.05
BACKOFF_MAX_S = 1.0
LOOK_EVERY_S = 1.0
"""How often a link looks whether its socket is closed, if aiormq does not say so."""
CONNECT_TIMEOUT_S = 2.0
WRITING_BYTES_MAX = 1_048_576
"""So many bytes may wait in the connection; the rest waits in the outbox."""

REFUSALS = (AuthenticationError, ConnectionClosed, ProbableAuthenticationError)
"""With these errors the broker at the other end refused the link; with all others no broker answered."""

LinkState = Literal["connecting", "connected", "refused"]


def _reason(error: BaseException) -> str:
    """Why a link could not be made, in one line."""
    if isinstance(error, ssl.SSLError):
        told = refusal(error)
        if told:
            return f"it refuses our certificate (cluster.peer_cert): {told}"
        return f"the TLS handshake failed: {reason(error, 'cluster.peer_ca')}"
    if isinstance(error, TimeoutError | asyncio.CancelledError):
        return f"no answer within {CONNECT_TIMEOUT_S:g} s"
    if isinstance(error, ConnectionClosed) and len(error.args) == 2:
        return f"refused there: {error.args[1]}"
    if isinstance(error, REFUSALS):
        return f"refused there: {error}"
    if isinstance(error, OSError) and error.errno and not isinstance(error, AMQPError | socket.gaierror):
        return os.strerror(error.errno)[:1].lower() + os.strerror(error.errno)[1:]
    if isinstance(error, ConnectionError) and not str(error):
        return "it closed its socket in the middle of the TLS handshake"
    return str(error) or type(error).__name__


async def lost(connection: PeerConnection, transport: PeerTransport, *, look_every_s: float = LOOK_EVERY_S) -> None:
    """Wait until the connection is lost.

    aiormq closes the socket of a peer that missed its heartbeats, and then waits for its close-ok without an end: a
    broker that was stopped for half a minute would never be dialled again.
    """
    closing = connection.closing
    was_closed = False
    while not closing.done():
        await asyncio.wait({closing}, timeout=look_every_s)
        if was_closed and not closing.done():
            closing.cancel()
            with contextlib.suppress(Exception):
                await asyncio.wait_for(connection.close(), look_every_s)
            return
        was_closed = transport.is_closed
    if not closing.cancelled():
        # Taken, or asyncio would complain. Why it was lost does not matter: the link is dialled anew.
        closing.exception()


class Link:
    """Dials one address for ever, and sends the frames of `outbox` while connected: call `flush` when there are some.

    `on_up` is called with the frame-max of the connection, `on_down` when the link is lost.
    """

    def __init__(
        self,
        address: str,
        outbox: Outbox,
        introduction: Callable[[str], bytes],
        *,
        tls: TlsFiles[PeerContexts] | None = None,
        on_up: Callable[[Link, int], None],
        on_down: Callable[[Link], None],
    ) -> None:
        self.address = address
        self.outbox = outbox
        self.state: LinkState = "connecting"
        self.error = ""
        # Given to the connections, since this broker was started.
        self.sent_bytes = 0
        self._introduction = introduction
        self._tls = tls
        self._on_up = on_up
        self._on_down = on_down
        self._connection: PeerConnection | None = None
        self._failures = Repeats()
        # What listens at the address instead of a port for peers, if that was found out.
        self._answering = ""
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._dial())

    @property
    def peer(self) -> str:
        return self.outbox.peer

    @property
    def frame_max(self) -> int:
        assert self._connection is not None, "only a connected link has agreed on it"
        return self._connection.frame_max

    @property
    def is_writing(self) -> bool:
        """Whether it is connected, and bytes still wait for the socket."""
        return self._connection is not None and bool(self.outbox.frames or self.outbox.waiting_bytes)

    def flush(self) -> None:
        """Give the outbox to the connection, unless enough bytes wait there."""
        connection = self._connection
        if connection is None or self.outbox.waiting_bytes > WRITING_BYTES_MAX or not self.outbox.frames:
            return
        data = self.outbox.take()
        self.sent_bytes += len(data)
        if not connection.write(data, partial(self._drained, connection, len(data))):
            # These frames are lost, and frames must arrive in order: the link has to begin anew.
            log.error("too many writes wait for this link: it is dialled anew", extra=self._whose())
            self._loop.create_task(connection.close())

    def _drained(self, connection: PeerConnection, size: int) -> None:
        if connection is self._connection:
            self.outbox.waiting_bytes -= size
            self.flush()

    async def _dial(self) -> None:
        backoff_s = BACKOFF_MIN_S
        while True:
            try:
                async with asyncio.timeout(CONNECT_TIMEOUT_S):
                    connection, transport = await self._connect()
            except (OSError, TimeoutError, AMQPError, asyncio.CancelledError) as error:
                if isinstance(error, asyncio.CancelledError) and self._is_ending():
                    raise
                await self._failed(error)
            else:
                backoff_s = BACKOFF_MIN_S
                await self._stay(connection, transport)
            # By chance, so that not all brokers dial at the same moments.
            await asyncio.sleep(backoff_s * random.uniform(0.5, 1.0))
            backoff_s = min(backoff_s * 2, BACKOFF_MAX_S)

    async def _stay(self, connection: PeerConnection, transport: PeerTransport) -> None:
        """Send while the connection lasts."""
        self._connection, self.state, self.error = connection, "connected", ""
        self._failures.forget()
        log.info("linked", extra=self._whose())
        self._on_up(self, self.frame_max)
        self.flush()
        try:
            await lost(connection, transport)
        finally:
            self._connection, self.state = None, "connecting"
        if self.outbox.peer_has_stopped:
            log.info("link ended: the peer has stopped", extra=self._whose())
        else:
            log.warning("link lost", extra=self._whose())
        self._on_down(self)

    async def _connect(self) -> tuple[PeerConnection, PeerTransport]:
        # The context has the certificate that was read last.
        context = self._tls.contexts.dialling if self._tls is not None else None
        transport = PeerTransport(context)
        connection = PeerConnection(self.address, self._introduction, transport)
        try:
            await connection.open()
        except AMQPError:
            refusal = transport.refusal()
            if refusal is not None:
                raise refusal from None
            raise
        return connection, transport

    async def _failed(self, error: BaseException) -> None:
        """Log why it failed: each reason at once, then with its count at ever longer intervals."""
        by_tls = isinstance(error, ssl.SSLError)
        refused = isinstance(error, REFUSALS) or by_tls
        text = _reason(error)
        again = self._failures.again(text, monotonic_ms())
        if again is not None:
            if isinstance(error, AMQPError) and not refused and self._tls is None:
                self._answering = await who_answers(*split_address(self.address))
            # A peer that does not answer yet is no reason for a warning at first.
            is_odd = by_tls or self._answering or (again and not self.outbox.peer_has_stopped)
            level = logging.WARNING if is_odd else logging.INFO
            if refused and not by_tls:
                level = logging.ERROR
            told = fields(**self._whose()["fields"], **self._certificate(error))
            log.log(level, "no link: %s%s", self._answering or text, again, extra=told)
        if not isinstance(error, AMQPError) or refused:
            self._answering = ""
        self.state, self.error = ("refused" if refused else "connecting"), self._answering or text

    def _certificate(self, error: BaseException) -> dict[str, str]:
        """The certificate that was refused: ours if the peer refused it, else the peer's."""
        if not isinstance(error, ssl.SSLError) or self._tls is None:
            return {}
        if refusal(error):
            ours = next((each for each in self._tls.ours if not each.is_authority), None)
            return ours.certificate.fields() if ours is not None else {}
        shown = from_der(error.certificate) if isinstance(error, HandshakeFailed) else None
        return shown.fields() if shown is not None else {}

    def _whose(self) -> dict[str, LogFields]:
        """The peer's name and address, for log lines. A secondary that joins knows no names until a primary answers."""
        return fields(peer=self.peer, address=self.address) if self.peer else fields(address=self.address)

    def _is_ending(self) -> bool:
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        if connection is not None:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(connection.close(), 1.0)
