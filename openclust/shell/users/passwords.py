"""Passwords: scrypt hashes, RabbitMQ's hashes for users who were imported, and a checker for many logins a second."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import hmac
import logging
import secrets
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor

from openclust.broker.model.access import User
from openclust.broker.model.password_hash import (
    SCRYPT_BLOCKS_MAX,
    b64,
    from_rabbit,
    hash_problem,
    rabbit_parts,
    scrypt_parts,
)

__all__ = ["PasswordChecker", "from_rabbit", "hash_password", "hash_problem", "matches"]

log = logging.getLogger("openclust.passwords")

SCRYPT_N = 2**14
SCRYPT_R = 8
SCRYPT_P = 1
SALT_BYTES = 16
HASH_BYTES = 32
SCRYPT_MEMORY_MAX = 128 * SCRYPT_BLOCKS_MAX + 2**20

THREADS = 2
WAITING_MAX = 256
CACHE_MAX = 10_000
BUSY_LOG_INTERVAL_S = 1.0


def hash_password(password: str) -> str:
    """A new salted scrypt hash. It takes some 50 ms: do not call it in the event loop."""
    salt = secrets.token_bytes(SALT_BYTES)
    digest = _scrypt(password.encode(), salt, SCRYPT_N, SCRYPT_R, SCRYPT_P, HASH_BYTES)
    return f"scrypt${SCRYPT_N}${SCRYPT_R}${SCRYPT_P}${b64(salt)}${b64(digest)}"


def matches(password_hash: str, password: bytes) -> bool:
    """Whether this is the password, in constant time. A malformed hash matches nothing, and is logged once."""
    try:
        if password_hash.startswith("scrypt$"):
            n, r, p, salt, digest = scrypt_parts(password_hash)
            return hmac.compare_digest(_scrypt(password, salt, n, r, p, len(digest)), digest)
        name, salt, digest = rabbit_parts(password_hash)
        return hmac.compare_digest(hashlib.new(name, salt + password).digest(), digest)
    except ValueError as error:
        _tell_once(password_hash, str(error))
        return False


class PasswordChecker:
    """Checks logins of one broker. Hashing runs in two threads; a login that was right before costs microseconds."""

    def __init__(self, *, waiting_max: int = WAITING_MAX, cache_max: int = CACHE_MAX) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="password")
        self._key = secrets.token_bytes(32)
        self._right: OrderedDict[bytes, None] = OrderedDict()
        self._running: dict[bytes, asyncio.Future[bool]] = {}
        self._waiting_max = waiting_max
        self._cache_max = cache_max
        self._busy_logged_at_s = float("-inf")

    def cached(self, user: User | None, password: bytes) -> bool | None:
        """True when this login was right before; None: not known, await `check`."""
        if user is None or not user.password_hash:
            return None
        mac = self._mac(user, password)
        if mac not in self._right:
            return None
        self._right.move_to_end(mac)
        return True

    async def check(self, user: User | None, password: bytes) -> bool:
        """Whether the password is the user's. An unknown user (None) takes as long as a wrong password.

        When too many checks are waiting already the answer is False, and the log says so.
        """
        if self.cached(user, password):
            return True
        mac = self._mac(user, password)
        running = self._running.get(mac)  # a thousand clients that log in alike at once are one check
        if running is None:
            loop = asyncio.get_running_loop()
            if len(self._running) >= self._waiting_max:
                self._tell_busy(loop.time())
                return False
            password_hash = user.password_hash if user is not None else ""
            running = loop.run_in_executor(self._threads, _check_slowly, password_hash, password)
            self._running[mac] = running
            running.add_done_callback(functools.partial(self._finished, mac))
        return await asyncio.shield(running)

    def close(self) -> None:
        """Drop the checks that wait. Call once, at the end."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _finished(self, mac: bytes, done: asyncio.Future[bool]) -> None:
        self._running.pop(mac, None)
        if not done.cancelled() and done.exception() is None and done.result():
            self._right[mac] = None
            if len(self._right) > self._cache_max:
                self._right.popitem(last=False)

    def _mac(self, user: User | None, password: bytes) -> bytes:
        # The stored hash is part of it: after a change of password the old entry is never found again.
        name = user.name.encode() if user is not None else b""
        password_hash = user.password_hash.encode() if user is not None else b""
        lengths = b"%d,%d," % (len(name), len(password_hash))
        return hmac.digest(self._key, lengths + name + password_hash + password, "sha256")

    def _tell_busy(self, now_s: float) -> None:
        if now_s - self._busy_logged_at_s >= BUSY_LOG_INTERVAL_S:
            self._busy_logged_at_s = now_s
            log.warning("busy: %d password checks are waiting, so further logins are refused", len(self._running))


# A hash that no password has.
_DUMMY = f"scrypt${SCRYPT_N}${SCRYPT_R}${SCRYPT_P}${b64(bytes(SALT_BYTES))}"
_DUMMY += f"${b64(bytes(HASH_BYTES))}"


def _check_slowly(password_hash: str, password: bytes) -> bool:
    """One scrypt in every case: the time must not tell which users exist, or were imported."""
    if password_hash.startswith("scrypt$"):
        return matches(password_hash, password)
    matches(_DUMMY, password)
    return bool(password_hash) and matches(password_hash, password)


def _scrypt(password: bytes, salt: bytes, n: int, r: int, p: int, length: int) -> bytes:
    return hashlib.scrypt(password, salt=salt, n=n, r=r, p=p, maxmem=SCRYPT_MEMORY_MAX, dklen=length)


@functools.lru_cache(maxsize=1_000)
def _tell_once(password_hash: str, problem: str) -> None:
    """Once because of the cache. The hash is a secret and is not logged."""
    log.warning("a stored password hash cannot be used, so its user cannot log in: %s", problem)
