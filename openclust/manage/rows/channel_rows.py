"""Channels of applications as rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from openclust.broker.amqp.channel import Channel
from openclust.broker.server.broker import Broker
from openclust.manage.gather.questions import FindRow, ListRows
from openclust.manage.gather.selection import Row
from openclust.manage.history.shown import ShownHistory
from openclust.manage.rows.connection_rows import channel_name, channels_seen, connection_name
from openclust.manage.rows.consumer_rows import PlacedConsumer, consumer_row
from openclust.manage.rows.values import text


class ChannelRows:
    """The channels of the connections that the viewer may see."""

    _values: Mapping[str, Callable[[Channel], Any]] = {
        "name": channel_name,
        "user": lambda channel: text(channel.connection.user.name),
        "vhost": lambda channel: text(channel.connection.vhost.name),
        "number": lambda channel: channel.number,
        "messages_unacknowledged": lambda channel: len(channel.unacked),
        "messages_unconfirmed": lambda channel: _unconfirmed(channel),
        "prefetch_count": lambda channel: channel.prefetch_each,
        "consumer_count": lambda channel: len(channel.consumers or ()),
    }

    def __init__(self, broker: Broker, history: ShownHistory) -> None:
        self.values = {**self._values, **history.channel_values()}
        self._history = history
        self._broker = broker

    def objects(self, question: ListRows) -> list[Channel]:
        """`of` is a connection."""
        return [
            each
            for each in channels_seen(self._broker, question.viewer)
            if (question.vhost is None or each.connection.vhost.name == question.vhost)
            and (not question.of or connection_name(each.connection) == question.of)
        ]

    def find(self, question: FindRow) -> Channel | None:
        found = channels_seen(self._broker, question.viewer)
        return next((each for each in found if channel_name(each) == question.name), None)

    def place(self, it: Channel) -> tuple[str, str]:
        return text(it.connection.vhost.name), channel_name(it)

    def row(self, it: Channel) -> Row:
        connection, transaction = it.connection, it.transaction
        return {
            "name": channel_name(it),
            "node": self._broker.name,
            "number": it.number,
            "user": text(connection.user.name),
            "user_who_performed_action": text(connection.user.name),
            "vhost": text(connection.vhost.name),
            "connection_details": {
                "name": connection_name(connection),
                "peer_host": connection.peer.host,
                "peer_port": connection.peer.port,
            },
            "state": "running" if it.flowing else "flow",
            "confirm": it.confirms is not None,
            "transactional": transaction is not None,
            "consumer_count": len(it.consumers or ()),
            "prefetch_count": it.prefetch_each,
            "global_prefetch_count": it.prefetch_all,
            "messages_unacknowledged": len(it.unacked),
            "messages_unconfirmed": _unconfirmed(it),
            "messages_uncommitted": len(transaction.publications) if transaction is not None else 0,
            "acks_uncommitted": len(transaction.items()) if transaction is not None else 0,
            **self._history.of_channel(it),
        }

    def details(self, it: Channel) -> Row:
        """With its consumers. What goes to each queue and exchange is counted per queue and exchange, not per channel:
        RabbitMQ leaves these lists empty too in its rates mode "basic"."""
        consumers = (it.consumers or {}).values()
        return {
            **self.row(it),
            "consumer_details": [consumer_row(self._broker, PlacedConsumer(it, each)) for each in consumers],
            "deliveries": [],
            "publishes": [],
        }


def _unconfirmed(channel: Channel) -> int:
    return channel.confirms.unsent_count if channel.confirms is not None else 0
