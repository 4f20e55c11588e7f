"""The management API over HTTP, in the shapes of RabbitMQ's. It loads aiohttp: import it only where it is wanted."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from aiohttp import web

from openclust import __version__
from openclust.manage.api.answer_headers import AnswerHeaders, accepts, allowed, compress
from openclust.manage.api.http_connection import ClosingConnection, HttpConnection
from openclust.manage.api.routes import ROUTES
from openclust.manage.api.tls_connection import TlsConnections
from openclust.manage.brokers.listeners import HttpAddress
from openclust.manage.calls.call import NOBODY, WHOEVER_LOGS_IN, WITHOUT_LOGIN, Call, Refused, answer, not_found
from openclust.manage.calls.http_logins import HTTP_LOGINS, HttpLogins
from openclust.manage.calls.route import ApiRoute
from openclust.manage.management import Management
from openclust.shell.config.addresses import http_url, join_address
from openclust.shell.config.schema import HttpSection
from openclust.shell.host.event_log import one_line

if TYPE_CHECKING:
    from openclust.shell.server import Server

log = logging.getLogger("openclust.http")

CONNECTIONS_MAX = 256
FIRST_REQUEST_WAIT_S = 10.0
STOP_WAIT_S = 2.0


class HttpApi:
    """A service of the broker: `start` listens (OSError if the address cannot be used), `stop` closes everything."""

    def __init__(self, config: HttpSection, management: Management) -> None:
        self.config = config
        self._management = management
        self.port = 0
        """The port it listens on, once started."""
        self._server: Server | None = None
        self._runner: web.AppRunner | None = None
        self._listener: asyncio.Server | None = None
        self._logins: HttpLogins
        self._headers = AnswerHeaders(config)
        self._tls: TlsConnections | None = None
        self._silent: dict[asyncio.BaseProtocol, asyncio.TimerHandle] = {}

    async def start(self, server: Server) -> None:
        self._server = server
        loop = asyncio.get_running_loop()
        factory = self._protocol
        if server.http_tls is not None:
            self._tls = TlsConnections(server.http_tls, self._protocol)
            factory = self._tls_protocol
        listener = await loop.create_server(factory, self.config.host, self.config.port, start_serving=False)
        self._listener = listener
        address = listener.sockets[0].getsockname()
        self.port = address[1]
        self._logins = HttpLogins(self.config, server, self.port)
        app = web.Application(middlewares=[self._answer_errors])
        app[HTTP_LOGINS] = self._logins
        app.on_response_prepare.append(self._headers.prepare)
        for route in ROUTES:
            served = self._guarded(route)
            path = f"{self.config.path_prefix}{route.path}"
            for method in (route.method, "HEAD") if route.method == "GET" else (route.method,):
                app.router.add_route(method, path, served)
                # As in RabbitMQ: "/api/queues/" is what scripts that join paths ask for.
                app.router.add_route(method, f"{path}/", served)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=STOP_WAIT_S)
        await runner.setup()
        self._runner = runner
        protocol = "http" if self._tls is None else "https"
        path = self.config.path_prefix or "/"
        self._management.http.append(HttpAddress(address[0], self.port, protocol, "openclust management", path))
        await listener.start_serving()
        log.info("HTTP API on %s/api/", http_url(self.config, join_address(address[0], address[1])))

    async def stop(self) -> None:
        if self._listener is not None:
            self._listener.close()
        if self._tls is not None:
            self._tls.stop()
        if self._runner is not None:
            await self._runner.cleanup()

    # -- connections

    def _tls_protocol(self) -> asyncio.Protocol:
        """The protocol of a new connection that begins with a handshake."""
        assert self._tls is not None and self._runner is not None and self._runner.server is not None
        if len(self._runner.server.connections) + len(self._tls) >= CONNECTIONS_MAX:
            return ClosingConnection()
        return self._tls.protocol()

    def _protocol(self) -> asyncio.Protocol:
        """The protocol of a new connection. Connections beyond the bound, and silent ones, are closed."""
        assert self._runner is not None and self._runner.server is not None, "it is set up before it listens"
        if len(self._runner.server.connections) >= CONNECTIONS_MAX:
            return ClosingConnection()
        loop = asyncio.get_running_loop()
        protocol = HttpConnection(self._runner.server, self._headers, loop)
        self._silent[protocol] = loop.call_later(FIRST_REQUEST_WAIT_S, self._close_silent, protocol)
        return protocol

    def _close_silent(self, protocol: web.RequestHandler) -> None:
        del self._silent[protocol]
        if protocol.transport is not None:
            protocol.transport.abort()

    # -- requests

    @web.middleware
    async def _answer_errors(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Every answer is JSON, errors too."""
        silent = self._silent.pop(request.protocol, None)
        if silent is not None:
            silent.cancel()
        try:
            response = await handler(request)
            await compress(request, response)
            return response
        except Refused as refused:
            return self._refusal(request, refused)
        except web.HTTPNotFound:
            return answer(not_found(f"there is no {request.path}").body, 404)
        except web.HTTPMethodNotAllowed as error:
            if request.method == "OPTIONS":
                return self._headers.options(request, error.allowed_methods)
            allow = allowed(error.allowed_methods)
            reason = f"{request.path} has no {request.method}; it has {allow}"
            return answer({"error": "method_not_allowed", "reason": reason}, 405, {"Allow": allow})
        except web.HTTPException as error:
            return answer({"error": "refused", "reason": error.reason}, error.status)
        except (ConnectionResetError, asyncio.CancelledError):
            raise
        except Exception as error:
            log.exception("%s %s failed", request.method, request.path)
            reason = f"this is a mistake in openclust {__version__}, please report it: {one_line(error)}"
            return answer({"error": "internal_error", "reason": reason}, 500)

    def _refusal(self, request: web.Request, refused: Refused) -> web.Response:
        response = answer(refused.body, refused.status, refused.headers)
        # A browser asks for a password by itself if it is told this: not in the middle of a page with a session.
        if refused.status == 401 and self._logins.cookie_name not in request.cookies:
            response.headers["WWW-Authenticate"] = 'Basic realm="openclust", charset="UTF-8"'
        return response

    def _guarded(self, route: ApiRoute) -> Callable[[web.Request], Awaitable[web.Response]]:
        """The route's handler, for users who have one of the tags that it needs."""
        tags = route.tags

        async def guarded(request: web.Request) -> web.Response:
            assert self._server is not None, "it is there before it listens"
            user = NOBODY if tags is WITHOUT_LOGIN else await self._logins.user_of(request)
            if tags is not WHOEVER_LOGS_IN and tags is not WITHOUT_LOGIN and tags.isdisjoint(user.tags):
                wanted = " or ".join(sorted(tags))
                raise Refused(403, "not_authorized", f"user '{user.name}' has not the tag {wanted}")
            # Metrics choose one of several types by themselves.
            is_json = route.produces == "application/json"
            if is_json and not accepts(request.headers.get("Accept", ""), route.produces):
                raise Refused(406, "not_acceptable", f"the answer is {route.produces}, which Accept does not take")
            return await route.handler(Call(self._server, self._management.gathering, request, user))

        return guarded
