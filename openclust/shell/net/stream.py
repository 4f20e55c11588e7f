"""A plain socket of a client or peer: it is read as bytes come, and written once a turn."""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from typing import Protocol

from openclust.broker.amqp.connection import Connection
from openclust.shell.net.traffic import NO_TRAFFIC, SocketTraffic, traffic_of

READ_BYTES = 131_072
PIECES_MAX = 512
"""How many pieces one sendmsg may take; the kernel's own bound is 1,024."""


class StreamHost(Protocol):
    """What a connection's socket tells the server, plain or TLS."""

    loop: asyncio.AbstractEventLoop

    def receive(self, connection: Connection, data: bytes) -> None: ...
    def close_later(self, connection: Connection) -> None: ...
    def connection_lost(self, connection: Connection) -> None: ...
    def turn_soon(self) -> None: ...


class Transport(Protocol):
    """What the server needs of a connection's socket, plain or TLS."""

    heard: bool
    sent_ms: int
    silent_ms: int
    wait_ms: int
    born_ms: int

    @property
    def connected_at_ms(self) -> int:
        """When the socket was connected, by the wall clock."""

    def traffic(self) -> SocketTraffic:
        """What has gone through the socket."""

    @property
    def is_waiting(self) -> bool:
        """Whether bytes written earlier still wait for the peer to read."""

    def flush(self) -> None:
        """Write the connection's outbox, as far as the socket takes it; the rest follows by itself."""

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def finish(self) -> None:
        """Write what is left, then close."""

    def abort(self) -> None:
        """Close now."""


class Gone:
    """Stands for the transport of a connection whose socket is closed."""

    __slots__ = ()

    heard = is_waiting = False
    sent_ms = silent_ms = wait_ms = born_ms = connected_at_ms = 0

    def flush(self) -> None: ...
    def traffic(self) -> SocketTraffic:
        return NO_TRAFFIC

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def finish(self) -> None: ...
    def abort(self) -> None: ...


GONE = Gone()


