"""The interface of a store, on disk or in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol, TypeAlias

from openclust.broker.counts.histogram import Histogram
from openclust.broker.journal.store_rows import Contents, StoreReader, Write

WritesDone: TypeAlias = Callable[[int], None]
"""Called with the number of writes that are done since the start."""

WritesFailed: TypeAlias = Callable[[str], None]
"""Called with the reason why writes fail. They are tried again; `WritesDone` is called when they succeed."""


class Store(StoreReader, Protocol):
    """Read `contents` first, then `start`, then `write`: all of it in the thread of the event loop."""

    @property
    def uuid(self) -> str:
        """The cluster UUID, empty until it is saved."""

    def save_uuid(self, uuid: str) -> None:
        """Save the cluster UUID after the writes that wait. `WritesDone` does not count it."""

    def contents(self) -> Contents:
        """All that is in the store. Call it once, before the first write; ConfigError if the store is damaged."""

    def start(self, loop: asyncio.AbstractEventLoop, done: WritesDone, failed: WritesFailed) -> None:
        """Begin to perform writes. Both callbacks are called in `loop`, `failed` once when writes begin to fail."""

    def write(self, writes: list[Write]) -> None:
        """Perform these in their order, all or none of them. It never waits. Do not change the list afterwards."""

    @property
    def waiting_bytes(self) -> int:
        """The size of all writes that are not done yet."""

    def oldest_waits_ms(self) -> int:
        """How long the oldest unfinished write has waited; 0 if there is none."""

    @property
    def transactions(self) -> Histogram | None:
        """How many seconds each transaction with its fsync took; None where no disk is written."""

    @property
    def failing(self) -> str:
        """Why writes fail now; empty if they do not."""

    def close(self, wait_s: float = 10.0) -> bool:
        """Finish the writes that wait, within this time. Whether all were done. There are no callbacks from now on."""
