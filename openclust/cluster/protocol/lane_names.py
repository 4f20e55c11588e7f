"""The names that a trace gives to the lanes between brokers."""

from __future__ import annotations

CONSUMER_LANE = "consumer"
"""From the root to the broker of a shared queue's consumer."""
ROOT_LANE = "root"
"""To the root, for shared queues. The private queues of the root get the same copy."""
PASS_ON_LANE = "pass-on"
"""From a secondary to the primary that passes it on to other secondaries."""
PRIVATE_LANE = "private"
"""To a broker with private queues that are bound for it."""


def lane_name(reach: int) -> str:
    """The name of a relay lane with these flags (`lanes.Reach`)."""
    if reach & 2:
        return ROOT_LANE
    return PASS_ON_LANE if reach & 4 else PRIVATE_LANE
