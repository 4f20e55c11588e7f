"""The waits of clients that have lost their broker, before they connect again."""

from __future__ import annotations

from itertools import pairwise

FIRST_MIN_MS = 100
FIRST_MAX_MS = 2_000
"""The bounds of the first wait after a lost connection: `openclust.client` after 0.1 s at least and
aio-pika's robust connection after 0.5 s with it, or up to its own few seconds without; loops around pika sleep a second
or two. A process that was killed is noticed at once: its kernel resets all connections."""

LATER_MAX_MS = 5_000
"""After each failed attempt both bounds double, the upper one up to this: as in `openclust.client.search`."""

OPEN_ROUND_TRIPS = 4
"""Round trips until the answer to connection.open: that of TCP, then start, tune and open."""

_GOLDEN = 0.6180339887498949


def interval_ms(tries: int) -> tuple[int, int]:
    """The shortest and the longest wait after so many failed attempts."""
    factor: int = 2 ** min(tries, 10)
    return min(FIRST_MIN_MS * factor, LATER_MAX_MS // 2), min(FIRST_MAX_MS * factor, LATER_MAX_MS)


def spread(count: int, slots: int, turn: int) -> list[int]:
    """Spread a count evenly over slots. `turn` varies the slots that get one more."""
    shift = turn * _GOLDEN % 1
    edges = [int(count * slot / slots + shift) for slot in range(slots + 1)]
    return [later - earlier for earlier, later in pairwise(edges)]
