"""Which consumer of a queue gets the next message: by priority, and round robin among equal priorities."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from openclust.broker.delivery.consumer import Consumer


def _rank(consumer: Consumer) -> int:
    return -consumer.priority


class ConsumerRotation:
    """`all` has the consumers in the order in which they came, `ready` those that may get a message, the next first.

    A consumer that cannot take a message leaves `ready`, and comes back by `resume`. With `single_active` only the
    first of `all` is ever in `ready`.
    """

    __slots__ = ("all", "ready", "single_active")

    def __init__(self, *, single_active: bool) -> None:
        self.single_active = single_active
        self.all: tuple[Consumer, ...] = ()
        self.ready: list[Consumer] = []

    def __iter__(self) -> Iterator[Consumer]:
        return iter(self.all)

    def __len__(self) -> int:
        return len(self.all)

    def add(self, consumer: Consumer) -> None:
        self.all = (*self.all, consumer)
        self.resume(consumer)

    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer; a second call changes nothing."""
        if consumer.cancelled:
            return
        consumer.cancelled = True
        was_active = self.single_active and self.active() is consumer
        at = self.all.index(consumer)
        self.all = self.all[:at] + self.all[at + 1 :]
        if consumer.waiting:
            self.ready.remove(consumer)
            consumer.waiting = False
        if was_active and self.all:
            self.resume(self._successor())

    def resume(self, consumer: Consumer) -> None:
        """A consumer may be able to take messages again."""
        if consumer.waiting or consumer.cancelled or (self.single_active and self.active() is not consumer):
            return
        consumer.waiting = True
        ready = self.ready
        if not ready or ready[-1].priority >= consumer.priority:
            ready.append(consumer)
        else:
            ready.insert(bisect_right(ready, -consumer.priority, key=_rank), consumer)

    def clear(self) -> tuple[Consumer, ...]:
        """Remove and return all consumers."""
        gone, self.all = self.all, ()
        self.ready = []
        for consumer in gone:
            consumer.cancelled = True
            consumer.waiting = False
        return gone

    def active(self) -> Consumer | None:
        """The single active consumer."""
        return self.all[0] if self.all else None

    def _successor(self) -> Consumer:
        """The next single active consumer: of those with the highest priority the one that has been here longest."""
        best = max(self.all, key=lambda consumer: consumer.priority)
        self.all = (best, *(other for other in self.all if other is not best))
        return best

    def next(self) -> Consumer | None:
        """The consumer for the next message. It moves behind all others of its priority."""
        ready = self.ready
        while ready:
            consumer = ready[0]
            if consumer.can_take():
                if len(ready) > 1:
                    self._move_behind_equals(consumer)
                return consumer
            consumer.waiting = False
            del ready[0]
        return None

    def _move_behind_equals(self, consumer: Consumer) -> None:
        ready = self.ready
        del ready[0]
        if not ready or ready[-1].priority == consumer.priority:
            ready.append(consumer)
        else:
            ready.insert(bisect_right(ready, -consumer.priority, key=_rank), consumer)

    def only(self) -> Consumer | None:
        """The consumer, if there is exactly one."""
        return self.all[0] if len(self.all) == 1 else None
