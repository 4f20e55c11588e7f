"""Who makes a call: a user with a password (HTTP basic authentication), or with the cookie of a session."""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import secrets
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from aiohttp import web

from openclust.broker.model.access import User
from openclust.manage.calls.call import Refused
from openclust.manage.calls.login_attempts import LoginAttempts
from openclust.manage.calls.sessions import HttpSession, Sessions, is_token
from openclust.shell.config.schema import HttpSection
from openclust.shell.net.peer_address import is_loopback
from openclust.wire.sasl import Credentials

if TYPE_CHECKING:
    from openclust.shell.server import Server

log = logging.getLogger("openclust.http")

TOKEN_HEADER = "X-CSRF-Token"
"""Other sites' pages can have a browser send its cookie, but they cannot read this token, and so not send it."""
READING = frozenset({"GET", "HEAD", "OPTIONS"})
_COOKIE_BYTES = 32


class HttpLogins:
    """The logins of the HTTP API of one broker."""

    def __init__(self, config: HttpSection, server: Server, port: int) -> None:
        self._server = server
        self._attempts = LoginAttempts(config.wrong_logins_max)
        self._checks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()
        self._is_tls = config.tls_cert is not None
        self._path = config.path_prefix or "/"
        self._lifetime_s = config.session_lifetime_s
        self.sessions = Sessions(lambda: secrets.token_urlsafe(_COOKIE_BYTES), config.session_lifetime_s * 1_000)
        self.cookie_name = cookie_name(port)

    async def user_of(self, request: web.Request) -> User:
        """The user of a call; `Refused` if there is none, or the password or the token is wrong."""
        given = request.headers.get("Authorization")
        if given is None and self.cookie_name in request.cookies:
            return self._session_of(request).user
        credentials = _credentials(given or "")
        if credentials is None:
            raise Refused(401, "not_authorized", "give a user and a password (HTTP basic authentication)")
        return await self.check(request, credentials)

    async def check(self, request: web.Request, credentials: Credentials) -> User:
        """The user of these credentials. `Refused`: 401 if they are wrong, 429 after too many that were wrong."""
        server, address = self._server, request.remote or ""
        key = (address, credentials.name)
        # One check at a time of one name from one address: several at once would all come before the first is counted.
        lock = self._checks.get(key)
        if lock is None:
            lock = self._checks[key] = asyncio.Lock()
        async with lock:
            wait_ms = self._attempts.wait_ms(address, credentials.name, server.now_ms())
            if wait_ms:
                raise _too_many(wait_ms)
            server.refresh_users()
            user = server.broker.users.get(credentials.name)
            right = server.logins.known(user, credentials)
            if right is None:
                right = await server.logins.check(user, credentials)
            if user is None or not right:
                self._attempts.wrong(address, credentials.name, server.now_ms())
                if server.line_limit.admits(address, "login to the HTTP API refused", server.now_ms()):
                    log.warning("login refused: wrong user name or password, from %s as %s", address, credentials.name)
                raise Refused(401, "not_authorized", "wrong user name or password")
            self._attempts.right(address, credentials.name)
        self._check_place(user, address)
        return user

    # -- sessions

    def begin_session(self, user: User, response: web.Response) -> None:
        """Put the cookie of a new session, and the token for its writes, into the answer."""
        cookie, session = self.sessions.begin(user, self._server.now_ms())
        response.set_cookie(
            self.cookie_name,
            cookie,
            max_age=self._lifetime_s,
            path=self._path,
            secure=self._is_tls,
            httponly=True,
            samesite="Strict",
        )
        response.headers[TOKEN_HEADER] = session.write_token

    def end_session(self, request: web.Request, response: web.Response) -> None:
        """End the session of a call, if it has one."""
        if self.cookie_name not in request.cookies:
            return
        self._session_of(request)
        self.sessions.end(request.cookies[self.cookie_name])
        response.del_cookie(self.cookie_name, path=self._path, secure=self._is_tls, httponly=True, samesite="Strict")

    def write_token(self, request: web.Request) -> str:
        """The token for writes of the session that a call is made with; empty if it is made with a password."""
        if "Authorization" in request.headers or self.cookie_name not in request.cookies:
            return ""
        return self._session_of(request).write_token

    def _session_of(self, request: web.Request) -> HttpSession:
        server = self._server
        server.refresh_users()
        session = self.sessions.find(request.cookies[self.cookie_name], server.broker.users, server.now_ms())
        if session is None:
            raise Refused(401, "not_authorized", "the session has ended; log in again")
        if request.method not in READING:
            check_origin(request)
            if not is_token(session, request.headers.get(TOKEN_HEADER, "")):
                reason = f"a call that changes something with a session's cookie needs its token in {TOKEN_HEADER}"
                raise Refused(403, "token_missing", reason)
        self._check_place(session.user, request.remote or "")
        return session

    def _check_place(self, user: User, address: str) -> None:
        if user.name == "guest" and self._server.broker.guest_from_loopback_only and not is_loopback(address):
            raise Refused(401, "not_authorized", "user 'guest' can only connect from the loopback")


HTTP_LOGINS = web.AppKey("http_logins", HttpLogins)


def cookie_name(port: int) -> str:
    """Browsers keep cookies by host, not by port: each broker of a host needs a name of its own."""
    return f"openclust_session_{port}"


def check_origin(request: web.Request) -> None:
    """Refuse a call that a page of another site has made, where the browser says so."""
    if request.headers.get("Sec-Fetch-Site", "") == "cross-site":
        raise Refused(403, "cross_site", "the call comes from a page of another site")


def _too_many(wait_ms: int) -> Refused:
    seconds = -(-wait_ms // 1_000)
    reason = f"too many wrong logins came from this address; try again in {seconds} s"
    return Refused(429, "too_many_requests", reason).with_headers({"Retry-After": str(seconds)})


def _credentials(header: str) -> Credentials | None:
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        name, colon, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
        return Credentials(name.decode(), password) if colon else None
    except (binascii.Error, UnicodeError, ValueError):
        return None
