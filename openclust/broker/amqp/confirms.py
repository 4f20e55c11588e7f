"""Publisher confirms of one channel, in as few frames as possible."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

from openclust.broker.journal.confirm_gates import Gates
from openclust.wire.methods import BasicAck, BasicNack

if TYPE_CHECKING:
    from openclust.broker.journal.journal import Journal


Runs: TypeAlias = list[tuple[int, bool]]
"""Runs of publishes with equal verdicts (accepted or not): the last number of each run, and the verdict."""


class Confirms:
    """Publishes are numbered from 1. `settle` gives the verdict of the next one; `take` returns the frames to send.

    If the verdict is not known yet, `defer` returns the number of the next publish, and `resolve` gives its verdict
    later, in any order. `settle_behind` puts a gate before a publish: it and all later ones wait until the gate opens.
    """

    __slots__ = ("_deferred", "_runs", "_settled", "_taken", "confirmed", "gates")

    def __init__(self) -> None:
        self._settled = 0
        self._taken = 0
        # How many were accepted, and their confirms sent.
        self.confirmed = 0
        # The runs of the numbers after `_taken`. Deferred numbers within a run do not belong to it.
        self._runs: Runs = []
        self._deferred: _Deferred | None = None
        self.gates: Gates | None = None

    @property
    def unsent_count(self) -> int:
        """How many publishes have no confirm yet."""
        count = self._settled - self._taken
        if self._deferred is not None:
            # Those after `_taken` are counted already.
            count += sum(number <= self._taken for number in self._deferred.unresolved)
            count += sum(number <= self._taken for number in self._deferred.late)
        return count

    def settle_behind(self, accepted: bool, batch: int, places: int) -> None:
        """As `settle`, but the confirm waits until that batch of the journal is in these places."""
        self.settle(accepted)
        if self.gates is None:
            self.gates = Gates()
        self.gates.add(self._settled, batch, places)

    @property
    def count(self) -> int:
        """How many messages were published since confirms are on."""
        return self._settled

    def settle(self, accepted: bool) -> bool:
        """Returns whether there was nothing to send before."""
        self._settled += 1
        runs = self._runs
        if not runs:
            runs.append((self._settled, accepted))
            return self._deferred is None or not self._deferred.late
        if runs[-1][1] is accepted:
            runs[-1] = (self._settled, accepted)
        else:
            runs.append((self._settled, accepted))
        return False

    def defer(self) -> int:
        """Returns the number of the next publish, whose verdict comes by `resolve`."""
        self._settled = number = self._settled + 1
        deferred = self._deferred
        if deferred is None:
            deferred = self._deferred = _Deferred()
        deferred.add(number)
        return number

    def resolve(self, number: int, accepted: bool) -> bool:
        """Give the verdict of a deferred publish, once. Returns whether there was nothing to send before."""
        deferred = self._deferred
        assert deferred is not None and number in deferred.unresolved, f"publish {number} is not deferred"
        deferred.unresolved.remove(number)
        was_idle = not deferred.late and not self._runs
        deferred.late[number] = accepted
        return was_idle

    def refuse_unsent(self) -> None:
        """Turn all confirms that are not sent yet into refusals: this broker may not confirm any more."""
        if self._runs:
            self._runs = [(self._runs[-1][0], False)]
        if self._deferred is not None:
            self._deferred.late = dict.fromkeys(self._deferred.late, False)

    def take(self, journal: Journal) -> Iterator[BasicAck | BasicNack]:
        """The confirms that are not sent yet: one frame for each run, or for each publish after an unresolved one."""
        runs, self._runs = self._runs, []
        if self.gates is not None and self.gates:
            upto, lost = self.gates.take_passed(journal)
            runs = _refused(runs, lost, self._taken)
            if upto is not None:
                runs, self._runs = _split(runs, upto, self._taken)
                if self._deferred is not None and self._deferred.matters():
                    self._runs = _joined(runs, self._runs)
                    for number, _, accepted in self._deferred.take_older(self._taken):
                        self.confirmed += accepted
                        yield _confirmation(number, False, accepted)
                    return
        if self._deferred is not None and self._deferred.matters():
            yield from self._take_around(self._deferred, runs)
            return
        for upto, accepted in runs:
            count = upto - self._taken
            multiple = count > 1
            self._taken = upto
            if accepted:
                self.confirmed += count
                yield BasicAck(delivery_tag=upto, multiple=multiple)
            else:
                yield BasicNack(delivery_tag=upto, multiple=multiple, requeue=False)

    def _take_around(self, deferred: _Deferred, runs: Runs) -> Iterator[BasicAck | BasicNack]:
        spans = [*deferred.take_older(self._taken), *deferred.take_among(runs, self._taken)]
        self._taken = self._settled
        self.confirmed += sum(last - first + 1 for first, last, accepted in spans if accepted)
        first_unresolved = deferred.first_unresolved()
        at = 0
        while at < len(spans):
            first, last, accepted = spans[at]
            at += 1
            if first_unresolved is not None and first > first_unresolved:
                for number in range(first, last + 1):
                    yield _confirmation(number, False, accepted)
                continue
            # A multiple confirm may include numbers that were confirmed before.
            while at < len(spans) and spans[at][2] is accepted and not _is_behind(spans[at], first_unresolved):
                last = spans[at][1]
                at += 1
            yield _confirmation(last, last > first, accepted)


def _split(runs: Runs, upto: int, taken: int) -> tuple[Runs, Runs]:
    """The runs up to a number, and those after it. Numbers up to `taken` are in neither."""
    first: Runs = []
    for at, (last, accepted) in enumerate(runs):
        if last > upto:
            if upto > (first[-1][0] if first else taken):
                first.append((upto, accepted))
            return first, runs[at:]
        first.append((last, accepted))
    return first, []


def _joined(first: Runs, then: Runs) -> Runs:
    if first and then and first[-1][1] is then[0][1]:
        first = first[:-1]
    return [*first, *then]


def _refused(runs: Runs, lost: list[tuple[int, int]], taken: int) -> Runs:
    """The runs, but with these ranges refused."""
    for first, last in lost:
        before, rest = _split(runs, first - 1, taken)
        _, after = _split(rest, last, first - 1)
        runs = _joined(_joined(before, [(last, False)]), after)
    return runs


class _Deferred:
    """The deferred publishes of one channel. `late` has verdicts that are not sent yet."""

    __slots__ = ("_fresh", "_order", "late", "unresolved")

    def __init__(self) -> None:
        self.unresolved: set[int] = set()
        self.late: dict[int, bool] = {}
        # Those deferred since the last take; and all in ascending order, from the first unresolved one on.
        self._fresh: list[int] = []
        self._order: deque[int] = deque()

    def add(self, number: int) -> None:
        self.unresolved.add(number)
        self._fresh.append(number)
        self._order.append(number)

    def matters(self) -> bool:
        return bool(self.unresolved or self.late)

    def first_unresolved(self) -> int | None:
        order = self._order
        while order and order[0] not in self.unresolved:
            order.popleft()
        return order[0] if order else None

    def take_older(self, taken: int) -> list[tuple[int, int, bool]]:
        """The late verdicts up to `taken`, as spans of one number each."""
        older = sorted(number for number in self.late if number <= taken)
        return [(number, number, self.late.pop(number)) for number in older]

    def take_among(self, runs: Runs, taken: int) -> Iterator[tuple[int, int, bool]]:
        """The runs after `taken` as spans, without the deferred publishes, and the late verdicts between them."""
        fresh, self._fresh = deque(self._fresh), []
        first = taken + 1
        for upto, accepted in runs:
            while fresh and fresh[0] <= upto:
                number = fresh.popleft()
                if first < number:
                    yield first, number - 1, accepted
                if number in self.late:
                    yield number, number, self.late.pop(number)
                first = number + 1
            if first <= upto:
                yield first, upto, accepted
            first = upto + 1
        for number in fresh:
            if number in self.late:
                yield number, number, self.late.pop(number)


def _is_behind(span: tuple[int, int, bool], first_unresolved: int | None) -> bool:
    return first_unresolved is not None and span[0] > first_unresolved


def _confirmation(number: int, multiple: bool, accepted: bool) -> BasicAck | BasicNack:
    if accepted:
        return BasicAck(delivery_tag=number, multiple=multiple)
    return BasicNack(delivery_tag=number, multiple=multiple, requeue=False)
