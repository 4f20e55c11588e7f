"""Sessions of browsers: a cookie in place of a password with each call."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping

import msgspec

from openclust.broker.model.access import User

SESSIONS_MAX = 1_000
SESSIONS_PER_USER_MAX = 20


class HttpSession(msgspec.Struct, frozen=True):
    """`user` is as it was at the login. `write_token` must come with each call that changes something."""

    user: User
    write_token: str
    ends_ms: int


class Sessions:
    """The open sessions of this broker. `make_secret` makes a text that nobody can guess.

    Cookies are kept as digests: what is read out of memory opens no session.
    """

    def __init__(self, make_secret: Callable[[], str], lifetime_ms: int) -> None:
        self._make_secret = make_secret
        self._lifetime_ms = lifetime_ms
        self._sessions: dict[bytes, HttpSession] = {}

    def begin(self, user: User, now_ms: int) -> tuple[str, HttpSession]:
        """The cookie's text and its session. At the bound the oldest session ends, of this user or of all."""
        self._end_old(now_ms)
        own = [key for key, each in self._sessions.items() if each.user.name == user.name]
        if len(own) >= SESSIONS_PER_USER_MAX:
            del self._sessions[own[0]]
        elif len(self._sessions) >= SESSIONS_MAX:
            del self._sessions[next(iter(self._sessions))]
        cookie = self._make_secret()
        session = HttpSession(user.copy(), self._make_secret(), now_ms + self._lifetime_ms)
        self._sessions[_digest(cookie)] = session
        return cookie, session

    def find(self, cookie: str, users: Mapping[str, User], now_ms: int) -> HttpSession | None:
        """The open session of a cookie. It has ended if its user was changed or deleted since the login."""
        key = _digest(cookie)
        session = self._sessions.get(key)
        if session is None:
            return None
        if now_ms >= session.ends_ms or users.get(session.user.name) != session.user:
            del self._sessions[key]
            return None
        return session

    def end(self, cookie: str) -> None:
        self._sessions.pop(_digest(cookie), None)

    def __len__(self) -> int:
        return len(self._sessions)

    def _end_old(self, now_ms: int) -> None:
        for key in [key for key, each in self._sessions.items() if now_ms >= each.ends_ms]:
            del self._sessions[key]


def is_token(session: HttpSession, given: str) -> bool:
    """Whether a call carries the token of its session."""
    return hmac.compare_digest(session.write_token.encode(), given.encode("utf-8", "surrogateescape"))


def _digest(cookie: str) -> bytes:
    return hashlib.sha256(cookie.encode("utf-8", "surrogateescape")).digest()
