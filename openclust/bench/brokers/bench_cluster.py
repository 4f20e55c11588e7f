"""The cluster that a row measures, as the row sees it, and the options of `openclust bench cluster`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

import msgspec

from openclust.bench.client.url import BrokerUrl


class BenchCluster(Protocol):
    """Brokers on this machine, each known by its name. None runs before `start`."""

    @property
    def names(self) -> list[str]: ...

    @property
    def folder(self) -> Path:
        """The brokers' data directories are in it."""

    @property
    def primaries(self) -> list[str]: ...

    def start(self, *names: str) -> None:
        """Start the named brokers, or all. A broker that was killed starts again with its data."""

    def kill(self, name: str) -> None:
        """Send SIGKILL, and return when the process is gone."""

    def address(self, name: str) -> tuple[str, int]:
        """Host and port for clients."""

    def pids(self) -> tuple[int, ...]:
        """The process ids of all brokers that were started."""

    def pid(self, name: str) -> int: ...

    def check(self) -> None:
        """Raise BenchError if a broker that was started has ended."""

    def wait_until_answering(self, name: str) -> None: ...

    def wait_until_serving(self) -> str:
        """Return the name of the root, once every broker that was started knows the root and all the others."""

    def root(self, name: str) -> str | None:
        """The name of the root that this broker follows; None if it knows of none."""

    def epoch(self, name: str) -> int: ...

    def position(self, name: str) -> tuple[int, int] | None:
        """Epoch and sequence of the broker's last log entry; None if it does not answer or its log is empty."""

    def held(self, name: str) -> int:
        """How many meta-bindings of other brokers this broker holds."""

    def relayed(self, name: str) -> int:
        """How many copies of messages this broker has sent to others over the links that are open now."""


MakeCluster = Callable[[int, int], AbstractContextManager[BenchCluster]]
"""Called with the numbers of primaries and secondaries."""


class BenchVersion(msgspec.Struct, frozen=True):
    """An openclust by its name in the results: that of this source tree, or of another."""

    name: str
    make: MakeCluster


class ClusterBenchOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of `openclust bench cluster`; the command explains each."""

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
    """How many times the compared clusters are started."""


def url(brokers: BenchCluster, name: str) -> BrokerUrl:
    host, port = brokers.address(name)
    return BrokerUrl(host=host, port=port)
