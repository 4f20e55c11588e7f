"""What a broker asks of the shell, beside flushing its outboxes. The shell performs effects in their order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from openclust.wire.sasl import Credentials

if TYPE_CHECKING:
    from openclust.broker.amqp.connection import Connection
    from openclust.broker.amqp.placement import Placement
    from openclust.wire.methods import ConnectionOpen


class CheckLogin(msgspec.Struct, frozen=True):
    """Check the credentials, then call `connection.checked`."""

    connection: Connection
    credentials: Credentials


class CloseTransport(msgspec.Struct, frozen=True):
    """Write what is in the outbox, then close the socket.

    `close_ok` is the answer to the client's connection.close, if it has sent one. Send it last, and a moment later:
    aiormq (seen with 7.2) takes an answer that comes before it waits for it for a lost connection.
    """

    connection: Connection
    close_ok: bytes = b""


class StartHeartbeats(msgspec.Struct, frozen=True):
    """From now on send and expect heartbeats, one in `interval_s`."""

    connection: Connection
    interval_s: int


class Resume(msgspec.Struct, frozen=True):
    """The connection need not wait any more: read its socket, and call `connection.receive(b"")`."""

    connection: Connection


class Proxy(msgspec.Struct, frozen=True):
    """Connect the client to another broker: log in there with its credentials, and copy bytes in both directions.

    If that does not succeed soon, call `connection.stay`.
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
