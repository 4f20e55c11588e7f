"""How much memory a write holds, roughly."""

from __future__ import annotations

from openclust.broker.journal.store_rows import Ahead, Checkpoint, Keep, Page, Restart, Spool, Write

OVERHEAD_BYTES = 100


def size_of(writes: list[Write]) -> int:
    """The bodies, and a constant for each object."""
    return (
        sum([len(write.body) if type(write) is Keep else _rest(write) for write in writes])
        + len(writes) * OVERHEAD_BYTES
    )


def _rest(write: Write) -> int:
    if isinstance(write, Spool):
        return len(write.body)
    if isinstance(write, Ahead):
        return _of_pages(write.pages)
    if isinstance(write, Restart):
        return len(write.kept) * 8
    if not isinstance(write, Checkpoint):
        return 0
    bodies = _of_pages(write.pages) + sum([len(dead) for _, dead in write.dead])
    return bodies + sum(map(len, write.definitions or ())) + len(write.gone) * 8


def _of_pages(pages: list[Page]) -> int:
    return sum([len(page.body) + OVERHEAD_BYTES for page in pages])
