"""How much memory a write holds, roughly."""

from __future__ import annotations

from openclust.broker.storage import Checkpoint, Keep, Spool, Write

OVERHEAD_BYTES = 100


def size_of(writes: list[Write]) -> int:
    """The bodies, and something for each object."""
    return (
        sum([len(write.body) if type(write) is Keep else _rest(write) for write in writes])
        + len(writes) * OVERHEAD_BYTES
    )


def _rest(write: Write) -> int:
    if isinstance(write, Spool):
        return len(write.body)
    if not isinstance(write, Checkpoint):
        return 0
    bodies = sum([len(page.body) + OVERHEAD_BYTES for page in write.pages]) + sum([len(dead) for _, dead in write.dead])
    return bodies + sum(map(len, write.definitions or ())) + len(write.gone) * 8
