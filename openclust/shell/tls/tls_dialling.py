"""TLS to another broker: where the handshake fails, that broker is told why, as it is told by `TlsStream`."""

from __future__ import annotations

import asyncio
import contextlib
import socket

from openclust.shell.tls.handshake_context import Handshake, HandshakeContext, HandshakeFailed

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def open_tls(host: str, port: int, context: HandshakeContext) -> Streams:
    """Streams to that address.

    HandshakeFailed where one side does not take the other, another OSError where nobody is there.
    """
    sock = await _connected(host, port)
    # asyncio closes the socket of a handshake that fails before the alert is on it.
    with sock.dup() as spare:
        try:
            reader, writer = await asyncio.open_connection(sock=sock, ssl=context, server_hostname=host)
        except HandshakeFailed as error:
            with contextlib.suppress(OSError):
                spare.send(error.alert)
                spare.shutdown(socket.SHUT_WR)
            raise
    tls = writer.get_extra_info("ssl_object")
    assert isinstance(tls, Handshake)
    tls.settle()
    return reader, writer


async def _connected(host: str, port: int) -> socket.socket:
    """A socket to the first address of that name that answers."""
    loop = asyncio.get_running_loop()
    problem = OSError(f"{host} has no address")
    for family, kind, protocol, _, address in await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        sock = socket.socket(family, kind, protocol)
        sock.setblocking(False)
        try:
            await loop.sock_connect(sock, address)
        except OSError as error:
            sock.close()
            problem = error
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise problem
