"""How the newest entries of the log are undone here, where another root's log has others in their place."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from openclust.cluster.protocol.status import Position

if TYPE_CHECKING:
    from openclust.broker.backlog.backlog import Entry
    from openclust.broker.queues.queue import Queue

STEPS_MAX = 1_000
"""So many entries can be undone: many more than are ever under way."""
BYTES_MAX = 67_108_864
"""And so much of messages that have left is kept for that."""


class _Step(msgspec.Struct):
    """What one entry did: messages that left, places that were taken, and keys of what came and went. `is_own` where
    this broker was root.
    """

    position: Position
    left: list[tuple[Queue, Entry]]
    entered: list[tuple[Queue, int]]
    seen: Sequence[tuple[Queue, str]]
    is_own: bool
    size: int


class Rollback:
    """Tell it what each entry of the log has done; `cannot` of one that cannot be undone."""

    def __init__(self) -> None:
        self._steps: deque[_Step] = deque()
        self._size = 0
        # Back to there, and no further.
        self.base = Position()

    def did(
        self,
        position: Position,
        left: list[tuple[Queue, Entry]],
        entered: list[tuple[Queue, int]],
        seen: Sequence[tuple[Queue, str]] = (),
        *,
        is_own: bool = False,
    ) -> None:
        size = sum(len(entry.message.body) for _, entry in left)
        self._steps.append(_Step(position, left, entered, seen, is_own, size))
        self._size += size
        while len(self._steps) > STEPS_MAX or self._size > BYTES_MAX:
            self._forget_oldest()

    def cannot(self, position: Position) -> None:
        """An entry that nothing undoes."""
        self._steps.clear()
        self._size = 0
        self.base = position

    def forget(self, committed: Position) -> None:
        """All up to there stays for ever."""
        while self._steps and self._steps[0].position <= committed:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        step = self._steps.popleft()
        self.base = step.position
        self._size -= step.size

    def back_to(self, position: Position) -> list[tuple[Queue, Entry]] | None:
        """Undo all that came after this: what only this broker has, as it was root. None where that cannot be."""
        if position < self.base:
            return None
        adrift: list[tuple[Queue, Entry]] = []
        # What came and went by entries that are undone is settled: a consumer had it.
        settled = {(queue, entry.seq) for queue, entry in self._left_after(position)}
        while self._steps and self._steps[-1].position > position:
            step = self._steps.pop()
            self._size -= step.size
            for queue, seq in reversed(step.entered):
                entry = queue.take_back(seq)
                if entry is not None and step.is_own and (queue, seq) not in settled:
                    adrift.append((queue, entry))
            for queue, key in step.seen:
                queue.unsee(key)
            self.put_back(step.left)
        return adrift[::-1]

    def _left_after(self, position: Position) -> list[tuple[Queue, Entry]]:
        return [each for step in self._steps if step.position > position for each in step.left]

    def drop_own(self, after: Position) -> list[tuple[Queue, Entry]]:
        """As root this broker has taken these in, behind the last place that the log has too: out of the queues.

        Nothing else is undone: all that is here is about to be replaced.
        """
        adrift = []
        for step in self._steps:
            if step.is_own and step.position > after:
                for queue, seq in step.entered:
                    entry = queue.take_back(seq)
                    if entry is not None:
                        adrift.append((queue, entry))
        return adrift

    def put_back(self, left: list[tuple[Queue, Entry]]) -> None:
        """What left is in its place again."""
        for queue, entry in reversed(left):
            if queue.is_alive:
                entry.recorded = entry.recorded or 1
                queue.reinstate(entry)
