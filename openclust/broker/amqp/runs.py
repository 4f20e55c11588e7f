"""Runs: publishes that come one after the other and differ in their bodies only.

A client with a feed sends hundreds of them. If nobody has to remember the messages (one queue, no confirms, no
acknowledgements, not persistent), all decisions are made once for the run, and a message costs little more than its
bytes. Other messages are published one by one: each function here returns how many messages it took, from the first
on, and its caller publishes the rest.

The `properties` of a run are the bytes of its content headers behind the body size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openclust.broker.delivery.consumer import LARGE_BYTES, Consumer, Sender, pack_tag
from openclust.wire.frames import ENVELOPE, FRAME_BODY, FRAME_END, FRAME_HEADER, FRAME_OVERHEAD
from openclust.wire.properties import content_header

if TYPE_CHECKING:
    from openclust.broker.routing.route import Route


def pass_run(broker: Sender, route: Route, properties: bytes, bodies: list[bytes]) -> int:
    """Send a run to the only consumer of the only destination of its route, if that takes messages without acks."""
    taken = 0
    if len(route.destinations) == 1:
        destination = route.destinations[0]
        if destination.direct is not None:
            taken = deliver_run(destination.direct, route.suffix, properties, bodies)
        else:
            taken = destination.pass_run(route.suffix, properties, bodies)
    route.published += taken
    broker.turn_bytes += sum(map(len, bodies[:taken])) + 200 * taken
    return taken


def deliver_run(consumer: Consumer, suffix: bytes, properties: bytes, bodies: list[bytes]) -> int:
    """Send a run to a consumer without acknowledgements: all of it, or nothing if a body is too large."""
    channel = consumer.channel
    connection = channel.connection
    sizes = set(map(len, bodies))
    largest = max(sizes)
    if largest >= LARGE_BYTES or 0 < connection.frame_max < largest + FRAME_OVERHEAD:
        return 0
    head = consumer.head(len(suffix))
    middles = {size: suffix + upto_body(channel.number, properties, size) for size in sizes}
    first = channel.delivery_tag + 1
    channel.delivery_tag += len(bodies)
    if not consumer.out:
        channel.broker.dirty.append(connection)
    deliveries = [
        b"%b%b%b%b\xce" % (head, pack_tag(tag), middles[len(body)], body) for tag, body in enumerate(bodies, first)
    ]
    consumer.out.append(b"".join(deliveries))
    return len(bodies)


def upto_body(channel: int, properties: bytes, size: int) -> bytes:
    """The frames of a message's content up to its body, if the body is one frame."""
    header = content_header(properties, size)
    body = ENVELOPE.pack(FRAME_BODY, channel, size)
    return ENVELOPE.pack(FRAME_HEADER, channel, len(header)) + header + FRAME_END + body
