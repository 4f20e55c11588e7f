"""What a broker's store holds, without a disk: the same writes lead to the same contents as in the real one."""

from __future__ import annotations

from collections.abc import Sequence

from openclust.broker.storage import (
    Checkpoint,
    Contents,
    Cut,
    Keep,
    Kept,
    Page,
    PageInfo,
    Restart,
    Spool,
    Write,
)


class ModelStore:
    """`perform` does all of its writes. It is its broker's `Shelves` too."""

    __slots__ = ("_dead", "_definitions", "_epoch", "_next", "_pages", "_rows", "_sequence", "_spool", "_told")

    def __init__(self) -> None:
        self._epoch = 0
        self._sequence = 0
        self._definitions: list[bytes] = []
        self._pages: dict[int, Page] = {}
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
                        self._spool.clear()
                    self._spool[write.part] = write.body
                case Restart():
                    for kept in (self._rows, self._definitions, self._pages, self._dead, self._spool):
                        kept.clear()
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
        rows = [Kept(row, number <= self._told) for number, row in self._rows]
        return Contents(self._epoch, self._sequence, list(self._definitions), pages, rows)

    def page(self, number: int) -> bytes:
        return self._pages[number].body

    def spooled(self, part: int) -> bytes:
        return self._spool[part]
