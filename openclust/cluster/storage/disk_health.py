"""Whether this broker's disk is well. If not, a root resigns in favour of another, and publishers are refused.

A disk is ill while writes fail, or while nothing at all comes to it for too long. One that is only slow is not: there
publishers wait (`broker.memory_accounts`), and a backup lets the log go by until there is room again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openclust.cluster.election.events import DiskIs

if TYPE_CHECKING:
    from openclust.broker.server.broker import Broker
    from openclust.cluster.election.elector import Elector
    from openclust.cluster.protocol.bounds import Bounds
    from openclust.cluster.protocol.links import Links
    from openclust.cluster.storage.store_writes import StoreWrites

LOOK_BEATS_MAX = 2
"""If two looks are further apart than so many heartbeats, this process stood still, not the disk."""


class DiskHealth:
    """Call `look` every heartbeat and when writes begin to fail or go on, `waits` whenever more or less waits.

    `illness` says why it is ill, and is empty while it is well. `is_full`: so much waits for it that no more may.
    """

    def __init__(self, broker: Broker, links: Links, elector: Elector, writes: StoreWrites, bounds: Bounds) -> None:
        self._broker = broker
        self._links = links
        self._elector = elector
        self._writes = writes
        self._stall_ms = bounds.disk_stall_ms
        self.illness = ""
        self.waiting_bytes = 0
        self.is_full = False
        self._looked_ms = broker.now_ms
        # How many writes were done at the last look, and for how long no more were done though some wait.
        self._done = 0
        self._stalled_ms = 0

    def waits(self, size: int) -> None:
        """So many bytes are not written yet."""
        broker = self._broker
        size_max = broker.limits.unwritten_bytes_max
        self.waiting_bytes = size
        self.is_full = size > (size_max // 2 if self.is_full else size_max)
        # A broker that is not root passes publishes on, and they need no disk here.
        broker.memory_accounts.unwritten_bytes = size if broker.journal.is_in_charge else 0

    def look(self, failure: str) -> int:
        """`failure` is why writes fail now; empty while they do not. How many ms have passed since the last look.

        Time in which this process stood still is not among them.
        """
        now_ms, writes = self._broker.now_ms, self._writes
        passed_ms = min(now_ms - self._looked_ms, LOOK_BEATS_MAX * self._links.heartbeat_ms)
        self._looked_ms = now_ms
        is_stuck = writes.done == self._done and writes.done < writes.given
        self._done = writes.done
        self._stalled_ms = self._stalled_ms + passed_ms if is_stuck else 0
        stall = f"nothing was written for {self._stall_ms} ms" if self._stalled_ms >= self._stall_ms else ""
        self._is(failure or stall)
        self.waits(self.waiting_bytes)
        return passed_ms

    def _is(self, illness: str) -> None:
        before, self.illness = self.illness, illness
        if illness == before:
            return
        broker = self._broker
        broker.memory_accounts.disk_problem = illness
        if not illness:
            broker.note("warning", "the disk is well again")
        elif not before:
            broker.note("error", f"the disk is ill: {illness}")
        if self._elector.is_primary:
            self._elector.tell(DiskIs(broker.now_ms, illness))
