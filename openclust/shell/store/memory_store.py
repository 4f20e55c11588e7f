"""A store in memory: writes are done at once, and lost when the process ends."""

from __future__ import annotations

import asyncio
import errno
import os

from openclust.broker.counts.histogram import Histogram
from openclust.broker.journal.store_rows import Ahead, Checkpoint, Contents, Restart, Spool, Write
from openclust.shell.store.store import WritesDone, WritesFailed


class MemoryStore:
    """Keeps only what the broker may read again: pages, and the snapshot that is arriving."""

    def __init__(self) -> None:
        self.uuid = ""
        self.waiting_bytes = 0
        self.failing = ""
        self.transactions: Histogram | None = None
        self._pages: dict[int, bytes] = {}
        self._spool: dict[int, bytes] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._done: WritesDone | None = None
        self._written = 0
        self._is_told = True

    def save_uuid(self, uuid: str) -> None:
        self.uuid = uuid

    def contents(self) -> Contents:
        return Contents()

    def start(self, loop: asyncio.AbstractEventLoop, done: WritesDone, failed: WritesFailed) -> None:
        self._loop, self._done = loop, done
        self._tell_soon()

    def write(self, writes: list[Write]) -> None:
        for write in writes:
            if isinstance(write, Checkpoint):
                self._pages.update({page.number: page.body for page in write.pages})
                for number in write.gone:
                    self._pages.pop(number, None)
            elif isinstance(write, Spool):
                if write.part == 0:
                    self._spool.clear()
                self._spool[write.part] = write.body
            elif isinstance(write, Ahead):
                self._pages.update({page.number: page.body for page in write.pages})
            elif isinstance(write, Restart):
                self._pages = {number: self._pages[number] for number in write.kept}
                self._spool.clear()
        self._written += len(writes)
        self._tell_soon()

    def oldest_waits_ms(self) -> int:
        return 0

    def page(self, number: int) -> bytes:
        return _found(self._pages, number, "page")

    def spooled(self, part: int) -> bytes:
        return _found(self._spool, part, "part of the snapshot")

    def close(self, wait_s: float = 10.0) -> bool:
        self._loop = None
        return True

    def _tell_soon(self) -> None:
        if self._loop is not None and self._is_told and self._written:
            self._is_told = False
            self._loop.call_soon(self._tell)

    def _tell(self) -> None:
        self._is_told = True
        if self._loop is not None and self._done is not None:
            self._done(self._written)


def _found(kept: dict[int, bytes], number: int, what: str) -> bytes:
    body = kept.get(number)
    if body is None:
        raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), f"{what} {number}")
    return body
