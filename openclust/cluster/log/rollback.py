"""Undoes the newest entries of the log, where another root's log has other entries in their place."""

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
"""So many entries can be undone: many more than are ever uncommitted."""
BYTES_MAX = 67_108_864
"""So many bytes of messages that have left their queues are kept for that."""


class _Step(msgspec.Struct):
    """What one entry did: messages that left, places in queues that were taken, and dedup keys of messages that came
    and went. `is_own`: this broker was root, and appended the entry.
    """

    position: Position
    left: list[tuple[Queue, Entry]]
    entered: list[tuple[Queue, int]]
    seen: Sequence[tuple[Queue, str]]
    is_own: bool
    size: int


class Rollback:
    """Call `did` for each entry with what it has done, or `cannot` for one that cannot be undone."""

    def __init__(self) -> None:
        self._steps: deque[_Step] = deque()
        self._size = 0
        # The log can be undone back to this position, and no further.
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
        """The entry at this position cannot be undone, nor can those before it."""
        self._steps.clear()
        self._size = 0
        self.base = position

    def forget(self, committed: Position) -> None:
        """All up to this position is committed, and stays."""
        while self._steps and self._steps[0].position <= committed:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        step = self._steps.popleft()
        self.base = step.position
        self._size -= step.size

    def back_to(self, position: Position) -> list[tuple[Queue, Entry]] | None:
        """Undo all entries behind this position; None where that cannot be done.

        Returns the messages that only this broker has: it took them in as root.
        """
        if position < self.base:
            return None
        adrift: list[tuple[Queue, Entry]] = []
        # A message that came and went by entries that are undone was settled: a consumer had it.
        settled = {(queue, entry.seq) for queue, entry in self._left_after(position)}
        while self._steps and self._steps[-1].position > position:
            step = self._steps.pop()
            self._size -= step.size
            for queue, seq in reversed(step.entered):
                entry = queue.take_back(seq)
                if entry is not None and step.is_own and (queue, seq) not in settled:
                    adrift.append((queue, entry))
            for queue, key in step.seen:
                queue.forget_key(key)
            self.put_back(step.left)
        return adrift[::-1]

    def _left_after(self, position: Position) -> list[tuple[Queue, Entry]]:
        return [each for step in self._steps if step.position > position for each in step.left]

    def drop_own(self, after: Position) -> list[tuple[Queue, Entry]]:
        """Take the messages out of their queues that this broker took in as root, by entries behind `after`.

        Nothing else is undone: a snapshot is about to replace all that is here.
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
        """Put messages that left their queues back into their places."""
        for queue, entry in reversed(left):
            if queue.is_alive:
                entry.recorded = entry.recorded or 1
                queue.reinstate(entry)
