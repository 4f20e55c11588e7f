"""The sizes of what is in a queue. Only the broker on which it is active knows them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple, cast

from openclust.broker.amqp.channel import Channel
from openclust.broker.backlog.backlog import Entry
from openclust.broker.backlog.paged_backlog import PagedBacklog
from openclust.broker.model.durability_level import NOTHING
from openclust.broker.model.message import OVERHEAD_BYTES
from openclust.broker.queues.queue import Queue
from openclust.broker.server.broker import Broker
from openclust.cluster.shared_queues.consumer_proxy import ConsumerProxy
from openclust.manage.gather.selection import Row

LOOKED_AT_MAX = 2_000
"""So many messages of a queue are looked at for one row, of those that wait and of those that are delivered.

Where there are more, the sizes of all are taken from these.
"""
PAGES_LOOKED_AT_MAX = 100
CONNECTIONS_LOOKED_AT_MAX = 1_000
QUEUE_BYTES = 600
"""What a queue without messages and consumers costs in memory."""


class MessageSizes(NamedTuple):
    """How many messages these are, the bytes of their bodies, and the same of the persistent ones among them."""

    messages: int = 0
    size: int = 0
    persistent: int = 0
    persistent_size: int = 0

    def of(self, count: int) -> MessageSizes:
        """Of so many messages like these."""
        if self.messages in (0, count):
            return self
        return MessageSizes(*(each * count // self.messages for each in self))


def contents_of(broker: Broker, queue: Queue) -> Row:
    """RabbitMQ's fields about messages: those with "ram" are in memory, those that are paged out are on disk only.

    A message that is on disk only counts as persistent; in a queue of which nothing is kept, no message does.
    """
    ready, unacked = len(queue), queue.unacked
    unloaded = _unloaded(queue)
    in_memory = _look(_in_memory(queue)).of(ready - unloaded.messages)
    delivered = _look(_delivered(broker, queue)).of(unacked)
    if queue.durability_level == NOTHING:
        in_memory, delivered = (each._replace(persistent=0, persistent_size=0) for each in (in_memory, delivered))
    ram_size = queue.ready_bytes - unloaded.size + delivered.size
    return {
        "messages": ready + unacked,
        "messages_ready": ready,
        "messages_unacknowledged": unacked,
        "messages_persistent": unloaded.messages + in_memory.persistent + delivered.persistent,
        "messages_ram": ready - unloaded.messages + unacked,
        "messages_ready_ram": ready - unloaded.messages,
        "messages_unacknowledged_ram": unacked,
        "messages_paged_out": unloaded.messages,
        "message_bytes": queue.ready_bytes + delivered.size,
        "message_bytes_ready": queue.ready_bytes,
        "message_bytes_unacknowledged": delivered.size,
        "message_bytes_persistent": unloaded.size + in_memory.persistent_size + delivered.persistent_size,
        "message_bytes_ram": ram_size,
        "message_bytes_paged_out": unloaded.size,
        "memory": QUEUE_BYTES + ram_size + OVERHEAD_BYTES * (ready - unloaded.messages + unacked),
        "head_message_timestamp": _head_timestamp(queue),
    }


def _look(entries: Iterable[Entry]) -> MessageSizes:
    count = size = persistent = persistent_size = 0
    for entry in islice(entries, LOOKED_AT_MAX):
        message = entry.message
        body_size = len(message.body)
        count += 1
        size += body_size
        if message.is_persistent:
            persistent += 1
            persistent_size += body_size
    return MessageSizes(count, size, persistent, persistent_size)


def _in_memory(queue: Queue) -> Iterable[Entry]:
    backlog = queue.backlog
    return backlog.memory if isinstance(backlog, PagedBacklog) else backlog


def _delivered(broker: Broker, queue: Queue) -> Iterator[Entry]:
    """The deliveries that are not acknowledged: the recorded ones, and those that channels hold."""
    yield from queue.recorded_unacked.values()
    if len(queue.recorded_unacked) >= queue.unacked:
        return
    channels: dict[Channel, None] = {}
    for consumer in queue.consumers:
        if isinstance(consumer, ConsumerProxy):
            yield from (entry for entry in consumer.held.values() if not entry.recorded)
        else:
            channels[cast(Channel, consumer.channel)] = None
    if not queue.consumers.all:
        # Somebody has got them one by one.
        for connection in islice(broker.connections, CONNECTIONS_LOOKED_AT_MAX):
            channels |= dict.fromkeys(connection.channels.values())
    for channel in channels:
        for item in channel.unacked.values():
            if item.queue is queue and not item.entry.recorded:
                yield item.entry


def _unloaded(queue: Queue) -> MessageSizes:
    """The messages that are on disk only."""
    backlog = queue.backlog
    if not isinstance(backlog, PagedBacklog) or not backlog.page_index.unloaded_count:
        return MessageSizes()
    count = size = 0
    for page in islice(backlog.page_index.unloaded_pages, PAGES_LOOKED_AT_MAX):
        count += page.unloaded.bit_count()
        size += page.size(page.unloaded)
        if page.sizes is not None and count > LOOKED_AT_MAX:
            # Its sizes differ, and are summed up one by one.
            break
    return MessageSizes(count, size).of(backlog.page_index.unloaded_count)


def _head_timestamp(queue: Queue) -> int | None:
    """The timestamp that its publisher gave the message that is delivered next."""
    head = next(iter(_in_memory(queue)), None)
    if head is None:
        return None
    timestamp = head.message.properties.timestamp
    return None if timestamp is None else int(timestamp)
