"""Consumers as rows: each broker shows those of its own clients, also of queues that are active elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from openclust.broker.amqp.channel import Channel
from openclust.broker.delivery.consumer import Consumer
from openclust.broker.server.broker import Broker
from openclust.manage.gather.questions import FindRow, ListRows, Viewer
from openclust.manage.gather.selection import Row
from openclust.manage.rows.connection_rows import channel_name, channels_seen, connection_name
from openclust.manage.rows.values import text, value


class PlacedConsumer(NamedTuple):
    """A consumer and the channel it came by."""

    channel: Channel
    consumer: Consumer


class ConsumerRows:
    """The consumers on the channels that the viewer may see."""

    values: Mapping[str, Callable[[PlacedConsumer], Any]] = {
        "consumer_tag": lambda it: text(it.consumer.tag),
        "prefetch_count": lambda it: it.consumer.prefetch,
        "queue.name": lambda it: text(it.consumer.queue.name),
    }

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def objects(self, question: ListRows) -> list[PlacedConsumer]:
        """They can be asked for by their `queue`."""
        queue = question.where.get("queue")
        return [
            each
            for each in self._seen(question.viewer)
            if (question.vhost is None or each.channel.connection.vhost.name == question.vhost)
            and (queue is None or each.consumer.queue.name == queue)
        ]

    def find(self, question: FindRow) -> PlacedConsumer | None:
        return next((each for each in self._seen(question.viewer) if each.consumer.tag == question.name), None)

    def _seen(self, viewer: Viewer) -> list[PlacedConsumer]:
        return [
            PlacedConsumer(channel, consumer)
            for channel in channels_seen(self._broker, viewer)
            for consumer in (channel.consumers or {}).values()
        ]

    def place(self, it: PlacedConsumer) -> tuple[str, str]:
        return text(it.channel.connection.vhost.name), text(it.consumer.tag)

    def row(self, it: PlacedConsumer) -> Row:
        return consumer_row(self._broker, it)

    def details(self, it: PlacedConsumer) -> Row:
        return self.row(it)


def consumer_row(broker: Broker, it: PlacedConsumer) -> Row:
    channel, consumer = it
    connection = channel.connection
    is_active, activity = _activity(it)
    return {
        "consumer_tag": text(consumer.tag),
        "ack_required": not consumer.no_ack,
        "exclusive": consumer.exclusive,
        "active": is_active,
        "activity_status": activity,
        "prefetch_count": consumer.prefetch,
        "consumer_timeout": consumer.timeout_ms or None,
        "arguments": value(consumer.arguments),
        "queue": {"name": text(consumer.queue.name), "vhost": text(connection.vhost.name)},
        "channel_details": {
            "name": channel_name(channel),
            "node": broker.name,
            "number": channel.number,
            "connection_name": connection_name(connection),
            "peer_host": connection.peer.host,
            "peer_port": connection.peer.port,
            "user": text(connection.user.name),
        },
    }


def _activity(it: PlacedConsumer) -> tuple[bool | None, str | None]:
    """Whether messages may come to the consumer, and RabbitMQ's word for it.

    Of a queue with a single active consumer they come to one only; if it is active on another broker, only that broker
    knows to which: then both are None.
    """
    queue = it.channel.connection.vhost.queues.get(it.consumer.queue.name)
    if queue is None or not queue.args.single_active_consumer:
        return True, "up"
    if it.consumer.queue is not queue:
        return None, None
    is_active = queue.consumers.active() is it.consumer
    return is_active, "single_active" if is_active else "waiting"
