"""The two clocks of a broker, in milliseconds."""

from __future__ import annotations

import time


def monotonic_ms() -> int:
    # Unlike the monotonic clock it goes on while the machine is suspended: a lease must not outlast that.
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


def wall_ms() -> int:
    return time.time_ns() // 1_000_000
