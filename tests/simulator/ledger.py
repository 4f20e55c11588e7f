"""Where messages went: each at most once to a broker, never back to where it came from, at most once to a queue."""

from __future__ import annotations

from openclust.cluster.relay.lanes import Reach
from tests.simulator.invariants import Violation


class Ledger:
    """A message's body is its number."""

    def __init__(self) -> None:
        self._origins: list[str] = []
        self._arrived: set[tuple[str, int, int, Reach]] = set()
        self._queued: set[tuple[str, int]] = set()
        self._queues = 0

    def publish(self, origin: str) -> bytes:
        """The body of a new message."""
        self._origins.append(origin)
        return b"%d" % (len(self._origins) - 1)

    def arrived(self, name: str, life: int, body: bytes, reach: Reach) -> None:
        """A message came over a link. One to be confirmed may come to the root again, for shared queues only."""
        number = int(body)
        if self._origins[number] == name:
            raise Violation(f"message {number} came back to {name}, where it was published")
        for each in (Reach.PRIVATE, Reach.SHARED):
            if reach & each and not (each is Reach.SHARED and reach & Reach.CONFIRM):
                key = (name, life, number, each)
                if key in self._arrived:
                    raise Violation(f"message {number} of {self._origins[number]} came to {name} twice, {each.name}")
                self._arrived.add(key)

    def new_queue(self) -> int:
        """A number for one more private queue."""
        self._queues += 1
        return self._queues

    def queued(self, queue: str, body: bytes) -> None:
        """A private queue's consumer has it."""
        key = (queue, int(body))
        if key in self._queued:
            origin = self._origins[key[1]]
            raise Violation(f"message {key[1]} of {origin} came to the private queue {queue} twice")
        self._queued.add(key)

    @property
    def count(self) -> int:
        return len(self._origins)

    def has(self, queue: str, body: bytes) -> bool:
        return (queue, int(body)) in self._queued
