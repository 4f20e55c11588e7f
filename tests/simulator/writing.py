"""The thread of a simulated broker that writes to its disk: groups of writes, one after another, each late."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from openclust.broker.journal.store_rows import Write

if TYPE_CHECKING:
    from tests.simulator.host import Host
    from tests.simulator.nodes import Nodes

RETRY_US = (5_000, 60_000)


class Writing:
    """One for each life of a broker. What one turn gives comes to the disk together, or not at all.

    `ends` is the crash: a transaction that was under way is on disk, or is not; what waited is gone.
    """

    __slots__ = ("_done", "_groups", "_host", "_is_failing", "_life", "_under_way", "_world")

    def __init__(self, world: Nodes, host: Host) -> None:
        self._world = world
        self._host = host
        self._life = host.life
        self._groups: deque[list[Write]] = deque()
        self._under_way: list[Write] = []
        self._is_failing = False
        self._done = 0

    def give(self, writes: list[Write]) -> None:
        self._groups.append(writes)
        if not self._under_way:
            self._begin()

    def _begin(self) -> None:
        """Mostly all that waits; but a transaction has a bound."""
        chance = self._world.chance
        groups = self._groups
        for _ in range(len(groups) if len(groups) < 3 or chance.random() < 0.7 else chance.randint(1, len(groups))):
            self._under_way += groups.popleft()
        self._world.after(*self._host.sync_us, self._finish)

    def _finish(self) -> None:
        host, world = self._host, self._world
        if host.life != self._life:
            return
        if world.now_us < host.fails_until_us:
            if not self._is_failing:
                self._is_failing = True
                world.note(host.name, "cannot write to its disk")
                world.give(host, self._life, lambda now_ms: world.disk_fails(host, now_ms))
            world.after(*RETRY_US, self._finish)
            return
        self._is_failing = False
        host.disk.store.perform(self._under_way)
        self._done += len(self._under_way)
        self._under_way = []
        done = self._done
        world.give(host, self._life, lambda now_ms: host.running.stored(done, now_ms))
        # Its broker may be gone by what it was told.
        if self._groups and not self._under_way and host.life == self._life:
            self._begin()

    def ends(self) -> None:
        if self._under_way and not self._is_failing and self._world.chance.random() < 0.5:
            self._host.disk.store.perform(self._under_way)
        self._under_way = []
        self._groups.clear()
