"""The receiving end of a lane that carries the deliveries to one consumer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openclust.broker.amqp.channel import Channel
from openclust.broker.model.message import Message
from openclust.broker.routing.route import Route

if TYPE_CHECKING:
    from openclust.broker.amqp.connection import Connection
    from openclust.cluster.shared_queues.remote_queue import RemoteQueue


class DeliveryLane(Channel):
    """A delivery comes as a publish; `mandatory` says redelivered. `source` is None if the consumer is gone."""

    __slots__ = ("_arguments", "_redelivered", "_route", "count", "source")

    def __init__(self, connection: Connection, number: int, source: RemoteQueue | None) -> None:
        super().__init__(connection, number)
        self.source = source
        self.count = 0
        self._arguments = b""
        # Of exchange and routing key only the bytes are needed: `publish` writes them to the route's suffix.
        self._route = Route("", "", () if source is None else (source,))
        self._redelivered = 0

    def publish(self, arguments: bytes, header: bytes, body: bytes) -> None:
        self.count += 1
        if arguments != self._arguments:
            self._arguments = arguments
            # A publish is ticket, exchange, routing key, bits; a delivery has redelivered, exchange, routing key.
            self._route.suffix = b"\0%b\xce" % arguments[2:-1]
            self._redelivered = arguments[-1] & 1
        source = self.source
        if source is None:
            return
        if self._redelivered or not source.pass_straight(self._route, header, body, self.count):
            source.arrived(Message("", "", header, body, self._route.suffix), self.count, self._redelivered)

    def publish_run(self, arguments: bytes, properties: bytes, bodies: list[bytes]) -> int:
        """Deliveries that differ in nothing but their bodies; returns how many of them went to the client at once."""
        source = self.source
        if source is None or arguments != self._arguments or self._redelivered:
            return 0
        taken = source.pass_run_straight(self._route.suffix, properties, bodies, self.count)
        self.count += taken
        return taken

    def release(self) -> None:
        """Nothing is given back here: the client settles its deliveries by their remote queue."""
        self.consumers = None
