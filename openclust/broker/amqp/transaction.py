"""Classic `tx` transactions: publishes and acknowledgements that happen together, or not at all."""

from __future__ import annotations

import msgspec

from openclust.broker.backlog.backlog import Entry
from openclust.broker.delivery.consumer import Consumer, Origin
from openclust.broker.routing.route import Route


class Unacked(msgspec.Struct, gc=False):
    """An unacknowledged delivery; `consumer` is None for basic.get."""

    queue: Origin
    consumer: Consumer | None
    entry: Entry
    since_ms: int
    tag: int


class Publication(msgspec.Struct):
    """A publish that waits for the commit of its transaction."""

    route: Route
    header: bytes
    body: bytes


class Transaction:
    """The publishes and settled deliveries of a channel since its last commit or rollback.

    `rejects` also say whether the message is requeued.
    """

    __slots__ = ("acks", "held_bytes", "publications", "rejects")

    def __init__(self) -> None:
        self.held_bytes = 0
        self.publications: list[Publication] = []
        self.acks: list[Unacked] = []
        self.rejects: list[tuple[Unacked, bool]] = []

    def items(self) -> list[Unacked]:
        """All deliveries that it settles."""
        return [*self.acks, *(item for item, _ in self.rejects)]
