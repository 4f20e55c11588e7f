"""The hot path: one message to all destinations of its route.

A destination may have a `direct` consumer: then no object is made, and the delivery's bytes are appended to the outbox
of the consumer's connection. The bytes behind the delivery tag are equal for all consumers of one `shape`: they are
built once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from openclust.broker.delivery.consumer import LARGE_BYTES, DeliveryTracer, Sender, pack_tag
from openclust.broker.model.message import Message
from openclust.wire.frames import content_frames
from openclust.wire.properties import Properties

if TYPE_CHECKING:
    from openclust.broker.routing.route import Route


class Arrival(NamedTuple):
    """How a message came to this broker, for a tracer."""

    event: str
    peer: str = ""
    lane: str = ""


PUBLISHED = Arrival("publish")
PUBLISHED_BEFORE = Arrival("")
"""The message was traced when it came to this broker; only now it is given to its destinations."""


class MessageTracer(DeliveryTracer, Protocol):
    """Writes a trace of a sample of the messages; see `amqp/trace.py`."""

    def fan_out(
        self,
        broker: RoutingBroker,
        route: Route,
        header: bytes,
        body: bytes,
        properties: Properties | None,
        arrival: Arrival,
    ) -> int: ...


class RoutingBroker(Sender, Protocol):
    """The broker, to those who give messages to all destinations of a route."""

    @property
    def tracer(self) -> MessageTracer | None: ...


def fan_out(
    broker: RoutingBroker,
    route: Route,
    header: bytes,
    body: bytes,
    properties: Properties | None = None,
    arrival: Arrival | None = None,
) -> int:
    """Give the message to every destination of the route. Returns bits of `model/outcome.py`.

    Without `arrival` the message is not traced.
    """
    if broker.tracer is not None and arrival is not None:
        return broker.tracer.fan_out(broker, route, header, body, properties, arrival)
    outcome = 0
    destinations = route.destinations
    dirty = broker.dirty
    message: Message | None = None
    suffix = route.suffix
    suffix_size = len(suffix)
    shape = -1
    tail = content = b""
    for destination in destinations:
        consumer = destination.direct
        if consumer is None:
            if message is None:
                message = Message(route.exchange, route.routing_key, header, body, suffix, 0, properties)
            taken = destination.publish(message)
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
            dirty.append(channel.connection)
        head = consumer.prebuilt_head if consumer.prebuilt_for_size == suffix_size else consumer.head(suffix_size)
        if tail:
            out.append(head + pack_tag(tag) + tail)
        else:
            out.append(head + pack_tag(tag) + suffix)
            out.append(content)
            channel.connection.bulky = True
    route.published += 1
    broker.turn_bytes += (len(body) + 200) * len(destinations)
    return outcome
