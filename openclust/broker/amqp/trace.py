"""What happens to a sample of the messages, told event by event: published, passed on, queued, handed over.

Which messages are followed is decided by what they are, not by chance or count: all brokers that sample alike follow
the same ones, though nothing about it crosses between them. Equal messages are followed all or none, under one id.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import TYPE_CHECKING
from zlib import crc32

import msgspec

from openclust.broker.delivery.cluster_exchange import CLUSTER_EXCHANGE
from openclust.broker.delivery.consumer import Consumer
from openclust.broker.delivery.fanout import PUBLISHED, Arrival, RoutingBroker, fan_out

if TYPE_CHECKING:
    from openclust.broker.backlog.backlog import Entry
    from openclust.broker.model.message import Message
    from openclust.broker.routing.route import Route
    from openclust.wire.properties import Properties

HASHED_BYTES_MAX = 4_096
"""Of a body, so much says which message it is; its size is in the header."""

PUBLISH = PUBLISHED.event
RELAY = "relay"
RELAYED_IN = "relayed-in"
DROP = "drop"
ENQUEUE = "enqueue"
DELIVER = "deliver"


class TraceEvent(msgspec.Struct, omit_defaults=True, kw_only=True):
    """One line of a trace. Time and `broker` are set by who writes it; what an event does not have is left out."""

    event: str
    at_us: int = 0
    broker: str = ""
    id: str = ""
    exchange: str = ""
    key: str = ""
    size: int = 0
    """Of the body."""
    peer: str = ""
    lane: str = ""
    queue: str = ""
    """A shared one."""
    count: int = 0
    """To how many private queues (with their subscribers) the message was handed; 1 for a shared queue."""
    written_us: int = 0


class Tracer:
    """Calls `write` with the events of one in `sample` messages, as they happen. `is_on` may be taken back."""

    __slots__ = ("_sample", "_write", "is_on")

    def __init__(self, sample: int, write: Callable[[TraceEvent], None]) -> None:
        self._sample = sample
        self._write = write
        self.is_on = True

    def mark(self, suffix: bytes, header: bytes, body: bytes) -> str:
        """The id of a message that is followed; empty for all others. `suffix` is that of its deliveries."""
        if len(body) > HASHED_BYTES_MAX:
            body = body[:HASHED_BYTES_MAX]
        if crc32(body, crc32(header, crc32(suffix))) % self._sample or not self.is_on:
            return ""
        return blake2b(b"%b%b%b" % (suffix, header, body), digest_size=8).hexdigest()

    # -- in the place of fan_out

    def fan_out(
        self,
        broker: RoutingBroker,
        route: Route,
        header: bytes,
        body: bytes,
        properties: Properties | None,
        arrival: Arrival,
    ) -> int:
        """A message goes to all destinations of its route."""
        key = self.mark(route.suffix, route.whole_header or header, body)
        if not key or route.exchange == CLUSTER_EXCHANGE:
            return fan_out(broker, route, header, body, properties)
        size = len(body)
        if arrival is PUBLISHED:
            self._write(TraceEvent(event=PUBLISH, id=key, exchange=route.exchange, key=route.routing_key, size=size))
        elif arrival.event:
            self._write(TraceEvent(event=arrival.event, id=key, peer=arrival.peer, lane=arrival.lane, size=size))
        private, straight = 0, []
        for destination in route.destinations:
            if destination.is_private:
                private += 1
            elif destination.is_shared:
                self._write(TraceEvent(event=ENQUEUE, id=key, queue=destination.name, count=1, size=size))
                if destination.direct is not None:
                    straight.append(destination.name)
        outcome = fan_out(broker, route, header, body, properties)
        for name in straight:
            self._write(TraceEvent(event=DELIVER, id=key, queue=name, count=1, size=size))
        if private:
            self._write(TraceEvent(event=DELIVER, id=key, count=private, size=size))
        return outcome

    # -- beside what is done anyhow

    def relayed(self, message: Message, peer: str, lane: str, *, event: str = RELAY) -> None:
        """A message goes to another broker (or is dropped, because its link is full)."""
        key = self.mark(message.suffix, message.header, message.body)
        if key:
            self._write(TraceEvent(event=event, id=key, peer=peer, lane=lane, size=len(message.body)))

    def relayed_in(self, suffix: bytes, header: bytes, body: bytes, peer: str, lane: str) -> str:
        """A delivery of another broker comes; the message's id, if it is followed."""
        key = self.mark(suffix, header, body)
        if key:
            self._write(TraceEvent(event=RELAYED_IN, id=key, peer=peer, lane=lane, size=len(body)))
        return key

    def delivered(self, message: Message, queue: str) -> None:
        """A client gets a message of a shared queue."""
        key = self.mark(message.suffix, message.header, message.body)
        if key:
            self._write(TraceEvent(event=DELIVER, id=key, queue=queue, count=1, size=len(message.body)))


class TracedConsumer(Consumer):
    """A consumer of a shared queue, at a broker that traces."""

    __slots__ = ()

    def deliver(self, entry: Entry) -> None:
        name, message = self.queue.name, entry.message
        super().deliver(entry)
        tracer = self.channel.broker.tracer
        if tracer is not None:
            tracer.delivered(message, name)
