"""Whose turn it is: the consumers of one queue, by priority and then round robin."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from openclust.broker.delivery.consumer import Consumer


def _rank(consumer: Consumer) -> int:
    return -consumer.priority


class Turns:
    """`all` are the consumers in the order they came, `waiting` those that may be sent a message, best first.

    A consumer that could not take its turn leaves `waiting` and comes back by `resume`. With `single_active` only the
    first of `all` is ever waiting.
    """

    __slots__ = ("all", "single_active", "waiting")

    def __init__(self, *, single_active: bool) -> None:
        self.single_active = single_active
        self.all: tuple[Consumer, ...] = ()
        self.waiting: list[Consumer] = []

    def __iter__(self) -> Iterator[Consumer]:
        return iter(self.all)

    def __len__(self) -> int:
        return len(self.all)

    def add(self, consumer: Consumer) -> None:
        self.all = (*self.all, consumer)
        self.resume(consumer)

    def remove(self, consumer: Consumer) -> None:
        """Take a consumer out, for good; a second time changes nothing."""
        if consumer.cancelled:
            return
        consumer.cancelled = True
        was_active = self.single_active and self.active() is consumer
        at = self.all.index(consumer)
        self.all = self.all[:at] + self.all[at + 1 :]
        if consumer.waiting:
            self.waiting.remove(consumer)
            consumer.waiting = False
        if was_active and self.all:
            self.resume(self._successor())

    def resume(self, consumer: Consumer) -> None:
        """Let a consumer wait for its turn again."""
        if consumer.waiting or consumer.cancelled or (self.single_active and self.active() is not consumer):
            return
        consumer.waiting = True
        waiting = self.waiting
        if not waiting or waiting[-1].priority >= consumer.priority:
            waiting.append(consumer)
        else:
            waiting.insert(bisect_right(waiting, -consumer.priority, key=_rank), consumer)

    def clear(self) -> tuple[Consumer, ...]:
        """Take all consumers out, for good."""
        gone, self.all = self.all, ()
        self.waiting = []
        for consumer in gone:
            consumer.cancelled = True
            consumer.waiting = False
        return gone

    def active(self) -> Consumer | None:
        """The single active consumer."""
        return self.all[0] if self.all else None

    def _successor(self) -> Consumer:
        """The next single active consumer: the highest priority, of these the one that waits longest."""
        best = max(self.all, key=lambda consumer: consumer.priority)
        self.all = (best, *(other for other in self.all if other is not best))
        return best

    def next(self) -> Consumer | None:
        """The consumer to send the next message to; it goes behind its equals."""
        waiting = self.waiting
        while waiting:
            consumer = waiting[0]
            if consumer.can_take():
                if len(waiting) > 1:
                    self._to_the_end_of_its_equals(consumer)
                return consumer
            consumer.waiting = False
            del waiting[0]
        return None

    def _to_the_end_of_its_equals(self, consumer: Consumer) -> None:
        waiting = self.waiting
        del waiting[0]
        if not waiting or waiting[-1].priority == consumer.priority:
            waiting.append(consumer)
        else:
            waiting.insert(bisect_right(waiting, -consumer.priority, key=_rank), consumer)

    def only(self) -> Consumer | None:
        """The one consumer, where there is just one."""
        return self.all[0] if len(self.all) == 1 else None
