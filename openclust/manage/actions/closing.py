"""Connections of this broker, closed for a user of the management API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openclust.broker.amqp.connection import Connection
from openclust.manage.gather.questions import Act, Reply, ReplyFailure, ReplyValue
from openclust.manage.rows.connection_rows import connections_seen, find_connection
from openclust.wire.errors import CONNECTION_FORCED
from openclust.wire.handshake import State

if TYPE_CHECKING:
    from openclust.shell.server import Server

DONE = ReplyValue(value=b"true")


class ConnectionClosing:
    """Closes connections that the asking user may close."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def close(self, act: Act) -> Reply:
        """Close the connection of that name; 404 where this broker has none."""
        found = find_connection(self._server.broker, act.viewer, act.name)
        if found is None:
            return ReplyFailure(status=404, error="not_found", reason=f"there is no connection '{act.name}'")
        self._close([found], act)
        return DONE

    async def close_of_user(self, act: Act) -> Reply:
        """Close all connections of the user of that name."""
        found = connections_seen(self._server.broker, act.viewer)
        self._close([each for each in found if each.user.name == act.name], act)
        return DONE

    def _close(self, connections: list[Connection], act: Act) -> None:
        server = self._server
        server.broker.now_ms = server.now_ms()
        for connection in connections:
            if connection.state is not State.OPEN:
                continue
            connection.close(CONNECTION_FORCED, f"CONNECTION_FORCED - {act.arguments['reason']}")
            server.broker.note("warning", "client closed by a user of the HTTP API", connection, by=act.viewer.name)
        server.turn_soon()
