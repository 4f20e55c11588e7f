"""What the broker notes, as lines of the log: each that is about a connection says whose it is."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from openclust.cluster.protocol.peer_user import peer_name
from openclust.shell.host.event_log import fields

if TYPE_CHECKING:
    from openclust.broker.amqp.connection import Connection
    from openclust.broker.model.effects import Note

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def about(connection: Connection) -> dict[str, Any]:
    """Who is at the other end of a connection, as far as that is known: fields of a log line."""
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


def log_note(logger: logging.Logger, note: Note) -> None:
    """Log what the broker noted, with whom it concerns."""
    level = _LEVELS[note.level]
    if not logger.isEnabledFor(level):
        return
    told = about(note.connection) if note.connection is not None else {}
    logger.log(level, "%s", note.text, extra=fields(**{**told, **note.fields}))
