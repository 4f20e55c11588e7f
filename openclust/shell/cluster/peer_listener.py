"""The listener for the links of other brokers, plain or TLS."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Sequence
from functools import partial
from typing import Protocol

from openclust.shell.config.addresses import peer_listen
from openclust.shell.config.schema import Config
from openclust.shell.net.listener import Listener, listening_sockets
from openclust.shell.tls.certificate_files import TlsFiles
from openclust.shell.tls.certificates import OurCertificate
from openclust.shell.tls.handshake_failure import HandshakeFailures
from openclust.shell.tls.peer_context import PeerContexts
from openclust.shell.tls.tls_stream import TlsHost, TlsStream

log = logging.getLogger("openclust.server")


class PeerHost(TlsHost, Protocol):
    """Takes the sockets that were accepted, plain or with TLS."""

    def peer_connected(self, sock: socket.socket, address: tuple[str, int]) -> None: ...


class PeerListener:
    """`address` is where it listens after `start`; None in a cluster of one."""

    def __init__(self, config: Config, files: TlsFiles[PeerContexts] | None, host: PeerHost) -> None:
        """`files` are those of TLS; None where peers come without."""
        self._config = config
        self._files = files
        self._host = host
        self._plain: list[Listener] = []
        self._tls: list[asyncio.Server] = []
        self._failures = HandshakeFailures("broker", "cluster.peer_cert", "cluster.peer_ca", self._ours)
        self.address: tuple[str, int] | None = None

    async def start(self) -> None:
        """Begin to listen. OSError if the address cannot be used."""
        where = peer_listen(self._config)
        if where is None:
            return
        for sock in listening_sockets(*where, self._config.listen.backlog):
            host, port = sock.getsockname()[:2]
            self.address = self.address or (host, port)
            if self._files is None:
                self._plain.append(Listener(self._host.loop, sock, self._host.peer_connected))
            else:
                made = partial(self._tls_stream, self._files)
                self._tls.append(await self._host.loop.create_server(made, sock=sock))
            log.info("accepting peers on %s:%d%s", host, port, "" if self._files is None else ", by TLS")

    def _ours(self) -> Sequence[OurCertificate]:
        return self._files.ours if self._files is not None else ()

    def _tls_stream(self, files: TlsFiles[PeerContexts]) -> TlsStream:
        return TlsStream(
            self._host,
            files.contexts.accepting,
            self._failures,
            handshake_timeout_ms=self._config.limits.handshake_timeout_ms,
            is_peer=True,
        )

    def close(self) -> None:
        for listener in self._plain:
            listener.close()
        for each in self._tls:
            each.close()
