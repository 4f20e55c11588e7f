"""Classic `tx` transactions: publishes and acknowledgements that happen together, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from openclust.broker.amqp.channel import Unacked
    from openclust.broker.amqp.publishing import Publication


class Transaction:
    """What a channel has asked for since the last commit or rollback. Of a reject: whether it goes back."""

    __slots__ = ("acks", "held_bytes", "publications", "rejects")

    def __init__(self) -> None:
        self.held_bytes = 0
        self.publications: list[Publication] = []
        self.acks: list[Unacked] = []
        self.rejects: list[tuple[Unacked, bool]] = []

    def items(self) -> list[Unacked]:
        """All deliveries that it settles."""
        return [*self.acks, *(item for item, _ in self.rejects)]
