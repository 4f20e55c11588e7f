"""When clients that have lost their broker come again."""

from __future__ import annotations

from itertools import pairwise

FIRST_MIN_MS = 100
FIRST_MAX_MS = 2_000
"""Who has lost its connection tries again after a time between these: `openclust.client` after 0.1 s at least and
aio-pika's robust connection after 0.5 s with it, or up to its own few seconds without; loops around pika sleep a second
or two. A process that was killed is noticed at once: its kernel resets all connections."""

LATER_MAX_MS = 5_000
"""Each time nobody took them, both double, up to this and half of it: as `openclust.client.search` does."""

OPEN_ROUND_TRIPS = 4
"""From the first packet to the answer to connection.open: TCP's, then start, tune, open."""

_GOLDEN = 0.6180339887498949


def interval_ms(tries: int) -> tuple[int, int]:
    """The shortest and the longest wait of who has found nobody so often."""
    factor: int = 2 ** min(tries, 10)
    return min(FIRST_MIN_MS * factor, LATER_MAX_MS // 2), min(FIRST_MAX_MS * factor, LATER_MAX_MS)


def spread(count: int, slots: int, turn: int) -> list[int]:
    """How many of them come in each of so many slots: evenly, and few of them not always in the same slots."""
    shift = turn * _GOLDEN % 1
    edges = [int(count * slot / slots + shift) for slot in range(slots + 1)]
    return [later - earlier for earlier, later in pairwise(edges)]
