"""How many messages passed a channel, a queue or an exchange, since it is there. The names are those of RabbitMQ.

The hot path makes few of these counts: most are differences of numbers that it needs anyway, such as delivery tags.
"""

from __future__ import annotations

from operator import add
from typing import NamedTuple


class ChannelCounts(NamedTuple):
    """What a client did on a channel. `deliver` and `get` are those that need an acknowledgement."""

    publish: int = 0
    confirm: int = 0
    return_unroutable: int = 0
    drop_unroutable: int = 0
    deliver: int = 0
    deliver_no_ack: int = 0
    get: int = 0
    get_no_ack: int = 0
    get_empty: int = 0
    redeliver: int = 0
    ack: int = 0

    @property
    def deliver_get(self) -> int:
        return self.deliver + self.deliver_no_ack + self.get + self.get_no_ack

    def plus(self, other: ChannelCounts) -> ChannelCounts:
        return ChannelCounts(*map(add, self, other))


class QueueCounts(NamedTuple):
    """What happened to a queue, at the broker where it is active. `publish` are the messages that were routed to it."""

    publish: int = 0
    deliver: int = 0
    deliver_no_ack: int = 0
    get: int = 0
    get_no_ack: int = 0
    get_empty: int = 0
    redeliver: int = 0
    ack: int = 0

    @property
    def deliver_get(self) -> int:
        return self.deliver + self.deliver_no_ack + self.get + self.get_no_ack


class ExchangeCounts(NamedTuple):
    """`publish_in` are messages that entered the cluster here, `publish_out` those that queues of this broker got."""

    publish_in: int = 0
    publish_out: int = 0
