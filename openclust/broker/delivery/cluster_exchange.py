"""`amq.cluster`: where the brokers of a cluster speak to each other. Nothing is queued there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openclust.broker.model.message import Message

if TYPE_CHECKING:
    from openclust.broker.amqp.connection import Connection

CLUSTER_EXCHANGE = "amq.cluster"


class ControlQueue:
    """What stands in for a queue behind `amq.cluster`, for the messages of one peer."""

    __slots__ = ("_connection", "direct", "is_alive", "name")

    def __init__(self, connection: Connection) -> None:
        self.name = CLUSTER_EXCHANGE
        self.direct = None
        self.is_alive = True
        self._connection = connection

    def publish(self, message: Message) -> bool:
        # What brokers say to each other is not counted among what applications publish.
        self._connection.broker.published -= 1
        self._connection.broker.cluster.control(self._connection, message.body)
        return True
