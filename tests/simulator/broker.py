"""One simulated broker: its member, clock and disk, what waits while its loop stalls, and what its disk holds up."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable

from openclust.cluster.events import Effect, Event
from openclust.cluster.status import Reign
from tests.simulator.clock import Clock
from tests.simulator.disk import Disk
from tests.simulator.member import Member

Waiting = Callable[[int], Event | None]
"""An event that is made when it is handled, from the time that the clock shows then; None if it is void by then."""


class Broker:
    """`life` counts the starts: what was meant for an earlier one is dropped."""

    __slots__ = (
        "clock",
        "crashes_at_vote",
        "disk",
        "effects",
        "inbox",
        "is_writing",
        "life",
        "member",
        "name",
        "stalled_until_us",
        "takes_over",
        "waits_for_disk",
        "wakes_at_us",
        "write_us",
    )

    def __init__(self, name: str, disk: Disk, chance: random.Random) -> None:
        self.name = name
        self.disk = disk
        self.clock = Clock(chance)
        self.member: Member | None = None
        self.life = 0
        self.inbox: deque[Waiting] = deque()
        self.effects: deque[Effect] = deque()
        self.waits_for_disk = chance.random() < 0.5
        """Whether its loop stands still while it writes, or only the effects after it wait."""
        self.reset()

    def reset(self) -> None:
        """What a crash leaves: the disk."""
        self.member = None
        self.life += 1
        self.inbox.clear()
        self.effects.clear()
        self.is_writing = False
        self.stalled_until_us = 0
        self.wakes_at_us = 0
        self.takes_over = 0
        self.write_us = (10, 5_000)
        self.crashes_at_vote = ""

    @property
    def is_up(self) -> bool:
        return self.member is not None

    def is_busy(self, now_us: int) -> bool:
        return now_us < self.stalled_until_us or (self.is_writing and self.waits_for_disk)

    def serves(self, now_us: int) -> bool:
        return self.member is not None and self.member.serves(self.clock.monotonic_ms(now_us))

    def reign(self) -> Reign | None:
        return self.member.reign() if self.member is not None else None
