"""Other brokers of the cluster, as far as a broker's own exchanges and routes must know of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from openclust.broker.model.message import Message
    from openclust.broker.routing.exchange import Binding


class RemoteBroker:
    """Another broker, as the target of its meta-bindings: what its private queues want of an exchange."""

    __slots__ = ("incoming", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.incoming: dict[Binding, None] | None = None


class Outlet(Protocol):
    """What stands in a route for other brokers, and takes messages as a queue does."""

    @property
    def direct(self) -> None: ...
    @property
    def is_alive(self) -> bool: ...
    @property
    def name(self) -> str: ...
    def publish(self, message: Message) -> bool: ...
