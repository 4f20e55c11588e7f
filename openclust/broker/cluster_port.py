"""The one seam between a broker and a cluster: what a broker asks of whoever decides with it.

A broker alone decides by itself, at once (`Standalone`). In a cluster the root orders the changes, and a client may be
better off elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from openclust.broker.changes import Change, perform
from openclust.wire.errors import ACCESS_REFUSED, AmqpError, ChannelError, ConnectionError

if TYPE_CHECKING:
    from openclust.broker.access import User
    from openclust.broker.broker import Broker
    from openclust.broker.connection import Connection
    from openclust.broker.placement import Placement

Done = Callable[[Any], None]
"""Called once with what `perform` returned, or with the AmqpError it raised."""


class ClusterPort(Protocol):
    """What a broker asks."""

    def define(self, change: Change, done: Done) -> None:
        """Make a change that all brokers share, and call `done` when it holds here."""

    def virtual_host(self, connection: Connection, name: str) -> str:
        """The virtual host that a client means by a name; ConnectionError where it wants another cluster."""

    def place(self, connection: Connection) -> Placement | None:
        """Where a client that opens should be; None is here."""

    def known_hosts(self, connection: Connection) -> str:
        """The brokers that a client may turn to, as open-ok tells them: `host:port,host:port`."""

    def admit(self, connection: Connection, response: bytes) -> User:
        """The user that a broker is here, by its answer to `connection.nonce`; ConnectionError where it is none."""

    def control(self, user: User, body: bytes) -> None:
        """Another broker says something. Raises ChannelError where it makes no sense."""


class Standalone:
    """A cluster of one: every change holds at once, and there is nobody else to turn to."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def define(self, change: Change, done: Done) -> None:
        try:
            result = perform(self._broker, change)
        except AmqpError as error:
            done(error)
        else:
            done(result)

    def virtual_host(self, connection: Connection, name: str) -> str:
        return name

    def place(self, connection: Connection) -> Placement | None:
        return None

    def known_hosts(self, connection: Connection) -> str:
        return ""

    def admit(self, connection: Connection, response: bytes) -> User:
        raise ConnectionError(ACCESS_REFUSED, "this broker is a cluster of its own")

    def control(self, user: User, body: bytes) -> None:
        raise ChannelError(ACCESS_REFUSED, "this broker is a cluster of its own")
