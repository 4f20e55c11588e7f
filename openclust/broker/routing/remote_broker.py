"""Other brokers of the cluster, as far as a broker's own exchanges and routes must know of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from openclust.broker.routing.exchange import Binding, Targets


class RemoteBroker:
    """Another broker, as the target of its meta-bindings: what its private queues want of an exchange."""

    __slots__ = ("incoming", "name")

    # The broker that has a private queue tells of it: here it is neither kept nor told of again.
    durable = False
    is_private = False
    is_exchange = False

    def __init__(self, name: str) -> None:
        self.name = name
        self.incoming: dict[Binding, None] | None = None

    def add_to(self, targets: Targets) -> None:
        targets.brokers[self.name] = None
