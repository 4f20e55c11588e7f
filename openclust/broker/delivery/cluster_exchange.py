"""`amq.cluster`: where the brokers of a cluster speak to each other. Nothing is queued there."""

from __future__ import annotations

from collections.abc import Callable

from openclust.broker.model.message import Message
from openclust.broker.routing.destination import Destination

CLUSTER_EXCHANGE = "amq.cluster"


class ControlQueue(Destination):
    """Where the messages go that one peer publishes to `amq.cluster`."""

    __slots__ = ("_hear",)

    name = CLUSTER_EXCHANGE

    def __init__(self, hear: Callable[[bytes], None]) -> None:
        self._hear = hear

    def publish(self, message: Message) -> int:
        self._hear(message.body)
        return 0
