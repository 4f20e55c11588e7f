"""The search for a broker that takes the connection: all known hosts, and the brokers that they redirect to."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from aiormq.exceptions import AMQPError
from yarl import URL

from openclust.client.dialled import Dialled
from openclust.client.failures import ATTEMPT_ERRORS, NoBroker, explain, is_for_good
from openclust.client.hosts import Hosts, address_of, moved_to

log = logging.getLogger("openclust.client")

REDIRECTS_MAX = 10
"""So many redirects in a row end the attempt: brokers may redirect in a circle."""

ROUNDS = 3
HOST_TIMEOUT_S = 5.0
BACKOFF_MIN_S = 0.1
BACKOFF_MAX_S = 5.0


class Dial(Protocol):
    """Opens a connection there, or raises; `AnotherNamed` if the broker redirects the client.

    `is_redirected`: another broker redirected the client here, so this one should not do so again.
    """

    def __call__(self, url: URL, *, is_redirected: bool) -> Awaitable[Dialled]: ...


Pause = Callable[[float], Awaitable[None]]


class AnotherNamed(Exception):
    """A broker names another one for this client."""

    def __init__(self, target: str, known_hosts: str = "") -> None:
        super().__init__(target)
        self.target = target
        self.known_hosts = known_hosts


async def dial(url: URL, *, is_redirected: bool, **options: Any) -> Dialled:
    """Open an aiormq connection that understands redirects."""
    connection = Dialled(url, is_redirected=is_redirected, **options)
    try:
        await connection.connect()
        await connection.connected.wait()
    except BaseException as error:
        await connection.close()
        if connection.redirect is not None:
            raise AnotherNamed(connection.redirect.host, connection.redirect.known_hosts) from error
        target = moved_to(str(error.args[-1])) if isinstance(error, AMQPError) and error.args else ""
        if target:
            raise AnotherNamed(target) from error
        raise
    return connection


def backoff_s(rounds: int) -> float:
    """The pause after so many rounds without success: it doubles, and has a random part so that clients differ."""
    longest = min(BACKOFF_MIN_S * 2.0 ** min(rounds - 1, 10), BACKOFF_MAX_S)
    return longest * random.uniform(0.5, 1.0)


class Search:
    """One client's way to a broker. `run` may be called again after a loss; the known hosts stay."""

    def __init__(
        self, hosts: Hosts, dial: Dial, host_timeout: float = HOST_TIMEOUT_S, pause: Pause = asyncio.sleep
    ) -> None:
        self.hosts = hosts
        self.dial = dial
        self.url = hosts.first
        self._host_timeout = host_timeout
        self._pause = pause
        self._failed: dict[str, str] = {}
        self._for_good: set[str] = set()

    async def run(self, rounds: int | None) -> Dialled:
        """An open connection; NoBroker after so many rounds over all hosts (None: rounds without end).

        If all brokers refuse for good, for example because of a wrong password, no further round follows.
        """
        done = 0
        while True:
            self._failed, self._for_good = {}, set()
            for url in self.hosts.order():
                if address_of(url) in self._failed:
                    continue
                connection = await self._follow(url)
                if connection is not None:
                    self.hosts.reached()
                    return connection
            done += 1
            problem = NoBroker(self._failed)
            if rounds is not None and (done >= rounds or self._for_good >= self._failed.keys()):
                raise problem
            wait_s = backoff_s(done)
            log.warning("%s; again in %.1f s", problem, wait_s)
            await self._pause(wait_s)

    async def _follow(self, url: URL) -> Dialled | None:
        """Try this broker, and those that it redirects to."""
        trail: list[str] = []
        while True:
            address = address_of(url)
            try:
                connection = await self._attempt(url, is_redirected=bool(trail) or self.hosts.is_preferred(url))
            except AnotherNamed as moved:
                self.hosts.learn(moved.known_hosts, url)
                trail.append(address)
                target = self.hosts.url_for(moved.target, url)
                reason = self._why_not(moved.target, target, trail)
                if target is None or reason:
                    self._give_up(trail[:-1], address, reason)
                    return None
                log.info("%s sends us to %s", address, moved.target)
                url = target
            except ATTEMPT_ERRORS as error:
                if is_for_good(error):
                    self._for_good.add(address)
                self._give_up(trail, address, explain(error, self._host_timeout))
                return None
            else:
                self.url = url
                self.hosts.learn(connection.known_hosts, url)
                return connection

    def _give_up(self, trail: list[str], address: str, reason: str) -> None:
        """Give up the trail too: its brokers would redirect the client in the same way again in this round."""
        self._failed.update(dict.fromkeys(trail, f"sends us on to {address}"))
        self._failed[address] = reason

    def _why_not(self, name: str, target: URL | None, trail: list[str]) -> str:
        """Why this redirect is not followed; empty if it is."""
        if target is None:
            return f"sends us to {name!r}, which is no host:port"
        if len(trail) > REDIRECTS_MAX:
            return f"redirected {REDIRECTS_MAX} times in a row, at last {' > '.join([*trail[-3:], name])}"
        if address_of(target) in self._failed:
            return f"sends us to {name}, which failed"
        return ""

    async def _attempt(self, url: URL, *, is_redirected: bool) -> Dialled:
        try:
            async with asyncio.timeout(self._host_timeout):
                return await self.dial(url, is_redirected=is_redirected)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # aiormq cancels its own tasks when a connection breaks at the wrong moment.
            raise ConnectionResetError("the connection broke during the login") from None
