"""The management API over HTTP, in the shapes of RabbitMQ's. It loads aiohttp: import it only where it is wanted."""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from aiohttp import web

from openclust import __version__
from openclust.broker.model.access import User
from openclust.manage.api.routes import ROUTES
from openclust.manage.brokers.listeners import HttpAddress
from openclust.manage.calls.call import NOBODY, WHOEVER_LOGS_IN, WITHOUT_LOGIN, Call, Refused, answer, not_found
from openclust.manage.calls.route import Handler
from openclust.manage.management import Management
from openclust.shell.config.schema import HttpSection
from openclust.shell.host.event_log import one_line
from openclust.shell.net.peer_address import is_loopback
from openclust.wire.sasl import Credentials

if TYPE_CHECKING:
    from openclust.shell.server import Server

log = logging.getLogger("openclust.http")

CONNECTIONS_MAX = 256
FIRST_REQUEST_WAIT_S = 10.0
KEEPALIVE_S = 60.0
STOP_WAIT_S = 2.0
HEADER_BYTES_MAX = 16_384


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
        self._silent: dict[asyncio.BaseProtocol, asyncio.TimerHandle] = {}

    async def start(self, server: Server) -> None:
        self._server = server
        app = web.Application(middlewares=[self._answer_errors])
        for route in ROUTES:
            served = self._guarded(route.handler, route.tags)
            app.router.add_route(route.method, route.path, served)
            # As in RabbitMQ: "/api/queues/" is what scripts that join paths ask for.
            app.router.add_route(route.method, f"{route.path}/", served)
        runner = web.AppRunner(
            app,
            access_log=None,
            shutdown_timeout=STOP_WAIT_S,
            keepalive_timeout=KEEPALIVE_S,
            max_line_size=HEADER_BYTES_MAX,
            max_field_size=HEADER_BYTES_MAX,
        )
        await runner.setup()
        self._runner = runner
        self._listener = await asyncio.get_running_loop().create_server(
            self._protocol, self.config.host, self.config.port
        )
        address = self._listener.sockets[0].getsockname()
        self.port = address[1]
        self._management.http.append(HttpAddress(address[0], self.port, False, "openclust management", "/"))
        log.info("HTTP API on http://%s:%d/api/", address[0], address[1])

    async def stop(self) -> None:
        if self._listener is not None:
            self._listener.close()
        if self._runner is not None:
            await self._runner.cleanup()

    # -- connections

    def _protocol(self) -> asyncio.BaseProtocol:
        """The protocol of a new connection. Connections beyond the bound, and silent ones, are closed."""
        assert self._runner is not None and self._runner.server is not None, "it is set up before it listens"
        if len(self._runner.server.connections) >= CONNECTIONS_MAX:
            return _Refusal()
        protocol = self._runner.server()
        loop = asyncio.get_running_loop()
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
        except Refused as refused:
            response = answer(refused.body, refused.status)
            if refused.status == 401:
                response.headers["WWW-Authenticate"] = 'Basic realm="openclust", charset="UTF-8"'
        except web.HTTPNotFound:
            response = answer(not_found(f"there is no {request.path}").body, 404)
        except web.HTTPException as error:
            headers = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else None
            response = answer({"error": "refused", "reason": error.reason}, error.status, headers)
        except (ConnectionResetError, asyncio.CancelledError):
            raise
        except Exception as error:
            log.exception("%s %s failed", request.method, request.path)
            reason = f"this is a mistake in openclust {__version__}, please report it: {one_line(error)}"
            response = answer({"error": "internal_error", "reason": reason}, 500)
        response.headers["Cache-Control"] = "no-store"
        response.headers["X-Content-Type-Options"] = "nosniff"
        return response

    def _guarded(self, handler: Handler, tags: frozenset[str]) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def guarded(request: web.Request) -> web.Response:
            assert self._server is not None, "it is there before it listens"
            user = NOBODY if tags is WITHOUT_LOGIN else await self._log_in(request, self._server)
            if tags is not WHOEVER_LOGS_IN and tags is not WITHOUT_LOGIN and tags.isdisjoint(user.tags):
                wanted = " or ".join(sorted(tags))
                raise Refused(403, "not_authorized", f"user '{user.name}' has not the tag {wanted}")
            return await handler(Call(self._server, self._management.gathering, request, user))

        return guarded

    async def _log_in(self, request: web.Request, server: Server) -> User:
        credentials = _credentials(request.headers.get("Authorization", ""))
        if credentials is None:
            raise Refused(401, "not_authorized", "give a user and a password (HTTP basic authentication)")
        broker = server.broker
        server.refresh_users()
        user = broker.users.get(credentials.name)
        right = server.logins.known(user, credentials)
        if right is None:
            right = await server.logins.check(user, credentials)
        if user is None or not right:
            if server.line_limit.admits(request.remote or "", "login to the HTTP API refused", server.now_ms()):
                log.warning(
                    "login refused: wrong user name or password, from %s as %s", request.remote, credentials.name
                )
            raise Refused(401, "not_authorized", "wrong user name or password")
        if user.name == "guest" and broker.guest_from_loopback_only and not is_loopback(request.remote or ""):
            raise Refused(401, "not_authorized", "user 'guest' can only connect from the loopback")
        return user


class _Refusal(asyncio.Protocol):
    """Closes its connection at once."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


def _credentials(header: str) -> Credentials | None:
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        name, colon, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
        return Credentials(name.decode(), password) if colon else None
    except (binascii.Error, UnicodeError, ValueError):
        return None
