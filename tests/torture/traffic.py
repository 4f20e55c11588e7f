"""What the applications of a run do: which queues there are, who publishes to them, and who consumes."""

from __future__ import annotations

from typing import Any

import msgspec

from tests.torture.gaps import Gap
from tests.torture.ledger import Count


class QueuePlan(msgspec.Struct, frozen=True):
    """A durable queue, its publishers (each at `rate` messages a second) and its consumers."""

    name: str
    arguments: dict[str, Any] = {}
    publishers: int = 1
    consumers: int = 1
    rate: float = 60.0
    priorities: int = 1
    lingers: bool = False
    """Its consumers stop now and then, so that something waits in it."""
    consumed_at_the_end: bool = False
    """Nobody consumes before the end: all that was ever confirmed is to be there."""


QUEUES = (
    QueuePlan("orders", publishers=2),
    QueuePlan("alarms", {"x-max-priority": 3}, priorities=3, lingers=True),
    QueuePlan("ledger", {"x-single-active-consumer": True}, consumers=2),
    QueuePlan("mails", {"x-message-deduplication": True}, lingers=True),
    QueuePlan("jobs", {"x-queue-type": "quorum"}, rate=40.0),
    QueuePlan("archive", {"x-replicate": "messages"}, rate=30.0, consumed_at_the_end=True),
)


class Task(msgspec.Struct, frozen=True):
    """What the process of the clients is told, as its first line of input. `stop` is the second."""

    urls: list[str]
    queues: list[QueuePlan]
    drain_s: float


class Progress(msgspec.Struct, frozen=True, tag="progress"):
    """What it tells every second."""

    sent: int
    confirmed: int
    received: int
    missing: int


class Connected(msgspec.Struct, frozen=True, array_like=True):
    at: float
    host: str


class Outcome(msgspec.Struct, frozen=True, tag="outcome"):
    """What it tells at the end."""

    counts: list[Count]
    gaps: list[Gap]
    longest: Gap
    longest_of_one: Gap
    """The longest time that any one publisher was without a confirm."""
    nacks: int
    returns: int
    connections: dict[str, list[Connected]]
    """Of each publisher, by the names of its messages without their numbers."""
    found_by_new_consumers: int
    """What was in the queues while the consumers of the run got nothing any more."""
    drained_s: float
    problems: list[str]


Told = Progress | Outcome
