"""A TLS socket of a client or peer: its handshake, with an alert and a log line if it fails, and all that follows."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Mapping
from typing import Any, Protocol, cast

from openclust.broker.amqp.connection import Connection
from openclust.broker.model.peer import NOWHERE
from openclust.shell.host.clock import monotonic_ms
from openclust.shell.net.peer_address import shared_address
from openclust.shell.net.stream import StreamHost
from openclust.shell.net.traffic import NO_TRAFFIC, SocketTraffic, traffic_of
from openclust.shell.tls.handshake_context import Handshake, HandshakeContext
from openclust.shell.tls.handshake_failure import HandshakeFailures
from openclust.shell.tls.tls_session import TlsSession, session_of

READ_BYTES = 131_072
HEARD_BYTES = 8
NOT_TLS = bytes((0x15, 3, 3, 0, 2, 2, 70))
"""The fatal alert protocol_version (RFC 8446 6) answers bytes that are not TLS; OpenSSL has none for these. A broker
that dials without TLS learns by it what listens here."""

FAREWELL_S = 1.0
"""A refused client or peer has so long to read the alert and to close its socket."""


class TlsHost(StreamHost, Protocol):
    """What a socket with TLS tells the server, of its handshake too: `Server` says what each call is for."""

    def tls_accepted(self, stream: TlsStream) -> bool: ...
    def tls_connected(self, stream: TlsStream, certificate: Mapping[str, Any]) -> Connection: ...
    def tls_ended(self, stream: TlsStream) -> None: ...


class TlsStream(asyncio.Protocol):
    """TLS over asyncio's plain transport.

    If a handshake fails, asyncio's own TLS closes the socket without writing the alert, and logs nothing.
    """

    def __init__(
        self,
        host: TlsHost,
        context: HandshakeContext,
        failures: HandshakeFailures,
        *,
        handshake_timeout_ms: int,
        is_peer: bool = False,
    ) -> None:
        self._host = host
        self.is_peer = is_peer
        self.heard = True
        self.sent_ms = self.silent_ms = self.wait_ms = 0
        # The TLS handshake has half of the time for the whole login.
        self.born_ms = monotonic_ms()
        self.connected_at_ms = 0
        self.connection: Connection | None = None
        self.transport: asyncio.Transport | None = None
        self.address = self.local_address = NOWHERE
        self._failures = failures
        self._handshake_timeout_ms = handshake_timeout_ms
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = cast(Handshake, context.wrap_bio(self._incoming, self._outgoing, server_side=True))
        self._began = b""
        # Bounds the handshake and, if that fails, the wait for the other side to close.
        self._timer: asyncio.TimerHandle | None = None
        self._is_over = False

    # -- the handshake

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.set_write_buffer_limits(high=65_536)
        name = transport.get_extra_info("peername") or ("", 0)
        self.address = (name[0], name[1])
        local = transport.get_extra_info("sockname") or NOWHERE
        self.local_address = shared_address(local[0], local[1])
        if not self._host.tls_accepted(self):
            self._is_over = True
            transport.abort()
            return
        wait_s = self._handshake_timeout_ms / 2_000
        self._timer = self._host.loop.call_later(wait_s, self._timed_out)

    def _shake_hands(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._send_on()
            return
        except ssl.SSLError as error:
            self._failures.failed(self.address, error, self._began, monotonic_ms())
            self._part(getattr(error, "alert", b"") or NOT_TLS)
            return
        self._send_on()
        self._settle_timer()
        certificate = self._tls.getpeercert()
        self._tls.settle()
        connected_ms, self.born_ms = self.born_ms, monotonic_ms() - self._handshake_timeout_ms // 2
        self.connection = self._host.tls_connected(self, certificate or {})
        self.connected_at_ms = connected_ms + self.connection.broker.wall_offset_ms

    def traffic(self) -> SocketTraffic:
        """With all that TLS adds."""
        return traffic_of(self.transport.get_extra_info("socket")) if self.transport is not None else NO_TRAFFIC

    def session(self) -> TlsSession | None:
        """What was agreed in the handshake; None before its end."""
        return session_of(self._tls) if self.connection is not None else None

    def _timed_out(self) -> None:
        self._timer = None
        if not self._is_over:
            self._failures.timed_out(self.address, monotonic_ms())
        self.abort()

    def _part(self, alert: bytes) -> None:
        """Send the alert, and wait for the other side to close: closing at once could discard the alert."""
        self._is_over = True
        self._settle_timer()
        if self.transport is None:
            return
        self._timer = self._host.loop.call_later(FAREWELL_S, self._timed_out)
        self.transport.write(alert)
        self._write_eof()

    def _settle_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # -- reading

    def data_received(self, data: bytes) -> None:
        if self._is_over:
            return
        if len(self._began) < HEARD_BYTES:
            self._began += data[: HEARD_BYTES - len(self._began)]
        self._incoming.write(data)
        if self.connection is None:
            self._shake_hands()
        if self.connection is not None:
            self._read(self.connection)

    def _read(self, connection: Connection) -> None:
        pieces: list[bytes] = []
        is_ended = False
        try:
            while piece := self._tls.read(READ_BYTES):
                pieces.append(piece)
            is_ended = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError:
            is_ended = True
        self._send_on()
        if pieces:
            self.heard = True
            self._host.receive(connection, pieces[0] if len(pieces) == 1 else b"".join(pieces))
        if is_ended:
            self.abort()

    def eof_received(self) -> bool:
        if self.connection is not None and not self._is_over:
            # The client has closed: bytes that still wait for it must not keep the connection open.
            self.abort()
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self.transport = None
        self._settle_timer()
        if self.connection is not None:
            connection, self.connection = self.connection, None
            self._host.connection_lost(connection)
            return
        if self._began and not self._is_over:
            self._failures.gave_up(self.address, monotonic_ms())
        self._host.tls_ended(self)

    def pause_reading(self) -> None:
        if self.transport is not None and self.transport.is_reading():
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        if self.transport is not None and not self.transport.is_closing() and not self.transport.is_reading():
            self.transport.resume_reading()

    # -- writing

    @property
    def is_waiting(self) -> bool:
        return self.transport is not None and self.transport.get_write_buffer_size() > 0

    def flush(self) -> None:
        connection = self.connection
        if connection is None or self.transport is None:
            return
        data = b"".join(connection.out)
        connection.out.clear()
        connection.bulky = False
        if self._is_over:
            return
        self.sent_ms = connection.broker.now_ms
        if data:
            count = self._tls.write(data)
            while count < len(data):
                count += self._tls.write(memoryview(data)[count:])
            self._send_on()
        connection.flushed(self.transport.get_write_buffer_size())

    def _send_on(self) -> None:
        """Write the bytes that TLS has for the other side."""
        if self._outgoing.pending and self.transport is not None and not self._is_over:
            self.transport.write(self._outgoing.read())

    def pause_writing(self) -> None:
        """`flush` tells how much waits."""

    def resume_writing(self) -> None:
        if self.connection is not None and self.transport is not None:
            self.connection.flushed(self.transport.get_write_buffer_size())
            self._host.turn_soon()

    # -- the end

    def finish(self) -> None:
        self.flush()
        if self.transport is None or self.connection is None or self._is_over:
            return
        self._host.close_later(self.connection)
        # `unwrap` raises an error because the other side's close_notify is missing; it need not be waited for.
        with contextlib.suppress(ssl.SSLError):
            self._tls.unwrap()
        self._send_on()
        self._is_over = True
        self._write_eof()
        # The end of the other side is still to be read.
        self.resume_reading()

    def _write_eof(self) -> None:
        assert self.transport is not None, "called with a transport"
        try:
            self.transport.write_eof()
        except OSError:
            self.transport.abort()

    def abort(self) -> None:
        self._is_over = True
        if self.transport is not None:
            self.transport.abort()
