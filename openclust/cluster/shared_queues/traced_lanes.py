"""Both ends of a consumer's lane on brokers that trace. Brokers that do not trace never ask whether they do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openclust.broker.model.message import Message
from openclust.cluster.protocol.lane_names import CONSUMER_LANE
from openclust.cluster.shared_queues.consumer_proxy import ConsumerProxy
from openclust.cluster.shared_queues.delivery_lane import DeliveryLane

if TYPE_CHECKING:
    from openclust.broker.amqp.connection import Connection
    from openclust.broker.amqp.trace import Tracer
    from openclust.broker.backlog.backlog import Entry
    from openclust.cluster.shared_queues.remote_queue import RemoteQueue


class TracedProxy(ConsumerProxy):
    """On the root: traces a delivery that is sent."""

    __slots__ = ()

    def deliver(self, entry: Entry) -> None:
        message = entry.message
        super().deliver(entry)
        tracer = self.channel.broker.tracer
        if tracer is not None:
            tracer.relayed(message, self.peer, CONSUMER_LANE)

    def pass_run(self, suffix: bytes, properties: bytes, bodies: list[bytes]) -> int:
        """0: the messages come one by one, for each may be traced."""
        return 0


class TracedDeliveryLane(DeliveryLane):
    """On the consumer's broker: traces a delivery that arrives."""

    __slots__ = ("_peer", "_tracer")

    def __init__(
        self, connection: Connection, number: int, source: RemoteQueue | None, tracer: Tracer, peer: str
    ) -> None:
        super().__init__(connection, number, source)
        self._tracer = tracer
        self._peer = peer

    def publish(self, arguments: bytes, header: bytes, body: bytes) -> None:
        source, suffix = self.source, b"\0%b\xce" % arguments[2:-1]
        key = self._tracer.relayed_in(suffix, header, body, self._peer, CONSUMER_LANE)
        is_straight = bool(key) and source is not None and not arguments[-1] & 1 and _is_straight(source)
        super().publish(arguments, header, body)
        if is_straight and source is not None:
            self._tracer.delivered(Message("", "", header, body, suffix), source.name)

    def publish_run(self, arguments: bytes, properties: bytes, bodies: list[bytes]) -> int:
        """0: the deliveries come one by one, for each may be traced."""
        return 0


def _is_straight(source: RemoteQueue) -> bool:
    """Whether `RemoteQueue.pass_straight` will take it. Other deliveries are traced by the consumer."""
    consumer = source.consumer
    if consumer is None or not source.no_ack or source.buffer or source.run.is_over:
        return False
    return consumer.can_take()
