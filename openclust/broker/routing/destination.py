"""What a message can be given to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from openclust.broker.delivery.consumer import Consumer
    from openclust.broker.model.message import Message


class Destination(Protocol):
    """A queue, a reply address, the cluster's own exchange, or other brokers.

    `direct` is the consumer to which a message may be sent without a detour through `publish`. Where a
    destination has nothing to say of its own, it inherits what is here.
    """

    __slots__ = ()

    @property
    def name(self) -> str: ...

    @property
    def direct(self) -> Consumer | None:
        return None

    @property
    def is_alive(self) -> bool:
        """Whether it can take messages still."""
        return True

    @property
    def is_private(self) -> bool:
        """Whether it is one client's alone: an exclusive queue, or a reply address."""
        return False

    @property
    def is_shared(self) -> bool:
        """Whether it is a queue that all brokers of the cluster know."""
        return False

    @property
    def is_remote(self) -> bool:
        """Whether it stands for other brokers: they get a message with all its headers, and route it again."""
        return False

    def publish(self, message: Message) -> int:
        """Take a message; what became of it, as bits of `model/outcome.py`."""

    def pass_run(self, suffix: bytes, properties: bytes, bodies: list[bytes]) -> int:
        """Pass on messages alike in all but their bodies, from the first on: how many."""
        return 0

    def demand_room(self, count: int, size: int) -> None:
        """Raise 406 where it would refuse some of so many messages of so many bytes together."""
        return
