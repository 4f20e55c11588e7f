"""A store with an event loop that runs only while a test waits for it."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from openclust.broker.journal.store_rows import Checkpoint, Contents, Keep, Page, PageInfo, StoredRow, Write
from openclust.shell.store import Store, open_store
from openclust.shell.store.store_schema import STORE_FILE

WAIT_S = 20.0


class Opened:
    """Opens and starts the store of a directory, or takes one that is there."""

    def __init__(
        self, place: Path | Store, *, retry_ms: int = 5, wal_bytes: int = 1 << 20, free_bytes: int = 1 << 20
    ) -> None:
        self.store: Store = (
            open_store(
                str(place),
                cluster_key="shop",
                name="b1",
                retry_ms=retry_ms,
                wal_bytes=wal_bytes,
                free_bytes=free_bytes,
            )
            if isinstance(place, Path)
            else place
        )
        self.contents = self.store.contents()
        self.loop = asyncio.new_event_loop()
        self.done: list[int] = []
        self.failures: list[str] = []
        self._given = 0
        self.store.start(self.loop, self.done.append, self.failures.append)

    def give(self, *writes: Write) -> None:
        """Hand them over, as one turn, and go on."""
        self.store.write(list(writes))
        self._given += len(writes)

    def write(self, *writes: Write) -> None:
        """Hand them over, as one turn, and wait until all that was ever given is done."""
        self.give(*writes)
        self.wait(lambda: (self.done or [0])[-1] == self._given)

    def wait(self, is_so: Callable[[], bool]) -> None:
        """Let the loop run until it is so."""

        async def until() -> None:
            async with asyncio.timeout(WAIT_S):
                while not is_so():
                    await asyncio.sleep(0.001)

        self.loop.run_until_complete(until())

    def close(self, wait_s: float = WAIT_S) -> bool:
        is_done = self.store.close(wait_s)
        self.loop.close()
        return is_done


def keep(sequence: int, body: bytes = b"work", epoch: int = 1) -> Keep:
    return Keep("work", epoch, sequence, body)


def kept(*rows: Keep, is_told: bool = False) -> list[StoredRow]:
    return [StoredRow(row, is_told) for row in rows]


def page(number: int, queue: str = "orders", body: bytes = b"page") -> Page:
    return Page(number, "/", queue, number * 10, number * 10 + 9, 10, len(body), body)


def info(page: Page, dead: bytes = b"") -> PageInfo:
    return PageInfo(page.number, page.vhost, page.queue, page.first, page.last, page.count, page.size, dead)


def checkpoint(
    sequence: int,
    *,
    keep_after: int | None = None,
    definitions: list[bytes] | None = None,
    pages: list[Page] | None = None,
    dead: list[tuple[int, bytes]] | None = None,
    gone: list[int] | None = None,
) -> Checkpoint:
    after = sequence if keep_after is None else keep_after
    return Checkpoint(1, sequence, after, definitions, pages or [], dead or [], gone or [])


def written(place: Path, *writes: Write) -> None:
    """A directory with this in its store."""
    opened = Opened(place)
    opened.write(*writes)
    assert opened.close()


def found(place: Path) -> Contents:
    """What the store of a directory holds."""
    store = open_store(str(place), cluster_key="shop")
    try:
        return store.contents()
    finally:
        store.close()


def change(place: Path, *statements: str) -> None:
    """Change the file behind the store's back."""
    with closing(sqlite3.connect(place / STORE_FILE, isolation_level=None)) as connection:
        for statement in statements:
            assert connection.execute(statement).rowcount != 0, statement
