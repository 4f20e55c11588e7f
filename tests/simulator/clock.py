"""What a broker takes for the time: a monotonic clock that drifts, and a wall clock that is off and may jump.

True time is in microseconds, and known to the world alone.
"""

from __future__ import annotations

import random

DRIFT_MAX_PERMILLE = 40
"""Leases leave 10 % between root and voter: clocks of +-4 % are still told apart, those of +-6 % would not be."""

SKEW_MAX_MS = 20_000


class Clock:
    __slots__ = ("_offset_ms", "_rate_permille", "skew_ms")

    def __init__(self, chance: random.Random) -> None:
        self._offset_ms = chance.randrange(1_000_000)
        self._rate_permille = 1000 + chance.choice(
            (0, DRIFT_MAX_PERMILLE, -DRIFT_MAX_PERMILLE, chance.randint(-DRIFT_MAX_PERMILLE, DRIFT_MAX_PERMILLE))
        )
        self.skew_ms = 0
        self.jump(chance)

    def jump(self, chance: random.Random) -> None:
        """Somebody sets the wall clock."""
        self.skew_ms = chance.choice((0, chance.randint(-SKEW_MAX_MS, SKEW_MAX_MS)))

    def monotonic_ms(self, true_us: int) -> int:
        return self._offset_ms + true_us * self._rate_permille // 1_000_000

    def wall_ms(self, true_us: int) -> int:
        return 1_000_000_000 + true_us // 1000 + self.skew_ms

    def true_us(self, monotonic_ms: int) -> int:
        """The first microsecond at which the monotonic clock shows this, or more."""
        return -(-(monotonic_ms - self._offset_ms) * 1_000_000 // self._rate_permille)
