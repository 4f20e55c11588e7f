"""Where the other brokers of the cluster come in."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from openclust.shell.config.addresses import peer_listen
from openclust.shell.net.listener import Listener, listening_sockets
from openclust.shell.tls.certificate_files import TlsFiles
from openclust.shell.tls.certificates import OurCertificate
from openclust.shell.tls.handshake_failure import HandshakeFailures
from openclust.shell.tls.peer_context import PeerContexts
from openclust.shell.tls.tls_stream import TlsStream

if TYPE_CHECKING:
    from openclust.shell.server import Server

log = logging.getLogger("openclust.server")


class PeerListener:
    """`address` is where it listens once it does; None in a cluster of one."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._plain: list[Listener] = []
        self._tls: list[asyncio.Server] = []
        self._failures = HandshakeFailures("broker", "cluster.peer_cert", "cluster.peer_ca", self._ours)
        self.address: tuple[str, int] | None = None

    async def start(self) -> None:
        """OSError where the address cannot be had."""
        server = self._server
        where = peer_listen(server.config)
        if where is None:
            return
        for sock in listening_sockets(*where, server.config.listen.backlog):
            host, port = sock.getsockname()[:2]
            self.address = self.address or (host, port)
            if server.peer_tls is None:
                self._plain.append(Listener(server.loop, sock, server.peer_connected))
            else:
                made = partial(self._tls_stream, server.peer_tls)
                self._tls.append(await server.loop.create_server(made, sock=sock))
            log.info("accepting peers on %s:%d%s", host, port, "" if server.peer_tls is None else ", by TLS")

    def _ours(self) -> Sequence[OurCertificate]:
        files = self._server.peer_tls
        return files.ours if files is not None else ()

    def _tls_stream(self, files: TlsFiles[PeerContexts]) -> TlsStream:
        return TlsStream(self._server, files.contexts.accepting, self._failures, is_peer=True)

    def close(self) -> None:
        for listener in self._plain:
            listener.close()
        for each in self._tls:
            each.close()
