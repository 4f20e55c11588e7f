"""How far the log is committed, in memory and on disk: one number of each for the whole broker."""

from __future__ import annotations

from openclust.cluster.protocol.status import Position

NOTHING = Position()
"""Where a log begins: nothing is committed up to there."""


class CommitIndex:
    """At least half of the defined primaries hold the log up to `memory`, and have it on disk up to `disk`.

    Both only grow, whatever becomes of the followers that were counted, and `disk <= memory` always holds. Neither is
    beyond the end of this broker's log: whoever cuts the log calls `cut`, whoever puts a snapshot in its place calls
    `forget`.

    It outlives roles. On a root, `Followers` call `advance`: when an entry is appended, when a follower says what it
    holds, and when more is on the root's own disk. On a follower, `Replica` calls it with what the root says, which is
    of `memory` only. Everybody else reads the two attributes.
    """

    __slots__ = ("disk", "memory")

    def __init__(self) -> None:
        self.memory = NOTHING
        self.disk = NOTHING

    def advance(self, memory: Position, disk: Position = NOTHING) -> None:
        """So much is known to be committed; perhaps more was known before."""
        if memory > self.memory:
            self.memory = memory
        if disk > self.disk:
            self.disk = min(disk, self.memory)

    def cut(self, end: Position) -> None:
        """The log ends there now."""
        self.memory = min(self.memory, end)
        self.disk = min(self.disk, end)

    def forget(self) -> None:
        """A snapshot has taken the place of the log: nothing is known of what the snapshot's root has committed."""
        self.memory = self.disk = NOTHING
