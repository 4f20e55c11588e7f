"""Other brokers of the cluster, as targets of meta-bindings."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from openclust.broker.routing.exchange import Binding, Targets


class RemoteBroker:
    """Another broker: its meta-bindings say which messages of an exchange its private queues want."""

    __slots__ = ("incoming", "name")

    # Meta-bindings are neither stored nor advertised here: the broker with the private queue advertises them.
    durable = False
    is_private = False
    is_exchange = False

    def __init__(self, name: str) -> None:
        self.name = name
        self.incoming: dict[Binding, None] | None = None

    def add_to(self, targets: Targets) -> None:
        targets.brokers[self.name] = None
