"""Passwords: scrypt hashes, RabbitMQ's hashes for users who were imported, and a checker for many logins a second."""

from __future__ import annotations

import asyncio
import base64
import binascii
import functools
import hashlib
import hmac
import logging
import secrets
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor

from openclust.broker.access import User

log = logging.getLogger("openclust.passwords")

SCRYPT_N = 2**14
SCRYPT_R = 8
SCRYPT_P = 1
SALT_BYTES = 16
HASH_BYTES = 32

# A hash out of a file decides how much work a login costs, so what it may ask for is bounded (128 MiB, 16 rounds).
SCRYPT_BLOCKS_MAX = 2**20
SCRYPT_P_MAX = 16
SCRYPT_MEMORY_MAX = 128 * SCRYPT_BLOCKS_MAX + 2**20

# RabbitMQ's names of its hash functions, as they stand in definitions
RABBIT_ALGORITHMS = {
    "rabbit_password_hashing_sha256": ("rabbit_sha256", "sha256"),
    "rabbit_password_hashing_sha512": ("rabbit_sha512", "sha512"),
}
_RABBIT_DIGESTS = dict(RABBIT_ALGORITHMS.values())
_RABBIT_SALT_BYTES = 4

THREADS = 2
WAITING_MAX = 256
CACHE_MAX = 10_000
BUSY_LOG_INTERVAL_S = 1.0


def hash_password(password: str) -> str:
    """A new salted scrypt hash. It takes some 50 ms: not for the event loop."""
    salt = secrets.token_bytes(SALT_BYTES)
    digest = _scrypt(password.encode(), salt, SCRYPT_N, SCRYPT_R, SCRYPT_P, HASH_BYTES)
    return f"scrypt${SCRYPT_N}${SCRYPT_R}${SCRYPT_P}${_b64(salt)}${_b64(digest)}"


def matches(password_hash: str, password: bytes) -> bool:
    """Whether this is the password, in constant time. A malformed hash matches nothing, and is logged once."""
    try:
        if password_hash.startswith("scrypt$"):
            n, r, p, salt, digest = _scrypt_parts(password_hash)
            return hmac.compare_digest(_scrypt(password, salt, n, r, p, len(digest)), digest)
        name, salt, digest = _rabbit_parts(password_hash)
        return hmac.compare_digest(hashlib.new(name, salt + password).digest(), digest)
    except ValueError as error:
        _tell_once(password_hash, str(error))
        return False


def hash_problem(password_hash: str) -> str | None:
    """What is wrong with the form of a hash, or None. An empty one is right: that user has no password."""
    if not password_hash:
        return None
    try:
        _scrypt_parts(password_hash) if password_hash.startswith("scrypt$") else _rabbit_parts(password_hash)
    except ValueError as error:
        return str(error)
    return None


def from_rabbit(password_hash: str, algorithm: str = "rabbit_password_hashing_sha256") -> str:
    """The hash of a user in RabbitMQ's definitions, in the form kept here. ValueError says what is wrong with it."""
    if not password_hash or hash_problem(password_hash) is None:
        return password_hash  # none, or one of ours
    if algorithm not in RABBIT_ALGORITHMS:
        raise ValueError(f"unknown hashing_algorithm {algorithm!r}; set a new password")
    ours = f"{RABBIT_ALGORITHMS[algorithm][0]}${password_hash}"
    if problem := hash_problem(ours):
        raise ValueError(problem)
    return ours


class PasswordChecker:
    """Checks logins of one broker. Slow hashes run in two threads; logins that were right before cost microseconds."""

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


# The form of a hash, of a password nobody has.
_DUMMY = f"scrypt${SCRYPT_N}${SCRYPT_R}${SCRYPT_P}${base64.b64encode(bytes(SALT_BYTES)).decode()}"
_DUMMY += f"${base64.b64encode(bytes(HASH_BYTES)).decode()}"


def _check_slowly(password_hash: str, password: bytes) -> bool:
    """One scrypt in every case, so that time tells neither who exists nor who was imported."""
    if password_hash.startswith("scrypt$"):
        return matches(password_hash, password)
    matches(_DUMMY, password)
    return bool(password_hash) and matches(password_hash, password)


def _scrypt(password: bytes, salt: bytes, n: int, r: int, p: int, length: int) -> bytes:
    return hashlib.scrypt(password, salt=salt, n=n, r=r, p=p, maxmem=SCRYPT_MEMORY_MAX, dklen=length)


def _scrypt_parts(text: str) -> tuple[int, int, int, bytes, bytes]:
    parts = text.split("$")
    if len(parts) != 6:
        raise ValueError("wanted scrypt$n$r$p$salt$hash")
    if not all(number.isascii() and number.isdigit() and len(number) <= 9 for number in parts[1:4]):
        raise ValueError("the cost of a scrypt hash is three whole numbers")
    n, r, p = (int(number) for number in parts[1:4])
    if n < 2 or n & (n - 1) or r < 1 or n * r > SCRYPT_BLOCKS_MAX or not 1 <= p <= SCRYPT_P_MAX:
        raise ValueError(f"a scrypt hash of cost {n}${r}${p} is not allowed")
    salt, digest = _unb64(parts[4]), _unb64(parts[5])
    if not salt or not 16 <= len(digest) <= 64:
        raise ValueError("salt or hash has the wrong length")
    return n, r, p, salt, digest


def _rabbit_parts(text: str) -> tuple[str, bytes, bytes]:
    scheme, _, encoded = text.partition("$")
    name = _RABBIT_DIGESTS.get(scheme)
    if name is None:
        raise ValueError("not a hash this broker knows (scrypt, rabbit_sha256, rabbit_sha512)")
    data = _unb64(encoded)
    if len(data) != _RABBIT_SALT_BYTES + hashlib.new(name).digest_size:
        raise ValueError(f"the hash is not {name} with four bytes of salt")
    return name, data[:_RABBIT_SALT_BYTES], data[_RABBIT_SALT_BYTES:]


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _unb64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("the hash is not base64") from None


@functools.lru_cache(maxsize=1_000)
def _tell_once(password_hash: str, problem: str) -> None:
    """The cache is what makes it once. The hash itself is a secret and stays out of the log."""
    log.warning("a stored password hash cannot be used, so its user cannot log in: %s", problem)
