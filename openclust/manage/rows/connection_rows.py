"""Connections of applications as rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from openclust.broker.amqp.connection import Connection
from openclust.broker.server.broker import Broker
from openclust.manage.gather.questions import FindRow, ListRows, Viewer
from openclust.manage.gather.selection import Row
from openclust.manage.rows.values import text, value
from openclust.wire.handshake import State


def connection_name(connection: Connection) -> str:
    return f"{connection.peer.host}:{connection.peer.port}"


class ConnectionRows:
    """The connections of this broker: all for who sees all, else their own."""

    values: Mapping[str, Callable[[Connection], Any]] = {
        "name": connection_name,
        "user": lambda connection: text(connection.user.name),
        "vhost": lambda connection: text(connection.vhost.name),
        "channels": lambda connection: len(connection.channels),
    }

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def objects(self, question: ListRows) -> list[Connection]:
        """`of` is a user."""
        return [
            each
            for each in connections_seen(self._broker, question.viewer)
            if (question.vhost is None or each.vhost.name == question.vhost)
            and (not question.of or each.user.name == question.of)
        ]

    def find(self, question: FindRow) -> Connection | None:
        found = connections_seen(self._broker, question.viewer)
        return next((each for each in found if connection_name(each) == question.name), None)

    def place(self, it: Connection) -> tuple[str, str]:
        return text(it.vhost.name), connection_name(it)

    def row(self, it: Connection) -> Row:
        return {**connection_row(it), "node": self._broker.name}

    def details(self, it: Connection) -> Row:
        return self.row(it)


def connections_seen(broker: Broker, viewer: Viewer) -> list[Connection]:
    """All connections of applications if the viewer sees all, else the viewer's own."""
    return [each for each in open_connections(broker) if viewer.sees_all or each.user.name == viewer.name]


def open_connections(broker: Broker) -> list[Connection]:
    """The connections of applications that have been let in, in the order they came.

    Links of brokers are none, nor are those by which the management API acts for a user.
    """
    return [
        each
        for each in broker.connections
        if hasattr(each, "vhost") and each.user.type != "cluster" and not each.peer.is_internal
    ]


def connection_row(connection: Connection) -> Row:
    peer = connection.peer
    state = "closing" if connection.state is not State.OPEN else "blocked" if connection.hold else "running"
    return {
        "name": f"{peer.host}:{peer.port}",
        "user": text(connection.user.name),
        "vhost": text(connection.vhost.name),
        "peer_host": peer.host,
        "peer_port": peer.port,
        "protocol": "AMQP 0-9-1",
        "auth_mechanism": connection.mechanism,
        "ssl": peer.is_tls,
        "state": state,
        "channels": len(connection.channels),
        "consumers": sum(len(channel.consumers or ()) for channel in connection.channels.values()),
        "frame_max": connection.frame_max,
        "channel_max": connection.channel_max,
        "timeout": connection.heartbeat_s,
        "send_pend": connection.pending_bytes,
        "client_properties": value(connection.client_properties),
    }
