"""What a broker's store holds, without a disk: the same writes lead to the same contents as in the real one."""

from __future__ import annotations

from collections.abc import Sequence
from errno import ENOENT

from openclust.broker.journal.store_rows import (
    Ahead,
    Checkpoint,
    Contents,
    Cut,
    Keep,
    Page,
    PageInfo,
    Restart,
    Spool,
    StoredRow,
    Write,
)


class ModelStore:
    """`perform` does all of its writes. It is its broker's `StoreReader` too."""

    __slots__ = (
        "_ahead",
        "_dead",
        "_definitions",
        "_epoch",
        "_next",
        "_pages",
        "_rows",
        "_sequence",
        "_spool",
        "_told",
    )

    def __init__(self) -> None:
        self._epoch = 0
        self._sequence = 0
        self._definitions: list[bytes] = []
        self._pages: dict[int, Page] = {}
        self._ahead: dict[int, Page] = {}
        self._dead: dict[int, bytes] = {}
        self._rows: list[tuple[int, Keep]] = []
        self._spool: dict[int, bytes] = {}
        self._next = 1
        self._told = 0

    def perform(self, writes: Sequence[Write]) -> None:
        for write in writes:
            match write:
                case Keep():
                    self._rows.append((self._next, write))
                    self._next += 1
                case Cut():
                    self._rows = [each for each in self._rows if each[1].sequence <= write.sequence]
                case Checkpoint():
                    self._check(write)
                case Spool():
                    if write.part == 0:
                        self.opened()
                    self._spool[write.part] = write.body
                case Ahead():
                    self._ahead.update({page.number: page for page in write.pages})
                case Restart():
                    there = self._pages | self._ahead
                    self._pages = {number: there[number] for number in write.kept}
                    self._dead = {number: dead for number, dead in self._dead.items() if number in self._pages}
                    self._rows.clear()
                    self._definitions.clear()
                    self.opened()
                    self._tell(write.epoch, write.sequence)

    def _check(self, checkpoint: Checkpoint) -> None:
        self._rows = [each for each in self._rows if each[1].sequence > checkpoint.keep_after]
        if checkpoint.definitions is not None:
            self._definitions = list(checkpoint.definitions)
        for page in checkpoint.pages:
            assert page.number not in self._pages, f"page {page.number} is there already"
            self._pages[page.number] = page
        self._dead.update(checkpoint.dead)
        for number in checkpoint.gone:
            self._pages.pop(number, None)
            self._dead.pop(number, None)
        self._tell(checkpoint.epoch, checkpoint.sequence)

    def _tell(self, epoch: int, sequence: int) -> None:
        self._epoch, self._sequence = epoch, sequence
        self._told = self._next - 1

    def opened(self) -> None:
        """A snapshot that was on its way comes anew."""
        self._spool.clear()
        self._ahead.clear()

    def contents(self) -> Contents:
        pages = [
            PageInfo(
                each.number,
                each.vhost,
                each.queue,
                each.first,
                each.last,
                each.count,
                each.size,
                self._dead.get(each.number, b""),
            )
            for _, each in sorted(self._pages.items())
        ]
        rows = [StoredRow(row, number <= self._told) for number, row in self._rows]
        return Contents(self._epoch, self._sequence, list(self._definitions), pages, rows)

    def page(self, number: int) -> bytes:
        page = self._pages.get(number) or self._ahead.get(number)
        if page is None:
            raise OSError(ENOENT, f"page {number} is missing")
        return page.body

    def spooled(self, part: int) -> bytes:
        body = self._spool.get(part)
        if body is None:
            raise OSError(ENOENT, f"part of the snapshot {part} is missing")
        return body
