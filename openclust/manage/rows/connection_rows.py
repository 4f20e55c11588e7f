"""Connections of applications as rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from openclust.broker.amqp.channel import Channel
from openclust.broker.amqp.connection import Connection
from openclust.broker.server.broker import Broker
from openclust.manage.gather.questions import FindRow, ListRows, Viewer
from openclust.manage.gather.selection import Row
from openclust.manage.history.shown import ShownHistory
from openclust.manage.rows.values import text, value
from openclust.shell.config.addresses import join_address
from openclust.shell.net.stream import Transport
from openclust.shell.tls.certificates import stamp
from openclust.shell.tls.tls_session import TlsSession
from openclust.wire.handshake import State

_HELD_BACK = ("memory", "cluster")
"""Reasons to hold a connection that mean: it has published, and must wait for long."""


def connection_name(connection: Connection) -> str:
    """RabbitMQ's name: where it comes from, and which address of this broker it has connected to."""
    peer = connection.peer
    return f"{join_address(peer.host, peer.port)} -> {join_address(*peer.local)}"


def channel_name(channel: Channel) -> str:
    return f"{connection_name(channel.connection)} ({channel.number})"


def transport_of(connection: Connection) -> Transport:
    """The socket, with what it has counted."""
    return cast(Transport, connection.transport)


def octets_of(connection: Connection) -> tuple[int, int]:
    """The bytes received and sent; a client within this process has none."""
    if connection.peer.is_internal:
        return 0, 0
    transport = transport_of(connection)
    traffic = transport.traffic()
    return traffic.received_bytes, traffic.sent_bytes


class ConnectionRows:
    """The connections of this broker: all for who sees all, else their own."""

    _values: Mapping[str, Callable[[Connection], Any]] = {
        "name": connection_name,
        "user": lambda connection: text(connection.user.name),
        "vhost": lambda connection: text(connection.vhost.name),
        "state": lambda connection: state_of(connection),
        "channels": lambda connection: len(connection.channels),
        "send_pend": lambda connection: connection.pending_bytes,
        "recv_oct": lambda connection: transport_of(connection).traffic().received_bytes,
        "send_oct": lambda connection: transport_of(connection).traffic().sent_bytes,
    }

    def __init__(self, broker: Broker, history: ShownHistory) -> None:
        self.values = {**self._values, **history.connection_values()}
        self._history = history
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
        return find_connection(self._broker, question.viewer, question.name)

    def place(self, it: Connection) -> tuple[str, str]:
        return text(it.vhost.name), connection_name(it)

    def row(self, it: Connection) -> Row:
        return {**connection_row(self._broker, it), **self._history.of_connection(it)}

    def details(self, it: Connection) -> Row:
        return self.row(it)


def connections_seen(broker: Broker, viewer: Viewer) -> list[Connection]:
    """All connections of applications if the viewer sees all, else the viewer's own."""
    return [each for each in open_connections(broker) if viewer.sees_all or each.user.name == viewer.name]


def channels_seen(broker: Broker, viewer: Viewer) -> list[Channel]:
    """The channels of the connections that the viewer may see."""
    return [each for connection in connections_seen(broker, viewer) for each in connection.channels.values()]


def find_connection(broker: Broker, viewer: Viewer, name: str) -> Connection | None:
    """The connection of that name, if the viewer may see it."""
    found = connections_seen(broker, viewer)
    return next((each for each in found if connection_name(each) == name), None)


def open_connections(broker: Broker) -> list[Connection]:
    """The connections of applications that have been let in, in the order they came."""
    return [each for each in broker.connections if is_of_application(each)]


def is_of_application(connection: Connection) -> bool:
    """Whether it has been let in, and is no link of a broker, nor one by which the management API acts for a user."""
    return connection.was_open and connection.user.type != "cluster" and not connection.peer.is_internal


def state_of(connection: Connection) -> str:
    if connection.state is not State.OPEN:
        return "closing"
    if connection.hold in _HELD_BACK:
        return "blocked"
    return "flow" if connection.hold else "running"


def connection_row(broker: Broker, connection: Connection) -> Row:
    peer, transport = connection.peer, transport_of(connection)
    host, port = peer.local
    traffic = transport.traffic()
    return {
        "name": connection_name(connection),
        "node": broker.name,
        "type": "network",
        "user": text(connection.user.name),
        "user_who_performed_action": text(connection.user.name),
        "user_provided_name": text(connection.client_name),
        "vhost": text(connection.vhost.name),
        "host": host,
        "port": port,
        "peer_host": peer.host,
        "peer_port": peer.port,
        "protocol": "AMQP 0-9-1",
        "auth_mechanism": connection.mechanism,
        **_tls(transport if peer.is_tls else None),
        "state": state_of(connection),
        "connected_at": transport.connected_at_ms,
        "channels": len(connection.channels),
        "consumers": sum(len(channel.consumers or ()) for channel in connection.channels.values()),
        "frame_max": connection.frame_max,
        "channel_max": connection.channel_max,
        "timeout": connection.heartbeat_s,
        "recv_oct": traffic.received_bytes,
        "recv_cnt": traffic.received_packets,
        "send_oct": traffic.sent_bytes,
        "send_cnt": traffic.sent_packets,
        "send_pend": connection.pending_bytes,
        "client_properties": value(connection.client_properties),
    }


def _tls(transport: Transport | None) -> Row:
    """What was agreed with a client by TLS; None everywhere for one without, or whose socket is gone."""
    session: TlsSession | None = None
    if transport is not None and hasattr(transport, "session"):
        session = transport.session()
    certificate = session.certificate if session is not None else None
    return {
        "ssl": transport is not None,
        "ssl_protocol": session.protocol if session is not None else None,
        "ssl_key_exchange": session.key_exchange if session is not None else None,
        "ssl_cipher": session.cipher if session is not None else None,
        "ssl_hash": session.hash if session is not None else None,
        "peer_cert_subject": certificate.subject if certificate is not None else None,
        "peer_cert_issuer": certificate.issuer if certificate is not None else None,
        "peer_cert_validity": (
            f"{stamp(certificate.begins_s)} - {stamp(certificate.expires_s)}" if certificate is not None else None
        ),
    }
