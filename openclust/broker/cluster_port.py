"""The one seam between a broker and a cluster: what a broker asks of whoever decides with it.

A broker alone decides by itself, at once (`Standalone`). In a cluster the root orders the changes, and a client may be
better off elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from openclust.broker.changes import Change, perform
from openclust.wire.errors import AmqpError

if TYPE_CHECKING:
    from openclust.broker.broker import Broker

Done = Callable[[Any], None]
"""Called once with what `perform` returned, or with the AmqpError it raised."""


class ClusterPort(Protocol):
    """What a broker asks."""

    def define(self, change: Change, done: Done) -> None:
        """Make a change that all brokers share, and call `done` when it holds here."""

    def known_hosts(self) -> str:
        """The brokers that a client may turn to, as open-ok tells them: `host:port,host:port`."""


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

    def known_hosts(self) -> str:
        return ""
