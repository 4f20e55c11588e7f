"""The listener for Prometheus: metrics without a login, and nothing else. It loads aiohttp."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from aiohttp import web

from openclust.manage.api.http_connection import ClosingConnection
from openclust.manage.brokers.listeners import HttpAddress
from openclust.manage.calls.call import Refused, answer, not_found
from openclust.manage.metrics.exposition import Scraped
from openclust.manage.metrics.metrics_calls import accepted, detailed_of, scrape_response
from openclust.manage.metrics.scrapes import aggregated, per_object
from openclust.shell.config.schema import MetricsSection
from openclust.shell.net.peer_address import is_loopback

if TYPE_CHECKING:
    from openclust.shell.server import Server

log = logging.getLogger("openclust.http")

CONNECTIONS_MAX = 32
KEEPALIVE_S = 120.0
STOP_WAIT_S = 2.0
REQUEST_LINE_BYTES_MAX = 8_190


class MetricsListener:
    """A service of the broker: `start` listens (OSError if the address cannot be used), `stop` closes everything."""

    def __init__(self, config: MetricsSection, http: list[HttpAddress]) -> None:
        """It adds its address to `http` when it listens."""
        self.config = config
        self._http = http
        self.port = 0
        """The port it listens on, once started."""
        self._runner: web.AppRunner | None = None
        self._listener: asyncio.Server | None = None

    async def start(self, server: Server) -> None:
        async def sums(request: web.Request) -> Scraped:
            return await aggregated(server, *accepted(request))

        async def objects(request: web.Request) -> Scraped:
            return await per_object(server, *accepted(request))

        async def detailed(request: web.Request) -> Scraped:
            return await detailed_of(server, request)

        app = web.Application()
        for path, scrape in (("/metrics", sums), ("/metrics/per-object", objects), ("/metrics/detailed", detailed)):
            app.router.add_get(path, self._served(scrape))
        app.router.add_route("*", "/{path:.*}", _nothing)
        runner = web.AppRunner(
            app,
            access_log=None,
            shutdown_timeout=STOP_WAIT_S,
            keepalive_timeout=KEEPALIVE_S,
            max_line_size=REQUEST_LINE_BYTES_MAX,
        )
        await runner.setup()
        self._runner = runner
        self._listener = await asyncio.get_running_loop().create_server(
            self._protocol, self.config.host, self.config.port
        )
        address = self._listener.sockets[0].getsockname()
        self.port = address[1]
        self._http.append(HttpAddress(address[0], self.port, "http/prometheus", "openclust metrics", "/metrics"))
        log.info("metrics on http://%s:%d/metrics", address[0], address[1])

    async def stop(self) -> None:
        if self._listener is not None:
            self._listener.close()
        if self._runner is not None:
            await self._runner.cleanup()

    def _protocol(self) -> asyncio.BaseProtocol:
        assert self._runner is not None and self._runner.server is not None, "it is set up before it listens"
        if len(self._runner.server.connections) >= CONNECTIONS_MAX:
            return ClosingConnection()
        return self._runner.server()

    def _served(
        self, scrape: Callable[[web.Request], Awaitable[Scraped]]
    ) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def served(request: web.Request) -> web.Response:
            if self.config.from_loopback_only and not is_loopback(request.remote or ""):
                reason = "metrics are read from the loopback only; metrics.from_loopback_only = false lets others too"
                return answer({"error": "not_authorized", "reason": reason}, 403)
            try:
                return scrape_response(await scrape(request))
            except Refused as refused:
                return answer(refused.body, refused.status)

        return served


async def _nothing(request: web.Request) -> web.Response:
    return answer(not_found(f"there is no {request.path}: ask for /metrics").body, 404)
