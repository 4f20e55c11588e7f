"""How the newest entries of the log are undone here, where another root's log has others in their place."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import msgspec

from openclust.broker.keeping import put_in_place, remove
from openclust.cluster.status import Position

if TYPE_CHECKING:
    from openclust.broker.backlog import Entry
    from openclust.broker.queue import Queue

STEPS_MAX = 1_000
"""So many entries can be undone: many more than are ever under way."""


class _Step(msgspec.Struct):
    """What one entry did: messages that left, and places that were taken."""

    position: Position
    left: list[tuple[Queue, Entry]]
    entered: list[tuple[Queue, int]]


class Undo:
    """Tell it what each entry of the log has done; `cannot` of one that cannot be undone."""

    def __init__(self) -> None:
        self._steps: deque[_Step] = deque(maxlen=STEPS_MAX)
        # Back to there, and no further.
        self._base = Position()

    def did(self, position: Position, left: list[tuple[Queue, Entry]], entered: list[tuple[Queue, int]]) -> None:
        if len(self._steps) == STEPS_MAX:
            self._base = self._steps[0].position
        self._steps.append(_Step(position, left, entered))

    def cannot(self, position: Position) -> None:
        """An entry that nothing undoes."""
        self._steps.clear()
        self._base = position

    def forget(self, committed: Position) -> None:
        """All up to there stays for ever."""
        while self._steps and self._steps[0].position <= committed:
            self._base = self._steps.popleft().position

    def back_to(self, position: Position) -> bool:
        """Undo all that came after this; False where that cannot be, and nothing is undone."""
        if position < self._base:
            return False
        while self._steps and self._steps[-1].position > position:
            step = self._steps.pop()
            for queue, seq in reversed(step.entered):
                if queue.is_alive:
                    remove(queue, seq)
            self.put_back(step.left)
        return True

    def put_back(self, left: list[tuple[Queue, Entry]]) -> None:
        """What left is in its place again."""
        for queue, entry in reversed(left):
            if queue.is_alive and queue.backlog.find(entry.seq) is None:
                entry.recorded = entry.recorded or 1
                put_in_place(queue, entry)
