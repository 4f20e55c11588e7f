"""The cluster that a row measures, as the row sees it, and the options of `openclust bench cluster`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

import msgspec

from openclust.bench.client.url import BrokerUrl


class BenchCluster(Protocol):
    """Brokers of this machine, by their names; nothing runs before `start`."""

    @property
    def names(self) -> list[str]: ...

    @property
    def folder(self) -> Path:
        """Where they keep their data."""

    @property
    def primaries(self) -> list[str]: ...

    def start(self, *names: str) -> None:
        """These, or all; again, those that were killed, with their data."""

    def kill(self, name: str) -> None:
        """Without a warning; returns when it is gone."""

    def address(self, name: str) -> tuple[str, int]:
        """Where clients reach it."""

    def pids(self) -> tuple[int, ...]:
        """Of all that were started."""

    def pid(self, name: str) -> int: ...

    def check(self) -> None:
        """Raise BenchError if one that was started has ended."""

    def wait_until_answering(self, name: str) -> None: ...

    def wait_until_serving(self) -> str:
        """The root, once every broker that was started knows it and all the others."""

    def root(self, name: str) -> str | None:
        """Who is root, as this broker knows."""

    def epoch(self, name: str) -> int: ...

    def position(self, name: str) -> tuple[int, int] | None:
        """Epoch and number of the last entry of its log; None where it does not answer or has none."""

    def held(self, name: str) -> int:
        """How many meta-bindings of others it holds."""

    def relayed(self, name: str) -> int:
        """How many copies of messages it has sent to other brokers over the links that it has now."""


MakeCluster = Callable[[int, int], AbstractContextManager[BenchCluster]]
"""Called with the numbers of primaries and secondaries."""


class BenchVersion(msgspec.Struct, frozen=True):
    """An openclust by its name in the results: that of this source tree, or of another."""

    name: str
    make: MakeCluster


class ClusterBenchOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Those of the command line."""

    rounds: int
    seconds: float
    warm_up: float
    size: int
    subscribers: int
    window: int
    bindings: int
    crowd: int
    per_connection: int
    messages: int
    unconfirmed: int
    prefetch: int
    rate: float
    down: float
    compare: tuple[tuple[str, list[BrokerUrl]], ...]
    """Other products' clusters of three, by name."""
    other_version: BenchVersion | None = None
    starts: int = 1
    """How often the clusters that are compared are started anew."""


def url(brokers: BenchCluster, name: str) -> BrokerUrl:
    host, port = brokers.address(name)
    return BrokerUrl(host=host, port=port)
