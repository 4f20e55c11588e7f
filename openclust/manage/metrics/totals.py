"""What is counted anew for each scrape: the objects of this broker, in slices."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from openclust.broker.amqp.channel import OPEN, Channel
from openclust.broker.amqp.connection import Connection
from openclust.broker.counts.message_counts import ChannelCounts
from openclust.broker.queues.queue import Queue
from openclust.broker.server.broker import Broker
from openclust.manage.gather.slices import Slices
from openclust.manage.rows.connection_rows import is_of_application
from openclust.shell.cluster.cluster_snapshot import PUBLISHERS_WAIT

OBJECTS_A_CHECK = 100


def paged_out(queue: Queue) -> int:
    """How many messages of a queue are on disk only."""
    # Backlogs are asked for what they have, not what they are: that takes a tenth of the time.
    pages = getattr(queue.backlog, "page_index", None)
    return 0 if pages is None else pages.unloaded_count


class ScrapeTotals(msgspec.Struct):
    """Of clients: those that are connected here. Of queues: those that are active here, each once in a cluster."""

    connections: int = 0
    channels: int = 0
    consumers: int = 0
    publishers: int = 0
    publishers_blocked: int = 0
    channel_unacked: int = 0
    confirming: int = 0
    counts: ChannelCounts = ChannelCounts()
    queues: int = 0
    queue_consumers: int = 0
    ready: int = 0
    unacked: int = 0
    ready_bytes: int = 0
    paged_out: int = 0
    unattended: int = 0

    @property
    def messages(self) -> int:
        return self.ready + self.unacked

    @property
    def routed(self) -> int:
        counts = self.counts
        return counts.publish - counts.drop_unroutable - counts.return_unroutable

    def count_connection(self, connection: Connection) -> None:
        if connection.hold in PUBLISHERS_WAIT:
            self.publishers_blocked += 1
        if not is_of_application(connection):
            return
        self.connections += 1
        self.channels += len(connection.channels)
        self.publishers += connection.published
        for channel in connection.channels.values():
            if channel.consumers:
                self.consumers += len(channel.consumers)
            self.channel_unacked += len(channel.unacked)

    def count_queue(self, queue: Queue) -> None:
        ready, consumers = len(queue), len(queue.consumers)
        self.queues += 1
        self.queue_consumers += consumers
        self.ready += ready
        self.unacked += queue.unacked
        self.ready_bytes += queue.ready_bytes
        self.unattended += ready > 0 and not consumers
        self.paged_out += paged_out(queue)


class PassedMessages:
    """Adds up what passed on channels, some at a time, though channels are closed meanwhile.

    A channel that is closed after it was counted is among the closed ones too, and must not count twice: a counter
    that goes down again looks to Prometheus like a broker that was started anew.
    """

    def __init__(self) -> None:
        self._counted: list[tuple[Channel, list[int]]] = []
        self._sums = [0] * (len(ChannelCounts._fields) + 1)

    def add(self, channels: Iterable[Channel]) -> None:
        rows = [(channel, [*channel.counts(), channel.published_to_confirm]) for channel in channels]
        self._counted += rows
        self._sums = list(map(sum, zip(self._sums, *(row for _, row in rows), strict=True)))

    def total(self, broker: Broker) -> tuple[ChannelCounts, int]:
        """All of them, and how many were published to be confirmed."""
        closed = [*broker.closed_counts, broker.closed_confirming]
        twice = [row for channel, row in self._counted if channel.state != OPEN]
        *counts, confirming = (
            total + last - sum(row[at] for row in twice)
            for at, (total, last) in enumerate(zip(self._sums, closed, strict=True))
        )
        return ChannelCounts(*counts), confirming


async def count(broker: Broker) -> ScrapeTotals:
    """The totals of this broker at this moment, or nearly: clients and queues may come and go while it counts."""
    totals, passed = ScrapeTotals(), PassedMessages()
    connections, slices = list(broker.connections), Slices()
    for start in range(0, len(connections), OBJECTS_A_CHECK):
        some = connections[start : start + OBJECTS_A_CHECK]
        for connection in some:
            totals.count_connection(connection)
        passed.add([channel for connection in some for channel in connection.channels.values()])
        await slices.rest()
    for vhost in list(broker.vhosts.values()):
        for number, queue in enumerate(list(vhost.queues.values())):
            if not broker.cluster.is_elsewhere(queue):
                totals.count_queue(queue)
            if not number % OBJECTS_A_CHECK:
                await slices.rest()
    totals.counts, totals.confirming = passed.total(broker)
    return totals
