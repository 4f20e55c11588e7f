"""TLS before HTTP: the handshake of a caller, with an alert and a log line if it fails."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable

from openclust.shell.host.clock import monotonic_ms
from openclust.shell.tls.certificate_files import TlsFiles
from openclust.shell.tls.handshake_context import Handshake, HandshakeContext, HandshakeFailed
from openclust.shell.tls.handshake_failure import HandshakeFailures

HANDSHAKE_WAIT_S = 10.0
PLAIN_HTTP = "HTTP_REQUEST"
"""OpenSSL's reason for a request without TLS."""
PLAIN_HTTP_ANSWER = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"
    b'{"error":"bad_request","reason":"this port is for HTTPS"}'
)


class TlsConnections:
    """Makes the protocol of each new connection. `make_protocol` makes the one that speaks HTTP, after the handshake.

    `files` are read again when they are renewed: each handshake takes the context of its moment.
    """

    def __init__(self, files: TlsFiles[HandshakeContext], make_protocol: Callable[[], asyncio.Protocol]) -> None:
        self._files = files
        self._make_protocol = make_protocol
        self._failures = HandshakeFailures("HTTP client", "http.tls_cert", "http.tls_ca", lambda: files.ours)
        self._handshakes: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """How many handshakes are under way."""
        return len(self._handshakes)

    def protocol(self) -> asyncio.Protocol:
        return _Beginning(self._begin)

    def stop(self) -> None:
        for task in self._handshakes:
            task.cancel()

    def _begin(self, transport: asyncio.Transport) -> None:
        task = asyncio.get_running_loop().create_task(self._shake_hands(transport))
        self._handshakes.add(task)
        task.add_done_callback(self._handshakes.discard)

    async def _shake_hands(self, transport: asyncio.Transport) -> None:
        name = transport.get_extra_info("peername") or ("", 0)
        peer = (name[0], name[1])
        held = _HeldBytes()
        # If a handshake fails, asyncio closes its socket before the alert is written: the duplicate is for the alert.
        with contextlib.closing(transport.get_extra_info("socket").dup()) as spare:
            try:
                tls = await asyncio.get_running_loop().start_tls(
                    transport,
                    held,
                    self._files.contexts,
                    server_side=True,
                    ssl_handshake_timeout=HANDSHAKE_WAIT_S,
                )
            except HandshakeFailed as error:
                self._failures.failed(peer, error, b"\x16", monotonic_ms())
                with contextlib.suppress(OSError):
                    spare.send(PLAIN_HTTP_ANSWER if error.reason == PLAIN_HTTP else error.alert)
                transport.abort()
                return
            except ssl.SSLError as error:
                self._failures.failed(peer, error, b"\x16", monotonic_ms())
                transport.abort()
                return
            except ConnectionAbortedError:
                self._failures.timed_out(peer, monotonic_ms())
                transport.abort()
                return
            except OSError:
                # The other side has gone, as a load balancer does that only looks whether the port is open.
                transport.abort()
                return
        if tls is None:
            return
        handshake = tls.get_extra_info("ssl_object")
        assert isinstance(handshake, Handshake)
        handshake.settle()
        held.give_over(tls, self._make_protocol())


class _Beginning(asyncio.Protocol):
    """A connection whose handshake is yet to begin."""

    def __init__(self, begin: Callable[[asyncio.Transport], None]) -> None:
        self._begin = begin

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._begin(transport)


class _HeldBytes(asyncio.Protocol):
    """Keeps what comes right behind the handshake, until the protocol that is to read it is there."""

    def __init__(self) -> None:
        self._data: list[bytes] = []
        self._is_lost = False

    def data_received(self, data: bytes) -> None:
        self._data.append(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._is_lost = True

    def give_over(self, transport: asyncio.Transport, protocol: asyncio.Protocol) -> None:
        if self._is_lost:
            return
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        for data in self._data:
            protocol.data_received(data)
        self._data.clear()
