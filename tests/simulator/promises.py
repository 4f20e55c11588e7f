"""What durable clients were promised: a record of each message, held against what is delivered in the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TypeAlias

import msgspec

from tests.simulator.invariants import Violation
from tests.simulator.targets import DEAD, IN_ORDER, LAST_VALUE, Target

NEVER_US = 2**62
Giver: TypeAlias = tuple[int, int]
"""A root: its epoch, as the consumer's broker knows it, and in which life it is heard. One that starts anew may be root
before all have heard that its reign is another.
"""
ANYBODY: Giver = (-1, 0)


class Letter(msgspec.Struct, eq=False):
    """A message by its id, which stays when it is published again. Times are true ones.

    `reigns` are those of the broker, as root, where it was published and where that was confirmed: what one root has
    taken once is in its queues once; brokers that pass a message on may do so again. `settled` are the queues from
    which a consumer has taken it for good, as it thinks; `gone` those of which it was told so, and in which epoch.
    `delivered` says when it last came out of a queue, `copies` how often.
    """

    id: str
    target: Target
    key: str
    priority: int
    session: int
    number: int
    first_us: int
    confirmed_us: int = NEVER_US
    tries: int = 0
    reigns: tuple[int, ...] = ()
    is_withdrawn: bool = False
    delivered: dict[str, int] = {}
    copies: dict[str, int] = {}
    settled: set[str] = set()
    gone: dict[str, int] = {}

    @property
    def is_once(self) -> bool:
        return self.tries == 1 and len(self.reigns) == 2 and self.reigns[0] == self.reigns[1] != 0

    @property
    def is_confirmed(self) -> bool:
        return self.confirmed_us != NEVER_US


class Heard(msgspec.Struct, frozen=True):
    """A delivery that is not marked as redelivered, as its consumer heard it."""

    letter: Letter
    giver: Giver


class Unit(msgspec.Struct, eq=False):
    """One transaction: what it publishes, and the deliveries that it acknowledges."""

    letters: list[Letter] = []
    acks: list[tuple[str, Letter]] = []
    is_done: bool = False


class Promises:
    """`may_lose` says whether there was what no cluster outlives: a crash of who has everything in memory."""

    def __init__(self, may_lose: Callable[[], bool]) -> None:
        self.letters: dict[str, Letter] = {}
        self.unknown: list[Unit] = []
        self._may_lose = may_lose
        self.drained_us = NEVER_US
        self._heard: list[tuple[str, list[Heard]]] = []
        self._sessions = 0

    @property
    def may_lose(self) -> bool:
        return self._may_lose()

    # -- what happens

    def session(self) -> int:
        """A number for a publisher's connection."""
        self._sessions += 1
        return self._sessions

    def new(self, target: Target, key: str, priority: int, now_us: int) -> Letter:
        number = len(self.letters) + 1
        letter = Letter(f"m{number}", target, key, priority, 0, number, now_us)
        self.letters[letter.id] = letter
        return letter

    def published(self, letter: Letter, session: int, reign: int) -> None:
        letter.tries += 1
        letter.session = session
        letter.reigns = (reign,)

    def confirmed(self, letter: Letter, reign: int, now_us: int) -> None:
        letter.reigns = (*letter.reigns, reign)
        letter.confirmed_us = min(letter.confirmed_us, now_us)

    def hearing(self, queue: str) -> list[Heard]:
        """For what one consumer of a queue in order hears."""
        self._heard.append((queue, []))
        return self._heard[-1][1]

    def delivered(self, queue: str, id: str, epoch: int, now_us: int) -> Letter:
        letter = self.letters.get(id)
        if letter is None:
            raise Violation(f"message {id!r} in {queue} was never published")
        if queue not in letter.target.queues and not (queue == DEAD and letter.target.has_dead):
            raise Violation(f"message {id} came to {queue}, and was published for {letter.target}")
        if letter.is_withdrawn:
            raise Violation(f"message {id} came to {queue}, and its transaction was never committed")
        if letter.is_once and queue in letter.gone and epoch >= letter.gone[queue] and not self.may_lose:
            raise Violation(f"message {id} came out of {queue} again, though that it was acknowledged was committed")
        letter.delivered[queue] = now_us
        letter.copies[queue] = letter.copies.get(queue, 0) + 1
        return letter

    # -- what must have been

    def look(self) -> None:
        """All queues are empty, and nobody has anything under way."""
        if not self.may_lose:
            self._look_at_units()
            for letter in self.letters.values():
                if letter.is_confirmed:
                    self._look_at(letter)
        for queue, heard in self._heard:
            _look_at_order(queue, heard)

    def _look_at(self, letter: Letter) -> None:
        for queue in letter.target.queues:
            is_there = queue in letter.settled or (letter.target.has_dead and DEAD in letter.settled)
            if not is_there and not (queue == LAST_VALUE and self._may_be_superseded(letter)):
                last_us = letter.delivered.get(queue)
                seen = f"last seen at {last_us // 1000} ms" if last_us is not None else "never seen"
                raise Violation(
                    f"message {letter.id} for {queue}, published at {letter.first_us // 1000} ms and confirmed at "
                    f"{letter.confirmed_us // 1000} ms, is lost: {seen}"
                )

    def _may_be_superseded(self, letter: Letter) -> bool:
        """Whether another with its key may have come after it: of one that was published twice, any copy may."""
        return any(
            each.tries > 1 or (each.tries == 1 and each.confirmed_us >= letter.first_us)
            for each in self.letters.values()
            if LAST_VALUE in each.target.queues and each.key == letter.key and each is not letter
        )

    def _look_at_units(self) -> None:
        """What nobody knows of is done, or is not done, as a whole.

        What came before the end may have been lost again, with the root that gave it.
        """
        for unit in self.unknown:
            # Of a last-value queue's nobody may have heard.
            whole = [(each, queue) for each in unit.letters for queue in each.target.queues if queue != LAST_VALUE]
            told = [f"{letter.id} for {queue}" for letter, queue in whole]
            never = [f"{letter.id} for {queue}" for letter, queue in whole if not _came_us(letter, queue)]
            has_happened = any(_came_us(letter, queue) >= self.drained_us for letter, queue in whole)
            if has_happened and never:
                raise Violation(f"of the transaction that published {told}, {never} have not come")
            if told and never == told:
                continue
            for queue, letter in unit.acks:
                if has_happened and letter.is_once and letter.delivered[queue] >= self.drained_us:
                    raise Violation(
                        f"the transaction that published {told} has happened, but {letter.id}, which it took from "
                        f"{queue}, came again"
                    )
                letter.settled.add(queue)


