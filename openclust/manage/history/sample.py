"""The newest sample of one object: its counts, and how fast each of them goes up."""

from __future__ import annotations

from operator import sub
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

CHANNEL_COLUMNS = MESSAGE_COLUMNS
QUEUE_COLUMNS = (*QueueCounts._fields, "deliver_get", *LENGTH_COLUMNS)
EXCHANGE_COLUMNS = ExchangeCounts._fields
CONNECTION_COLUMNS = DATA_COLUMNS
VHOST_COLUMNS = (*MESSAGE_COLUMNS, *LENGTH_COLUMNS, *DATA_COLUMNS)
BROKER_COLUMNS = (*VHOST_COLUMNS, *CHURN_COLUMNS)

Numbers = tuple[int, ...]


class Sample(NamedTuple):
    """`rates` are per second, since the sample before."""

    counts: Numbers
    rates: tuple[float, ...]


def sampled(counts: Numbers, before: Sample | None, passed_ms: int) -> Sample:
    """A new sample. Without one before, all was 0; `passed_ms` is 0 if nobody has looked before."""
    if before is not None and before.counts == counts:
        # Most objects are idle: these share their tuples from sample to sample.
        return before if not any(before.rates) else Sample(before.counts, (0.0,) * len(counts))
    if not passed_ms:
        return Sample(counts, (0.0,) * len(counts))
    since = (0,) * len(counts) if before is None else before.counts
    return Sample(counts, tuple(1_000 * each / passed_ms for each in map(sub, counts, since)))
