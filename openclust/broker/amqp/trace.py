"""The trace of a sample of messages: events such as publish, relay, enqueue and deliver.

A hash of the message decides whether it is traced. So all brokers with the same sample rate trace the same messages,
and need not tell each other. Equal messages are all traced under one id, or not at all.
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
"""So much of a body is hashed. The size of the whole body is in the header."""

PUBLISH = PUBLISHED.event
RELAY = "relay"
RELAYED_IN = "relayed-in"
DROP = "drop"
ENQUEUE = "enqueue"
DELIVER = "deliver"


class TraceEvent(msgspec.Struct, omit_defaults=True, kw_only=True):
    """One line of a trace. The writer sets the time and `broker`; empty fields are left out."""

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
    """Calls `write` with the events of one in `sample` messages. Set `is_on` to False to stop it."""

    __slots__ = ("_sample", "_write", "is_on")

    def __init__(self, sample: int, write: Callable[[TraceEvent], None]) -> None:
        self._sample = sample
        self._write = write
        self.is_on = True

    def mark(self, suffix: bytes, header: bytes, body: bytes) -> str:
        """The trace id of a message; empty if it is not traced. `suffix` is that of its deliveries."""
        if len(body) > HASHED_BYTES_MAX:
            body = body[:HASHED_BYTES_MAX]
        if crc32(body, crc32(header, crc32(suffix))) % self._sample or not self.is_on:
            return ""
        return blake2b(b"%b%b%b" % (suffix, header, body), digest_size=8).hexdigest()

    # -- in place of fan_out

    def fan_out(
        self,
        broker: RoutingBroker,
        route: Route,
        header: bytes,
        body: bytes,
        properties: Properties | None,
        arrival: Arrival,
    ) -> int:
        """Give a message to all destinations of its route, and trace it."""
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

    # -- only the trace

    def relayed(self, message: Message, peer: str, lane: str, *, event: str = RELAY) -> None:
        """A message goes to another broker (or is dropped, because its link is full)."""
        key = self.mark(message.suffix, message.header, message.body)
        if key:
            self._write(TraceEvent(event=event, id=key, peer=peer, lane=lane, size=len(message.body)))

    def relayed_in(self, suffix: bytes, header: bytes, body: bytes, peer: str, lane: str) -> str:
        """A delivery of another broker comes. Returns the trace id of the message."""
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
    """A consumer of a shared queue, on a broker that traces."""

    __slots__ = ()

    def deliver(self, entry: Entry) -> None:
        name, message = self.queue.name, entry.message
        super().deliver(entry)
        tracer = self.channel.broker.tracer
        if tracer is not None:
            tracer.delivered(message, name)