class Stream:
    """A plain socket on the event loop, without an asyncio transport: half the memory, and fewer steps a write."""

    __slots__ = (
        "born_ms",
        "connection",
        "fd",
        "finishing",
        "heard",
        "host",
        "pending",
        "pending_bytes",
        "reading",
        "sent_ms",
        "silent_ms",
        "sock",
        "wait_ms",
        "wall_offset_ms",
    )

    def __init__(self, host: StreamHost, sock: socket.socket, connection: Connection, now_ms: int) -> None:
        self.host = host
        self.sock: socket.socket | None = sock
        # asyncio is given the descriptor: for an unregistered socket it would format the socket's addresses each time.
        self.fd = sock.fileno()
        self.connection = connection
        self.born_ms = now_ms
        # As it is now: the wall clock may be set while the connection is there. The number is shared by many.
        self.wall_offset_ms = connection.broker.wall_offset_ms
        self.heard = True
        self.sent_ms = now_ms
        self.silent_ms = self.wait_ms = 0
        self.finishing = False
        self.pending: deque[bytes | memoryview] | None = None
        self.pending_bytes = 0
        self.reading = True
        host.loop.add_reader(self.fd, self._readable)

    @property
    def connected_at_ms(self) -> int:
        return self.born_ms + self.wall_offset_ms

    def traffic(self) -> SocketTraffic:
        return traffic_of(self.sock) if self.sock is not None else NO_TRAFFIC

    # -- reading

    def _readable(self) -> None:
        assert self.sock is not None, "a closed stream has no reader"
        try:
            data = self.sock.recv(READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.lost()
            return
        if not data:
            self.lost()
            return
        self.heard = True
        self.host.receive(self.connection, data)

    def pause_reading(self) -> None:
        if self.reading and self.sock is not None:
            self.reading = False
            self.host.loop.remove_reader(self.fd)

    def resume_reading(self) -> None:
        if not self.reading and self.sock is not None:
            self.reading = True
            self.host.loop.add_reader(self.fd, self._readable)

    # -- writing

    @property
    def is_waiting(self) -> bool:
        return self.pending is not None

    def flush(self) -> None:
        connection = self.connection
        out = connection.out
        if not out or self.sock is None:
            out.clear()
            return
        if self.pending is not None:
            size = sum(map(len, out))
            self.pending.extend(out)
            self.pending_bytes += size
            out.clear()
            connection.flushed(self.pending_bytes)
            return
        self.sent_ms = connection.broker.now_ms
        if len(out) > 1 and connection.bulky:
            self._send_pieces(out)
            return
        data = out[0] if len(out) == 1 else b"".join(out)
        out.clear()
        try:
            count = self.sock.send(data)
        except (BlockingIOError, InterruptedError):
            count = 0
        except OSError:
            self.lost()
            return
        if count < len(data):
            self._wait_to_write(deque((memoryview(data)[count:],)), len(data) - count)
        elif connection.out_bytes:
            connection.flushed(0)

    def _send_pieces(self, out: list[bytes]) -> None:
        """Send the pieces of an outbox without joining them: large bodies are shared by many outboxes."""
        self.connection.bulky = False
        pending: deque[bytes | memoryview] = deque(out)
        size = sum(map(len, out))
        out.clear()
        self.pending = pending
        self.pending_bytes = size
        if self._drain():
            self.pending = None
            self.connection.flushed(0)
        elif self.sock is not None:
            self._wait_to_write(pending, self.pending_bytes)

    def _wait_to_write(self, pending: deque[bytes | memoryview], size: int) -> None:
        assert self.sock is not None, "only an open socket has bytes to wait for"
        self.pending = pending
        self.pending_bytes = size
        self.host.loop.add_writer(self.fd, self._writable)
        self.connection.flushed(size)

    def _writable(self) -> None:
        if self._drain():
            assert self.sock is not None, "drained, so open"
            self.host.loop.remove_writer(self.fd)
            self.pending = None
            if self.finishing:
                self._shut()
        if self.sock is not None:
            self.connection.flushed(self.pending_bytes)
            self.host.turn_soon()

    def _drain(self) -> bool:
        """Send what is pending; whether all of it went."""
        pending = self.pending
        assert pending is not None and self.sock is not None, "called with bytes to send"
        while pending:
            try:
                if len(pending) == 1:
                    count = self.sock.send(pending[0])
                else:
                    count = self.sock.sendmsg([pending[at] for at in range(min(len(pending), PIECES_MAX))])
            except (BlockingIOError, InterruptedError):
                return False
            except OSError:
                self.lost()
                return False
            self.sent_ms = self.connection.broker.now_ms
            self.pending_bytes -= count
            while count:
                head = pending[0]
                if count < len(head):
                    pending[0] = memoryview(head)[count:]
                    break
                count -= len(head)
                pending.popleft()
        return True

    # -- the end

    def finish(self) -> None:
        self.flush()
        self.finishing = True
        if self.sock is not None:
            self.host.close_later(self.connection)
            if self.pending is None:
                self._shut()

    def _shut(self) -> None:
        """Close the sending half, and wait for the peer to close: a full close could discard bytes it has not read."""
        assert self.sock is not None, "shut once"
        try:
            self.sock.shutdown(socket.SHUT_WR)
        except OSError:
            self.lost()
            return
        self.resume_reading()

    def abort(self) -> None:
        self.lost()

    def hand_over(self) -> socket.socket | None:
        """Give the socket away. None if it is closed, or if bytes for the peer still wait here."""
        if self.pending is not None or self.connection.out:
            return None
        sock, self.sock = self.sock, None
        self.host.loop.remove_reader(self.fd)
        return sock

    def lost(self) -> None:
        """Close the socket, if it is open, and tell the host."""
        sock, self.sock = self.sock, None
        if sock is None:
            return
        self.host.loop.remove_reader(self.fd)
        self.host.loop.remove_writer(self.fd)
        sock.close()
        self.pending = None
        self.host.connection_lost(self.connection)
