"""aio-pika's connections, to whichever broker of a cluster takes them."""

from __future__ import annotations

import asyncio
import functools
from typing import Any

import aio_pika
import aiormq.abc
from aio_pika.abc import ConnectionParameter, TimeoutType, UnderlayConnection
from aiormq.connection import parse_timeout
from pamqp.commands import Connection as Methods
from yarl import URL

from openclust.client.hosts import Hosts
from openclust.client.search import Search, dial

RECONNECT_INTERVAL_S = "0.5"
"""The least time between two connections of a robust connection. The pauses within a search are its own."""

if not hasattr(aio_pika.RobustConnection, "_RobustConnection__connect_transport"):
    raise ImportError(
        f"openclust.client cannot work with aio-pika {aio_pika.__version__}, which reconnects in another way: "
        "install aio-pika 10.2"
    )


class _Underlay(UnderlayConnection):
    """aio-pika's holder of a connection. The connection is made by a search."""

    @classmethod
    async def make_connection(
        cls, url: URL, timeout: TimeoutType = None, **kwargs: Any
    ) -> aiormq.abc.AbstractConnection:
        search: Search = kwargs["search"]
        return await asyncio.wait_for(search.run(kwargs["rounds"]), timeout)


class _Clustered(aio_pika.Connection):
    """The base of both connections: a search instead of one URL. `url` is that of the last broker connected to."""

    def __init__(self, hosts: Hosts, host_timeout: float, rounds: int, **options: Any) -> None:
        super().__init__(hosts.first, **options)
        self._rounds = rounds
        self._search = Search(hosts, functools.partial(dial, **self.kwargs), host_timeout)

    @property
    def known_hosts(self) -> list[str]:
        """All brokers that this client knows, as `host:port`."""
        return self._search.hosts.addresses

    async def _open(self, timeout: TimeoutType, rounds: int | None) -> None:
        self.transport = await _Underlay.connect(
            self.url, self._on_connection_close, timeout=timeout, search=self._search, rounds=rounds
        )
        self.url = self._search.url
        await self._on_connected()

    async def _on_connection_close(self, closing: asyncio.Future[Any]) -> None:
        # This is called for a failed search, too: then there was no connection to lose.
        if self.connected.is_set():
            error = None if closing.cancelled() else closing.exception()
            self._search.hosts.lost(self._search.url, str(error.args[-1]) if error and error.args else "")
        await super()._on_connection_close(closing)

    async def update_secret(
        self, new_secret: str, *, reason: str = "", timeout: TimeoutType = None
    ) -> Methods.UpdateSecretOk:
        answer = await super().update_secret(new_secret, reason=reason, timeout=timeout)
        self._search.hosts.with_password(new_secret)
        return answer


class ClusterConnection(_Clustered):
    """aio-pika's plain connection: when it is lost, it stays lost."""

    async def connect(self, timeout: TimeoutType = None) -> None:
        await self._open(timeout, self._rounds)


class RobustClusterConnection(_Clustered, aio_pika.RobustConnection):
    """aio-pika's robust connection: after a loss it looks for another broker until it has one or is closed."""

    PARAMETERS = (
        *(each for each in aio_pika.RobustConnection.PARAMETERS if each.name != "reconnect_interval"),
        ConnectionParameter(name="reconnect_interval", parser=parse_timeout, default=RECONNECT_INTERVAL_S),
    )

    _timeout: TimeoutType = None

    async def connect(self, timeout: TimeoutType = None) -> None:
        self._timeout = timeout
        await super().connect(timeout)

    # aio-pika's reconnect loop calls this private method, whose own version connects to one URL: there is no other
    # place for a search. The check at the top of this file fails for an aio-pika without it.
    async def _RobustConnection__connect_transport(self) -> None:
        self.transport = None
        self.connected.clear()
        may_fail = self.fail_fast and not self.connection_attempt
        await self._open(self._timeout, self._rounds if may_fail else None)
        first: asyncio.Future[None] = self._RobustConnection__fail_fast_future  # type: ignore[attr-defined]
        if not first.done():
            first.set_result(None)
