"""`amq.cluster`: where the brokers of a cluster speak to each other. Nothing is queued there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openclust.broker.message import Message

if TYPE_CHECKING:
    from openclust.broker.access import User
    from openclust.broker.broker import Broker

CLUSTER_EXCHANGE = "amq.cluster"


class ControlQueue:
    """What stands in for a queue behind `amq.cluster`, for the messages of one peer."""

    __slots__ = ("_broker", "_user", "direct", "is_alive", "name")

    def __init__(self, broker: Broker, user: User) -> None:
        self.name = CLUSTER_EXCHANGE
        self.direct = None
        self.is_alive = True
        self._broker = broker
        self._user = user

    def publish(self, message: Message) -> bool:
        self._broker.cluster.control(self._user, message.body)
        return True
