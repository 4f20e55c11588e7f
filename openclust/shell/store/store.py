"""What a store does for its broker, wherever it keeps things."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol, TypeAlias

from openclust.broker.journal.store_rows import Contents, Shelves, Write

Done: TypeAlias = Callable[[int], None]
"""How many writes are done since the start, all together."""

Failed: TypeAlias = Callable[[str], None]
"""Why writes fail. They are tried again until they succeed, which `Done` tells."""


class Store(Shelves, Protocol):
    """Read `contents` first, then `start`, then `write`. All of it from the event loop's thread."""

    @property
    def uuid(self) -> str:
        """The cluster's own name, empty until it was saved."""

    def save_uuid(self, uuid: str) -> None:
        """Keep it, behind the writes that wait. It counts as none."""

    def contents(self) -> Contents:
        """All that was kept. Once, before the first write; ConfigError where it is damaged."""

    def start(self, loop: asyncio.AbstractEventLoop, done: Done, failed: Failed) -> None:
        """From now on writes are performed. Both callbacks come in `loop`; `failed` once each time it begins."""

    def write(self, writes: list[Write]) -> None:
        """Perform these in their order, all or none of them. Never waits; the list is the store's from now on."""

    @property
    def waiting_bytes(self) -> int:
        """The size of all writes that are not done."""

    def oldest_waits_ms(self) -> int:
        """Since when the oldest write that is not done waits; 0 where none does."""

    @property
    def failing(self) -> str:
        """Why writes fail now; empty while they do not."""

    def close(self, wait_s: float = 10.0) -> bool:
        """Finish what waits, in this time. Whether all was done. No callback comes any more."""
