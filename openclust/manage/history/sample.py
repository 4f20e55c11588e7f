"""The newest sample of one object: its counts, and how fast each of them goes up."""

from __future__ import annotations

from typing import NamedTuple

from openclust.broker.counts.message_counts import ChannelCounts, ExchangeCounts, QueueCounts

MESSAGE_COLUMNS = (*ChannelCounts._fields, "deliver_get")
LENGTH_COLUMNS = ("messages", "messages_ready", "messages_unacknowledged")
DATA_COLUMNS = ("recv_oct", "send_oct")
CHURN_COLUMNS = (
    "connection_created",
    "connection_closed",
    "channel_created",
    "channel_closed",
    "queue_declared",
    "queue_created",
    "queue_deleted",
)

STORE_COLUMNS = ("disk_reads", "disk_writes")
GAUGE_COLUMNS = (
    "context_switches",
    "disk_free",
    "fd_used",
    "gc_num",
    "mem_used",
    "proc_used",
    "sockets_used",
)
"""Of the process, the columns of a node that have details."""

CHANNEL_COLUMNS = MESSAGE_COLUMNS
QUEUE_COLUMNS = (*QueueCounts._fields, "deliver_get", *LENGTH_COLUMNS)
EXCHANGE_COLUMNS = ExchangeCounts._fields
CONNECTION_COLUMNS = DATA_COLUMNS
VHOST_COLUMNS = (*MESSAGE_COLUMNS, *LENGTH_COLUMNS, *DATA_COLUMNS)
BROKER_COLUMNS = (*VHOST_COLUMNS, *STORE_COLUMNS, *CHURN_COLUMNS, *GAUGE_COLUMNS)

Numbers = tuple[int, ...]


class Sample(NamedTuple):
    """`counts`, and the counts `before`, so many milliseconds earlier. Rates are made when somebody wants them."""

    counts: Numbers
    before: Numbers
    passed_ms: int

    @property
    def is_active(self) -> bool:
        return self.counts != self.before

    def rate(self, column: int) -> float:
        """What was added per second."""
        return 1_000 * (self.counts[column] - self.before[column]) / self.passed_ms if self.passed_ms else 0.0


def sampled(counts: Numbers, former: Sample | None, passed_ms: int) -> Sample:
    """A new sample. Without a former one all was 0; `passed_ms` is 0 if nobody has looked before."""
    if former is None:
        return Sample(counts, counts if not passed_ms else (0,) * len(counts), passed_ms)
    before = former.counts
    if before == counts:
        # Most objects are idle: these keep their sample from round to round.
        return Sample(before, before, passed_ms) if former.before is not before else former
    return Sample(counts, before, passed_ms)
