"""Which transactions were done already: who was not told so asks again, this root or the next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from openclust.cluster.protocol.status import Position

if TYPE_CHECKING:
    from openclust.broker.backlog.backlog import Entry
    from openclust.broker.queues.queue import Queue
    from openclust.cluster.log.commit_index import CommitIndex
    from openclust.cluster.protocol.leadership import Leadership

RUNS_MAX = 1_000
NUMBERS_MAX = 100_000

Name: TypeAlias = tuple[bytes, int, int]
"""Whose transaction it is (one run of one broker), its number, and the first of that run that is not answered yet."""


class DoneTransaction(msgspec.Struct):
    """A transaction that was done: in the log at `position`, or, where that is None, by this root in its `epoch`.

    There it is in `batch` of the journal, which must come to `places`. `unroutable` are the publishes nobody wanted,
    `taken` the places in queues that it has, for a root that did it and does not know yet whether it stays.
    """

    epoch: int
    position: Position | None = None
    batch: int = 0
    places: int = 0
    unroutable: list[int] = []
    taken: list[tuple[Queue, int]] = []


class CommitRegistry:
    """What a run has heard the answer of is forgotten with its next transaction; so are the runs that are longest idle.

    Call `did` as root, `sealed` when the journal's batch is in the log, `heard` for what another root has done, and
    `cut` where the log loses its end.
    """

    def __init__(self, leadership: Leadership[object], commit_index: CommitIndex) -> None:
        self._leadership = leadership
        self._commit_index = commit_index
        self._runs: dict[bytes, dict[int, DoneTransaction]] = {}
        # In the journal's open batch.
        self._open: list[DoneTransaction] = []
        # Messages of transactions that may still be undone here, by their places.
        self._bound: dict[tuple[Queue, int], DoneTransaction] = {}

    def find(self, run: bytes, number: int) -> DoneTransaction | None:
        """What is known of it, and holds."""
        deed = self._runs.get(run, {}).get(number)
        return deed if deed is not None and self._holds(deed) else None

    def _holds(self, deed: DoneTransaction) -> bool:
        """Whether it is in the log, or is on its way there."""
        return deed.position is not None or (deed.epoch == self._leadership.epoch and self._leadership.is_root)

    def did(self, name: Name, deed: DoneTransaction, *, is_open: bool) -> None:
        """This root has done it, in the open batch if any part of it is in the journal at all."""
        self._add(name, deed)
        if is_open:
            self._open.append(deed)
            self._bound |= dict.fromkeys(deed.taken, deed)
            deed.taken = []

    def came_of(self, queue: Queue, seq: int, letters: Sequence[tuple[Queue, Entry]]) -> None:
        """These are dead letters of what has that place: if it came by a transaction, so did they."""
        deed = self._bound.get((queue, seq))
        if deed is not None:
            self._bound |= {(of, letter.seq): deed for of, letter in letters}

    def sealed(self, position: Position) -> None:
        """The journal's batch is in the log now."""
        if self._bound:
            sure = self._commit_index.memory
            self._bound = {place: deed for place, deed in self._bound.items() if not _is_sure(deed, sure, position)}
        opened, self._open = self._open, []
        for deed in opened:
            if deed.epoch == position.epoch:
                deed.position = position

    def forget_place(self, queue: Queue, seq: int) -> bool:
        """What had that place in a queue is undone; whether it came by a transaction, which is all done again or not.

        Part of one must not find its way back alone.
        """
        return self._bound.pop((queue, seq), None) is not None

    def heard(self, position: Position, names: Iterable[Name]) -> None:
        """The log has these at that position."""
        for name in names:
            self._add(name, DoneTransaction(position.epoch, position))

    def cut(self, after: Position) -> None:
        """The log ends there now: what came behind has not happened."""
        for run, deeds in self._runs.items():
            self._runs[run] = {
                number: deed for number, deed in deeds.items() if deed.position is None or deed.position <= after
            }

    def _add(self, name: Name, deed: DoneTransaction) -> None:
        run, number, oldest = name
        deeds = self._runs.pop(run, {})
        self._runs[run] = deeds
        while deeds and (next(iter(deeds)) < oldest or len(deeds) >= NUMBERS_MAX):
            del deeds[next(iter(deeds))]
        deeds[number] = deed
        if len(self._runs) > RUNS_MAX:
            del self._runs[next(iter(self._runs))]

    # -- snapshots

    def names(self, upto: Position) -> list[Name]:
        """All in the log up to there that may be asked for again, as a snapshot tells it."""
        return [
            (run, number, min(deeds))
            for run, deeds in self._runs.items()
            for number, deed in deeds.items()
            if deed.position is not None and deed.position <= upto and self._holds(deed)
        ]

    def begin_anew(self, position: Position, names: Iterable[Name]) -> None:
        """What is here of the log was replaced by another's."""
        self._runs.clear()
        self._open.clear()
        self.heard(position, names)


def _is_sure(deed: DoneTransaction, committed: Position, now: Position) -> bool:
    """Whether nothing of it will be undone here; or it was, and its places are others'."""
    return deed.epoch != now.epoch or (deed.position is not None and deed.position <= committed)
