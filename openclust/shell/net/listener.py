"""Listening sockets, and a listener that pauses when the process has no file descriptors left."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable

from openclust.shell.config.addresses import join_address

log = logging.getLogger("openclust.listener")

ACCEPTS_A_TURN = 64
RETRY_S = 1.0
_OUT_OF_FILES = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


def listening_sockets(host: str, port: int, backlog: int) -> list[socket.socket]:
    """Sockets that listen on every address of `host`. OSError if one cannot."""
    found: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        ):
            sock = socket.socket(family, kind, protocol)
            found.append(sock)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # On Linux accepted sockets inherit these two, which saves two system calls per connection.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.setblocking(False)
            try:
                sock.bind(address)
                sock.listen(backlog)
            except OSError as error:
                error.filename = join_address(str(address[0]), int(address[1]))
                raise
            if port == 0:
                break  # else each address would get another free port
    except BaseException:
        for sock in found:
            sock.close()
        raise
    return found


class Listener:
    """Accepts connections and gives each to `on_socket`. At the limit of open files it pauses, and logs that."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        on_socket: Callable[[socket.socket, tuple[str, int]], None],
    ) -> None:
        self._loop = loop
        self._sock = sock
        self._on_socket = on_socket
        self._retry: asyncio.TimerHandle | None = None
        loop.add_reader(sock, self._acceptable)

    @property
    def address(self) -> tuple[str, int]:
        name = self._sock.getsockname()
        return name[0], name[1]

    def _acceptable(self) -> None:
        for _ in range(ACCEPTS_A_TURN):
            try:
                sock, address = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _OUT_OF_FILES:
                    raise
                self._pause(error)
                return
            sock.setblocking(False)
            self._on_socket(sock, (address[0], address[1]))

    def _pause(self, error: OSError) -> None:
        log.error("not accepting for %g s: %s; raise the limit of open files", RETRY_S, error.strerror)
        self._loop.remove_reader(self._sock)
        self._retry = self._loop.call_later(RETRY_S, self._loop.add_reader, self._sock, self._acceptable)

    def close(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
        self._loop.remove_reader(self._sock)
        self._sock.close()
