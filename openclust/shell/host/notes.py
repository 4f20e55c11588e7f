"""The broker's notes as log lines. A line about a connection has its peer, user and virtual host."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from openclust.cluster.protocol.peer_user import peer_name
from openclust.shell.host.event_log import fields
from openclust.shell.host.line_limit import LineLimit

if TYPE_CHECKING:
    from openclust.broker.amqp.connection import Connection
    from openclust.broker.model.effects import Note

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def about(connection: Connection) -> dict[str, Any]:
    """The fields of a log line about a connection, as far as its peer is known."""
    peer = connection.peer
    told: dict[str, Any] = {"peer": f"{peer.host}:{peer.port}"}
    if broker := peer_name(connection):
        return {**told, "broker": broker}
    if (user := connection.known_user) is not None:
        told["user"] = user.name
    if connection.was_open:
        told["vhost"] = connection.vhost.name
    if connection.client_name:
        told["connection_name"] = connection.client_name
    return told


def log_note(logger: logging.Logger, note: Note, limit: LineLimit, now_ms: int) -> None:
    """Log a note of the broker, with the connection that it is about.

    `limit` applies to clients, and to peers that are not admitted as brokers. It does not apply to debug lines.
    """
    level = _LEVELS[note.level]
    if not logger.isEnabledFor(level):
        return
    told: dict[str, Any] = {}
    if (connection := note.connection) is not None:
        told = about(connection)
        is_limited = level > logging.DEBUG and "broker" not in told
        # A queue's name or a reason may follow the colon: these lines are one kind of event.
        if is_limited and not limit.admits(connection.peer.host, note.text.partition(":")[0], now_ms):
            return
    logger.log(level, "%s", note.text, extra=fields(**{**told, **note.fields}))
