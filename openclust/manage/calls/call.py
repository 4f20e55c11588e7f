"""One call of the HTTP API: its user, the virtual hosts that this user may see, its body, and changes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from aiohttp import web

from openclust.broker.model.access import User
from openclust.broker.model.changes import Change
from openclust.broker.server.broker import Broker
from openclust.broker.server.vhost import VirtualHost
from openclust.manage.gather.gathering import ClusterQuery
from openclust.manage.gather.questions import Viewer
from openclust.wire.errors import NOT_FOUND, AmqpError

if TYPE_CHECKING:
    from openclust.shell.server import Server

BODY_BYTES_MAX = 1_048_576
BODY_WAIT_S = 120.0
ANSWER_WAIT_S = 30.0

ADMINISTRATOR = frozenset({"administrator"})
POLICYMAKER = ADMINISTRATOR | {"policymaker"}
MONITORING = ADMINISTRATOR | {"monitoring"}
ANYBODY = POLICYMAKER | MONITORING | {"management"}
WHOEVER_LOGS_IN: frozenset[str] = frozenset({""})
"""No tag is needed. Compare by identity: this object is a sign, and its contents mean nothing."""
WITHOUT_LOGIN: frozenset[str] = frozenset({" "})
"""Anybody may call, without a user: the call's user is `NOBODY`. Compare by identity, as above."""
NOBODY = User(name="", password_hash="")

T = TypeVar("T")


class Refused(Exception):
    """The answer is an error: its status, one word for programs, and a line for people."""

    def __init__(self, status: int, error: str, reason: str | list[Any], **more: Any) -> None:
        super().__init__(reason)
        self.status = status
        self.body = {"error": error, "reason": reason, **more}
        self.headers: dict[str, str] = {}

    def with_headers(self, headers: dict[str, str]) -> Refused:
        self.headers |= headers
        return self


def bad_request(reason: str, **more: Any) -> Refused:
    return Refused(400, "bad_request", reason, **more)


def not_found(what: str) -> Refused:
    return Refused(404, "not_found", what)


def answer(body: Any, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    """A JSON answer."""
    data = msgspec.json.encode(body)
    return web.Response(body=data, status=status, content_type="application/json", headers=headers)


class Call:
    """A call whose user is logged in and has the tags for it."""

    __slots__ = ("gathering", "request", "server", "user")

    def __init__(self, server: Server, gathering: ClusterQuery, request: web.Request, user: User) -> None:
        self.server = server
        self.gathering = gathering
        self.request = request
        self.user = user

    @property
    def broker(self) -> Broker:
        return self.server.broker

    def part(self, name: str) -> str:
        """A part of the path, with %2F and the like decoded."""
        return self.request.match_info[name]

    # -- what may be seen

    @property
    def sees_all(self) -> bool:
        return not MONITORING.isdisjoint(self.user.tags)

    def viewer(self) -> Viewer:
        """Who asks, for the other brokers."""
        seen = () if self.sees_all else tuple(each.name for each in self.vhosts())
        return Viewer(name=self.user.name, sees_all=self.sees_all, vhosts=seen)

    def vhost_name(self) -> str | None:
        """The virtual host that the path names; None if it names none."""
        return self.vhost().name if "vhost" in self.request.match_info else None

    def vhosts(self) -> list[VirtualHost]:
        """The virtual hosts that the caller may see: the one that the path names, or all."""
        if "vhost" in self.request.match_info:
            return [self.vhost()]
        vhosts = self.broker.vhosts
        return [vhosts[name] for name in sorted(vhosts) if self.sees_all or self.user.may_enter(name)]

    def vhost(self) -> VirtualHost:
        """The virtual host that the path names."""
        name = self.part("vhost")
        vhost = self.broker.vhosts.get(name)
        if vhost is None or not (self.sees_all or self.user.may_enter(name)):
            raise not_found(f"no vhost '{name}' that user '{self.user.name}' may see")
        return vhost

    def named_user(self) -> User:
        """The user that the path names, whoever calls."""
        name = self.part("user")
        user = self.broker.users.get(name)
        if user is None:
            raise not_found(f"no user '{name}'")
        return user

    # -- what it sends

    async def body(self, bytes_max: int = BODY_BYTES_MAX) -> bytes:
        """The whole body, of at most so many bytes."""
        if self.request.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise Refused(415, "unsupported_media_type", "send the body as it is, without Content-Encoding")
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(BODY_WAIT_S):
                async for part in self.request.content.iter_any():
                    size += len(part)
                    if size > bytes_max:
                        raise Refused(413, "too_large", f"the body may have at most {bytes_max} bytes")
                    parts.append(part)
        except TimeoutError:
            raise Refused(408, "timeout", f"the body did not come within {BODY_WAIT_S:g} s") from None
        except (ConnectionResetError, web.RequestPayloadError):
            # The caller has gone, or what it sent are no chunks: that is no mistake of the broker.
            raise bad_request("the body ended before its end, or cannot be read") from None
        return b"".join(parts)

    async def read(self, type: type[T], bytes_max: int = BODY_BYTES_MAX) -> T:
        """The body as JSON of this shape; no body is an empty object."""
        try:
            return msgspec.json.decode(await self.body(bytes_max) or b"{}", type=type)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise bad_request(f"the body is not right: {error}") from None

    # -- what it changes

    async def define(self, change: Change) -> Any:
        """Make a change, and wait until it applies. `Refused` with the broker's reason if it cannot be made."""
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[Any] = loop.create_future()

        def done(result: Any) -> None:
            if not answered.done():
                answered.set_result(result)

        self.broker.now_ms = self.server.now_ms()
        self.broker.define(change, done)
        self.server.turn_soon()
        try:
            result = await asyncio.wait_for(answered, ANSWER_WAIT_S)
        except TimeoutError:
            raise Refused(503, "timeout", f"the change was not ordered within {ANSWER_WAIT_S:g} s") from None
        if isinstance(result, AmqpError):
            raise not_found(result.text) if result.code == NOT_FOUND else bad_request(result.text)
        return result


def put(is_new: bool) -> web.Response:
    return web.Response(status=201 if is_new else 204)


def done() -> web.Response:
    return web.Response(status=204)
