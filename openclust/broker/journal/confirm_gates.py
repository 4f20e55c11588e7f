"""Confirms that may not be sent yet: each waits for a batch of the journal."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from openclust.broker.journal.journal import Journal


class _Gate(msgspec.Struct, gc=False):
    """The publishes from `first` to `last` wait until `batch` is in all of `places`."""

    first: int
    last: int
    batch: int
    places: int


class Ticket:
    """Calls `done` once: with True when a batch is in all of `places`, with False when it never will be.

    Without `batch` that is the open one. Call `send_confirms` once to begin.
    """

    __slots__ = ("_batch", "_done", "_journal", "_places")

    def __init__(self, journal: Journal, places: int, done: Callable[[bool], None], *, batch: int = 0) -> None:
        self._journal = journal
        self._batch = batch or journal.number
        self._places = places
        self._done = done

    def send_confirms(self) -> None:
        journal = self._journal
        if journal.has(self._batch, self._places):
            self._done(True)
        elif journal.has_lost(self._batch, self._places):
            self._done(False)
        else:
            journal.waiters[self] = None


class Gates:
    """The numbers of publishes are added in ascending order, and pass in that order."""

    __slots__ = ("_gates",)

    def __init__(self) -> None:
        self._gates: deque[_Gate] = deque()

    def __len__(self) -> int:
        return len(self._gates)

    def add(self, number: int, batch: int, places: int) -> None:
        gates = self._gates
        if gates:
            last = gates[-1]
            if last.batch == batch and last.places == places:
                last.last = number
                return
        gates.append(_Gate(number, number, batch, places))

    def take_passed(self, journal: Journal) -> tuple[int | None, list[tuple[int, int]]]:
        """The number up to which publishes may be confirmed, None for all; and the ranges whose batches were lost.

        The gates up to there are removed.
        """
        gates = self._gates
        lost: list[tuple[int, int]] = []
        while gates:
            gate = gates[0]
            if not journal.has(gate.batch, gate.places):
                if not journal.has_lost(gate.batch, gate.places):
                    return gate.first - 1, lost
                lost.append((gate.first, gate.last))
            gates.popleft()
        return None, lost