def _look_at_order(queue: str, heard: list[Heard]) -> None:
    """Of what was published once. One root keeps the order of all that it took in itself; and whatever roots there
    were, the first copies of what was confirmed came in order. Those that are known as the first: of a letter with
    copies for other consumers too, or some that were marked, nobody can say which was before which.
    """
    last: dict[tuple[Giver, int], Letter] = {}
    copies = Counter(each.letter for each in heard)
    for each in heard:
        letter = each.letter
        if letter.is_once:
            _compare(last, each.giver, letter)
        if letter.tries == 1 and letter.is_confirmed and copies.pop(letter, 0) == letter.copies[queue]:
            _compare(last, ANYBODY, letter)


def _compare(last: dict[tuple[Giver, int], Letter], giver: Giver, letter: Letter) -> None:
    before = last.get((giver, letter.session))
    if before is not None and before.number > letter.number:
        text = f"message {letter.id} came after {before.id}, though it was published before"
        raise Violation(f"{text}, and not as redelivered")
    last[giver, letter.session] = letter


def _came_us(letter: Letter, queue: str) -> int:
    """When it was last delivered, from there or as a dead letter of it; 0 for never."""
    return max(letter.delivered.get(queue, 0), letter.delivered.get(DEAD, 0) if letter.target.has_dead else 0)


def in_order(queue: str) -> bool:
    return queue in IN_ORDER
