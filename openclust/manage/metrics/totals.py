"""What is counted anew for each scrape: the objects of this broker, in slices."""

from __future__ import annotations

import msgspec

from openclust.broker.amqp.connection import Connection
from openclust.broker.backlog.paged_backlog import PagedBacklog
from openclust.broker.queues.queue import Queue
from openclust.broker.server.broker import Broker
from openclust.manage.gather.slices import Slices
from openclust.shell.cluster.cluster_snapshot import PUBLISHERS_WAIT

OBJECTS_A_CHECK = 100


class ScrapeTotals(msgspec.Struct):
    """Of clients: those that are connected here. Of queues: those that are active here, each once in a cluster."""

    connections: int = 0
    channels: int = 0
    consumers: int = 0
    publishers: int = 0
    publishers_blocked: int = 0
    channel_unacked: int = 0
    delivered: int = 0
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

    def count_connection(self, connection: Connection) -> None:
        for channel in connection.channels.values():
            self.delivered += channel.delivery_tag
        if connection.hold in PUBLISHERS_WAIT:
            self.publishers_blocked += 1
        if not hasattr(connection, "vhost") or connection.user.type == "cluster" or connection.peer.is_internal:
            return
        self.connections += 1
        self.channels += len(connection.channels)
        self.publishers += connection.published
        for channel in connection.channels.values():
            self.consumers += len(channel.consumers or ())
            self.channel_unacked += len(channel.unacked)

    def count_queue(self, queue: Queue) -> None:
        ready, consumers = len(queue), len(queue.consumers)
        self.queues += 1
        self.queue_consumers += consumers
        self.ready += ready
        self.unacked += queue.unacked
        self.ready_bytes += queue.ready_bytes
        self.unattended += ready > 0 and not consumers
        if isinstance(queue.backlog, PagedBacklog):
            self.paged_out += queue.backlog.page_index.unloaded_count


async def count(broker: Broker) -> ScrapeTotals:
    """The totals of this broker at this moment, or nearly: clients and queues may come and go while it counts."""
    totals = ScrapeTotals(delivered=broker.delivered)
    slices = Slices()
    for number, connection in enumerate(list(broker.connections)):
        totals.count_connection(connection)
        if not number % OBJECTS_A_CHECK:
            await slices.rest()
    for vhost in list(broker.vhosts.values()):
        for number, queue in enumerate(list(vhost.queues.values())):
            if not broker.cluster.is_elsewhere(queue):
                totals.count_queue(queue)
            if not number % OBJECTS_A_CHECK:
                await slices.rest()
    return totals
