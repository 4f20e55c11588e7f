"""The hot path: one message to all destinations of its route.

For a queue that can pass a message straight on (`queue.direct`) no object is made: the delivery's bytes go to the
consumer's outbox. What follows the delivery tag is the same for all consumers of one shape, and is built once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openclust.broker.delivery.consumer import LARGE_BYTES, Arrival, Sender, pack_tag
from openclust.broker.model.message import Message
from openclust.wire.frames import content_frames
from openclust.wire.properties import Properties

if TYPE_CHECKING:
    from openclust.broker.routing.route import Route


PUBLISHED = Arrival("publish")
PUBLISHED_BEFORE = Arrival("")
"""The message was traced when it came. It has found the way to its queues now."""


def fan_out(
    broker: Sender,
    route: Route,
    header: bytes,
    body: bytes,
    properties: Properties | None = None,
    arrival: Arrival | None = None,
) -> int:
    """Give the message to every destination of the route; what became of it, as bits of `model/outcome.py`.

    Without `arrival` it is not traced.
    """
    if broker.tracer is not None and arrival is not None:
        return broker.tracer.fan_out(broker, route, header, body, properties, arrival)
    outcome = 0
    queues = route.queues
    message: Message | None = None
    suffix = route.suffix
    suffix_size = len(suffix)
    shape = -1
    tail = content = b""
    for queue in queues:
        consumer = queue.direct
        if consumer is None:
            if message is None:
                message = Message(route.exchange, route.routing_key, header, body, suffix, 0, properties)
            taken = queue.publish(message)
            if taken:
                outcome |= taken
            continue
        channel = consumer.channel
        channel.delivery_tag = tag = channel.delivery_tag + 1
        if consumer.shape != shape:
            shape = consumer.shape
            content = content_frames(channel.number, header, body, channel.connection.frame_max)
            tail = suffix + content if len(content) < LARGE_BYTES else b""
        out = consumer.out
        if not out:
            broker.dirty.append(channel.connection)
        head = consumer._head if consumer._head_size == suffix_size else consumer.head(suffix_size)
        if tail:
            out.append(head + pack_tag(tag) + tail)
        else:
            out.append(head + pack_tag(tag) + suffix)
            out.append(content)
            channel.connection.bulky = True
    broker.turn_bytes += (len(body) + 200) * len(queues)
    return outcome
