"""`amq.cluster`: where the brokers of a cluster speak to each other. Nothing is queued there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openclust.broker.model.message import Message
from openclust.broker.routing.destination import Destination

if TYPE_CHECKING:
    from openclust.broker.amqp.connection import Connection

CLUSTER_EXCHANGE = "amq.cluster"


class ControlQueue(Destination):
    """Where the messages go that one peer publishes to `amq.cluster`."""

    __slots__ = ("_connection",)

    name = CLUSTER_EXCHANGE

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def publish(self, message: Message) -> int:
        # What brokers say to each other is not counted among what applications publish.
        self._connection.broker.published -= 1
        self._connection.broker.cluster.control(self._connection, message.body)
        return 0
