"""Direct reply-to: a reply goes straight to the channel of the requester, without a queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openclust.broker.backlog.backlog import Entry
from openclust.broker.delivery.consumer import Consumer, Origin, OriginHost, ReceivingChannel
from openclust.broker.model.message import Message
from openclust.broker.routing.destination import Destination

if TYPE_CHECKING:
    pass

REPLY_TO = "amq.rabbitmq.reply-to"
REPLY_PREFIX = REPLY_TO + "."


class ReplyConsumer(Consumer):
    """The requester. Prefetch does not count: a reply that cannot be sent at once is lost."""

    __slots__ = ()

    def can_take(self) -> bool:
        return self.channel.flowing and not self.channel.connection.paused


class ReplyQueue(Destination, Origin):
    """The reply address of one channel, and the origin of its one consumer. A message is sent at once or lost."""

    __slots__ = ("address", "consumer", "direct", "vhost")

    name = REPLY_TO
    vhost: OriginHost
    direct: Consumer | None
    is_private = True
    is_shared = False

    def __init__(self, vhost: OriginHost, address: str) -> None:
        self.vhost = vhost
        self.address = address
        self.direct = None
        self.consumer: Consumer | None = None

    @property
    def is_alive(self) -> bool:
        return self.consumer is not None

    def attach(self, channel: ReceivingChannel, tag: str) -> Consumer:
        consumer = ReplyConsumer(channel, self, tag, no_ack=True, exclusive=False, priority=0, arguments={})
        self.consumer = consumer
        self.refresh_direct()
        return consumer

    def publish(self, message: Message) -> int:
        """Deliver the reply; drop it if the requester does not read its socket."""
        if self.consumer is not None and self.consumer.can_take():
            self.consumer.deliver(Entry(message, 0))
        return 0

    def refresh_direct(self) -> None:
        self.direct = self.consumer if self.consumer is not None and self.consumer.can_take() else None

    def stop(self, consumer: Consumer) -> None:
        """Deliver nothing more."""
        self.consumer = self.direct = None

    def forget(self, entry: Entry) -> None:
        """Replies are not kept."""

    def consumer_ready(self, consumer: Consumer) -> None:
        """The requester reads its socket again."""
        self.refresh_direct()
