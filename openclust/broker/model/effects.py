"""What a broker asks of the shell, beside writing its connections' outboxes. Performed in the order given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from openclust.wire.sasl import Credentials

if TYPE_CHECKING:
    from openclust.broker.amqp.connection import Connection
    from openclust.broker.amqp.placement import Placement
    from openclust.wire.methods import ConnectionOpen


class CheckLogin(msgspec.Struct, frozen=True):
    """Find out whether the credentials are right; then call `connection.checked`."""

    connection: Connection
    credentials: Credentials


class CloseTransport(msgspec.Struct, frozen=True):
    """Write what is in the outbox, then close the socket.

    `close_ok` answers the client's connection.close, where it has sent one: it goes last, and not at once. aiormq
    (seen with 7.2) takes an answer that comes before it waits for one for a loss of the connection.
    """

    connection: Connection
    close_ok: bytes = b""


class StartHeartbeats(msgspec.Struct, frozen=True):
    """From now on send heartbeats, and expect them, every so many seconds."""

    connection: Connection
    interval_s: int


class Resume(msgspec.Struct, frozen=True):
    """Read the connection's socket again: what it was held for is over. Then call `connection.receive(b"")`."""

    connection: Connection


class Proxy(msgspec.Struct, frozen=True):
    """Serve the client by another broker: log in there as it did here, and hand its bytes on both ways.

    Where that cannot be had soon, call `connection.stay`.
    """

    connection: Connection
    placement: Placement
    open: ConnectionOpen
    response: bytes


class Note(msgspec.Struct, frozen=True):
    """Log an event."""

    level: Literal["debug", "info", "warning", "error"]
    text: str
    connection: Connection | None
    fields: dict[str, Any]


Effect: TypeAlias = CheckLogin | CloseTransport | StartHeartbeats | Resume | Proxy | Note
