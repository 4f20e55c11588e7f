"""How well this broker's disk is, and what follows: a root makes room for another, and publishers are told no.

A disk is ill while writes fail, or while nothing at all comes to it for too long. One that is only slow is not: there
publishers wait (`broker.books`), and a backup lets the log go by until there is room again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openclust.broker.model.outcome import ON_DISKS, ON_OWN_DISK
from openclust.cluster.election.events import DiskIs

if TYPE_CHECKING:
    from openclust.cluster.membership.membership import Membership
    from openclust.cluster.protocol.bounds import Bounds

LOOK_BEATS_MAX = 2
"""Longer between two looks, and it was this process that stood still, not the disk."""


class DiskHealth:
    """Call `look` every heartbeat and when writes begin to fail or go on, `waits` whenever more or less waits.

    `illness` says why it is ill, and is empty while it is well. `is_full`: so much waits for it that no more may.
    """

    def __init__(self, membership: Membership, bounds: Bounds) -> None:
        self._cluster = membership
        self._stall_ms = bounds.disk_stall_ms
        self.wait_ms = bounds.root_wait_ms
        self.illness = ""
        self.waiting_bytes = 0
        self.is_full = False
        self._looked_ms = membership.broker.now_ms
        # How many writes were done at the last look, and for how long it has been no more though some wait.
        self._done = 0
        self._stalled_ms = 0
        # By place: the oldest batch that is not there yet, and for how long it has been the oldest.
        self._oldest: dict[int, tuple[int, int]] = {}

    def waits(self, size: int) -> None:
        """So many bytes are not written yet."""
        broker = self._cluster.broker
        size_max = broker.limits.unwritten_bytes_max
        self.waiting_bytes = size
        self.is_full = size > (size_max // 2 if self.is_full else size_max)
        # Who is not in charge passes on what is published, and that needs no disk here.
        broker.books.unwritten_bytes = size if broker.journal.is_in_charge else 0

    def look(self, failure: str) -> None:
        """`failure` is why writes fail now; empty while they do not."""
        cluster = self._cluster
        now_ms = cluster.broker.now_ms
        passed_ms = min(now_ms - self._looked_ms, LOOK_BEATS_MAX * cluster.links.heartbeat_ms)
        self._looked_ms = now_ms
        storing = cluster.storing
        is_stuck = storing.done == self._done and storing.done < storing.given
        self._done = storing.done
        self._stalled_ms = self._stalled_ms + passed_ms if is_stuck else 0
        stall = f"nothing was written for {self._stall_ms} ms" if self._stalled_ms >= self._stall_ms else ""
        self._is(failure or stall)
        self.waits(self.waiting_bytes)
        for place in (ON_OWN_DISK, ON_DISKS):
            self._look_at(place, passed_ms)

    def _is(self, illness: str) -> None:
        before, self.illness = self.illness, illness
        if illness == before:
            return
        cluster = self._cluster
        cluster.broker.books.illness = illness
        if not illness:
            cluster.broker.note("warning", "the disk is well again")
        elif not before:
            cluster.broker.note("error", f"the disk is ill: {illness}")
        if cluster.is_primary:
            cluster.tell(DiskIs(cluster.broker.now_ms, illness))

    def _look_at(self, place: int, passed_ms: int) -> None:
        """Whoever waits for a disk has an end of it. What is refused may come there yet, and be there twice then."""
        storing = self._cluster.storing
        oldest = storing.oldest(place)
        before, since_ms = self._oldest.get(place, (0, 0))
        since_ms = since_ms + passed_ms if oldest and oldest == before else 0
        self._oldest[place] = oldest, since_ms
        if oldest and since_ms >= self.wait_ms:
            self._oldest[place] = oldest, 0
            where = "this broker's disk" if place == ON_OWN_DISK else "the disks of half of the primaries"
            reason = f"; {self.illness}" if self.illness else ""
            text = f"nothing came to {where} for {self.wait_ms} ms: what waits to be confirmed is refused{reason}"
            self._cluster.broker.note("error", text)
            storing.refuse(place)
