"""TLS to another broker. If the handshake fails, that broker gets an alert with the reason, as from `TlsStream`."""

from __future__ import annotations

import asyncio
import contextlib
import socket

from openclust.shell.tls.handshake_context import Handshake, HandshakeContext, HandshakeFailed

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def open_tls(host: str, port: int, context: HandshakeContext) -> Streams:
    """Streams to that address.

    HandshakeFailed if one side refuses the other, another OSError if no broker answers.
    """
    sock = await _connected(host, port)
    # If a handshake fails, asyncio closes its socket before the alert is written: the duplicate is for the alert.
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
