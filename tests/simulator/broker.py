"""One simulated broker, whatever runs in it: its clock and disk, and what waits while its loop stalls."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from typing import Any

from tests.simulator.clock import Clock
from tests.simulator.disk import Disk

QUICK_DISK_US = (10, 5_000)

Waiting = Callable[[int], Any]
"""Something that happens when it is handled, at the time that the clock shows then."""


class Broker:
    """`life` counts the starts: what was meant for an earlier one is dropped."""

    is_up = False

    def __init__(self, name: str, disk: Disk, chance: random.Random) -> None:
        self.name = name
        self.disk = disk
        self.clock = Clock(chance)
        self.life = 0
        self.inbox: deque[Waiting] = deque()
        self.reset()

    def reset(self) -> None:
        """What a crash leaves: the disk."""
        self.life += 1
        self.inbox.clear()
        self.stalled_until_us = 0
        self.wakes_at_us = 0
        self.write_us = self.sync_us = QUICK_DISK_US
        self.fails_until_us = 0
        self.crashes_at_vote = ""

    def is_busy(self, now_us: int) -> bool:
        return now_us < self.stalled_until_us

    def serves(self, now_us: int) -> bool:
        """Whether it may act as root now."""
        raise NotImplementedError

    def describe(self) -> str:
        """For people who look for the reason of a failure."""
        raise NotImplementedError
