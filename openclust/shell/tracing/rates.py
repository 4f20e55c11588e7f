"""How many messages pass through a broker a second. The counters are read every 5 s, which costs next to nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from openclust.cluster.membership.membership import Membership

SAMPLE_EVERY_MS = 5_000

MessageCounts = tuple[int, int, int]


class Rates:
    """Call `look` now and then."""

    def __init__(self, membership: Membership) -> None:
        self._membership = membership
        self._since_ms = 0
        self._before: MessageCounts | None = None
        self._per_s: tuple[float, ...] = ()

    def look(self, now_ms: int) -> None:
        """Take a sample, if the last one is old enough."""
        passed_ms = now_ms - self._since_ms
        if self._before is not None and passed_ms < SAMPLE_EVERY_MS:
            return
        counts = self._count()
        if self._before is not None:
            pairs = zip(counts, self._before, strict=True)
            self._per_s = tuple(1_000 * (after - before) / passed_ms for after, before in pairs)
        self._before, self._since_ms = counts, now_ms

    def _count(self) -> MessageCounts:
        """Messages published here by applications, delivered to them, and relayed to other brokers."""
        broker = self._membership.broker
        channels = (channel for connection in broker.connections for channel in connection.channels.values())
        delivered = broker.delivered + sum(channel.delivery_tag for channel in channels)
        relayed = sum(outbox.relayed for outbox in self._membership.links.outboxes.values())
        return broker.published, delivered, relayed

    def shown(self) -> dict[str, float] | None:
        """Messages a second over the last interval; None before the second sample."""
        if not self._per_s:
            return None
        published, delivered, relayed = self._per_s
        return {"published_per_s": published, "delivered_per_s": delivered, "relayed_per_s": relayed}
