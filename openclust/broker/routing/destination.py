"""What a message can be given to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from openclust.broker.delivery.consumer import Consumer
    from openclust.broker.model.message import Message


class Destination(Protocol):
    """A queue, a reply address, the cluster's own exchange, or other brokers.

    `direct` is a consumer that a message may be sent to without `publish`. A class that has nothing of its own to say
    inherits the default from here.
    """

    __slots__ = ()

    @property
    def name(self) -> str: ...

    @property
    def direct(self) -> Consumer | None:
        return None

    @property
    def is_alive(self) -> bool:
        """Whether it still exists."""
        return True

    @property
    def is_private(self) -> bool:
        """Whether only one client uses it: an exclusive queue, or a reply address."""
        return False

    @property
    def is_shared(self) -> bool:
        """Whether it is a queue that all brokers of the cluster know."""
        return False

    @property
    def is_remote(self) -> bool:
        """Whether it stands for other brokers. They route a message again, and so need all its headers."""
        return False

    def publish(self, message: Message) -> int:
        """Take a message. Returns bits of `model/outcome.py`."""

    def count_routed(self, count: int) -> int:
        """Count messages that were routed to it; returns how many of them a queue of this broker got."""
        return 0

    def pass_run(self, suffix: bytes, properties: bytes, bodies: list[bytes]) -> int:
        """Pass on messages that differ in their bodies only. Returns how many, from the first on."""
        return 0

    def demand_room(self, count: int, size: int) -> None:
        """Raise 406 if it would refuse one of `count` messages with `size` bytes together."""
        return
