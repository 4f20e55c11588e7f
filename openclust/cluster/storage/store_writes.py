"""What is to be written to this broker's store, in its order, and how much of that is on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from openclust.broker.journal.journal import Journal
    from openclust.broker.journal.store_rows import Write


class StoreWrites:
    """`take_writes` each turn, and write them in their order. `given` counts all of them, `done` those on disk.

    A broker without a disk has all in memory, and goes on as if that were one.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._writes: list[Write] = []
        self.given = 0
        self.done = 0

    @property
    def has_disk(self) -> bool:
        return self._journal.has_disk

    def give(self, write: Write) -> None:
        """Have something written; its number is `given` now."""
        self.given += 1
        if self.has_disk:
            self._writes.append(write)
        else:
            self.done = self.given

    def take_writes(self) -> list[Write]:
        """What is to be written, in its order; it is the caller's now."""
        if not self._writes:
            return []
        writes, self._writes = self._writes, []
        return writes
