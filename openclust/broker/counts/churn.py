"""How often connections, channels and queues have come and gone."""

from __future__ import annotations


class Churn:
    """Counts since the broker's start, in RabbitMQ's names.

    A shared queue is counted by the root alone, and a declare where the client is: the sum of all brokers counts
    each once.
    """

    __slots__ = (
        "channel_closed",
        "channel_created",
        "connection_closed",
        "connection_created",
        "queue_created",
        "queue_declared",
        "queue_deleted",
    )

    def __init__(self) -> None:
        self.connection_created = self.connection_closed = 0
        self.channel_created = self.channel_closed = 0
        self.queue_declared = self.queue_created = self.queue_deleted = 0
