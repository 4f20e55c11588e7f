"""Where the other brokers of the cluster come in."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from openclust.shell.config_cluster import peer_listen
from openclust.shell.listener import Listener, listening_sockets
from openclust.shell.peer_tls import accepting
from openclust.shell.stream import TlsStream

if TYPE_CHECKING:
    from openclust.shell.server import Server

log = logging.getLogger("openclust.server")


class PeerListener:
    """`address` is where it listens once it does; None in a cluster of one."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._plain: list[Listener] = []
        self._tls: list[asyncio.Server] = []
        self.address: tuple[str, int] | None = None

    async def start(self) -> None:
        """OSError where the address cannot be had."""
        server = self._server
        where = peer_listen(server.config)
        if where is None:
            return
        context = accepting(server.config.cluster)
        for sock in listening_sockets(*where, server.config.listen.backlog):
            host, port = sock.getsockname()[:2]
            self.address = self.address or (host, port)
            if context is None:
                self._plain.append(Listener(server.loop, sock, server.peer_connected))
            else:
                self._tls.append(
                    await server.loop.create_server(lambda: TlsStream(server, is_peer=True), sock=sock, ssl=context)
                )
            log.info("accepting peers on %s:%d%s", host, port, "" if context is None else ", by TLS")

    def close(self) -> None:
        for listener in self._plain:
            listener.close()
        for each in self._tls:
            each.close()
