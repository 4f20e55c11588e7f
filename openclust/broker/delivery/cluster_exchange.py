"""The exchange `amq.cluster`: brokers publish their control messages to it. They are handled at once, not queued."""

from __future__ import annotations

from collections.abc import Callable

from openclust.broker.model.message import Message
from openclust.broker.routing.destination import Destination

CLUSTER_EXCHANGE = "amq.cluster"


class ControlQueue(Destination):
    """The destination of the control messages of one peer. `hear` is called with the body of each."""

    __slots__ = ("_hear",)

    name = CLUSTER_EXCHANGE

    def __init__(self, hear: Callable[[bytes], None]) -> None:
        self._hear = hear

    def publish(self, message: Message) -> int:
        self._hear(message.body)
        return 0
