"""Confirms tell every publish exactly once, in runs as long as may be."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from openclust.broker.amqp.confirms import Confirms
from openclust.broker.journal.journal import Journal
from openclust.broker.model.outcome import ON_DISKS
from openclust.wire.methods import BasicAck

Told = tuple[int, bool, bool]

JOURNAL = Journal()


def _take(confirms: Confirms) -> list[Told]:
    return [(each.delivery_tag, each.multiple, isinstance(each, BasicAck)) for each in confirms.take(JOURNAL)]


def test_one_publish_is_told_alone() -> None:
    confirms = Confirms()
    assert confirms.settle(True) is True
    assert _take(confirms) == [(1, False, True)]
    assert _take(confirms) == []


def test_a_run_of_equal_verdicts_is_told_at_once() -> None:
    confirms = Confirms()
    assert [confirms.settle(each) for each in (True, True, True, False, True)] == [True, False, False, False, False]
    assert _take(confirms) == [(3, True, True), (4, False, False), (5, False, True)]


@given(st.lists(st.one_of(st.booleans(), st.none()), max_size=60))
def test_every_publish_is_told_once_and_rightly(verdicts: list[bool | None]) -> None:
    """None is where what there is to tell is told."""
    confirms = Confirms()
    expected: list[bool] = []
    heard: list[bool] = []
    for verdict in [*verdicts, None]:
        if verdict is not None:
            confirms.settle(verdict)
            expected.append(verdict)
            continue
        for tag, multiple, accepted in _take(confirms):
            assert multiple or tag == len(heard) + 1
            heard += [accepted] * (tag - len(heard))
        assert heard == expected


# -- deferred publishes


def test_a_deferred_publish_is_told_when_it_is_resolved() -> None:
    confirms = Confirms()
    assert confirms.defer() == 1
    assert _take(confirms) == []
    assert confirms.resolve(1, True) is True
    assert _take(confirms) == [(1, False, True)]
    assert _take(confirms) == []


def test_deferred_publishes_that_are_resolved_together_are_told_at_once() -> None:
    confirms = Confirms()
    numbers = [confirms.defer() for _ in range(5)]
    assert [confirms.resolve(number, True) for number in numbers[:4]] == [True, False, False, False]
    assert _take(confirms) == [(4, True, True)]
    confirms.resolve(5, False)
    assert _take(confirms) == [(5, False, False)]


def test_multiple_stops_below_the_first_unresolved_publish() -> None:
    confirms = Confirms()
    for accepted in (True, True):
        confirms.settle(accepted)
    assert confirms.defer() == 3
    assert confirms.settle(True) is False
    assert confirms.settle(True) is False
    assert _take(confirms) == [(2, True, True), (4, False, True), (5, False, True)]
    assert confirms.settle(True) is True
    assert confirms.resolve(3, True) is False
    assert _take(confirms) == [(6, True, True)], "4 and 5 are told already and are not asked about"


def test_a_settled_publish_is_not_the_first_to_tell_where_a_resolved_one_waits() -> None:
    confirms = Confirms()
    confirms.defer()
    assert confirms.resolve(1, True) is True
    assert confirms.settle(True) is False
    assert _take(confirms) == [(2, True, True)]


def test_what_nobody_took_yet_can_be_refused() -> None:
    confirms = Confirms()
    confirms.settle(True)
    confirms.defer()
    confirms.defer()
    confirms.resolve(2, True)
    confirms.settle(False)
    confirms.refuse_unsent()
    assert _take(confirms) == [(2, True, False), (4, False, False)]
    confirms.resolve(3, True)
    assert _take(confirms) == [(3, False, True)]


class _Asked:
    """A naive publisher's book: the verdicts known to the broker, and what was told of them."""

    def __init__(self) -> None:
        self.confirms = Confirms()
        self.last = 0
        self.unresolved: list[int] = []
        self.known: dict[int, bool] = {}
        self.told: dict[int, bool] = {}

    def has_something_to_tell(self) -> bool:
        return bool(self.known.keys() - self.told.keys())

    def settle(self, accepted: bool) -> None:
        was_idle = not self.has_something_to_tell()
        assert self.confirms.settle(accepted) is was_idle
        self.last += 1
        self.known[self.last] = accepted

    def defer(self) -> None:
        self.last += 1
        assert self.confirms.defer() == self.last
        self.unresolved.append(self.last)

    def resolve(self, index: int, accepted: bool) -> None:
        if not self.unresolved:
            return
        number = self.unresolved.pop(index % len(self.unresolved))
        was_idle = not self.has_something_to_tell()
        assert self.confirms.resolve(number, accepted) is was_idle
        self.known[number] = accepted

    def refuse_unsent(self) -> None:
        self.confirms.refuse_unsent()
        for number in self.known.keys() - self.told.keys():
            self.known[number] = False

    def take(self) -> None:
        frames = _take(self.confirms)
        for tag, multiple, accepted in frames:
            meant = [n for n in range(1, tag + 1) if n not in self.told] if multiple else [tag]
            assert len(meant) > 1 or not multiple, "a lone one is told alone"
            for number in meant:
                assert number not in self.told, f"{number} is told twice"
                assert self.known.get(number) is accepted, f"{number} is told wrongly, or too early"
                self.told[number] = accepted
        assert not self.has_something_to_tell()
        assert self.confirms.unsent_count == len(self.unresolved)
        assert self.confirms.confirmed == sum(self.told.values())
        runs = [frame[2] for frame in frames if not self.unresolved or frame[0] < self.unresolved[0]]
        assert all(one is not other for one, other in pairwise(runs)), "one frame a run"


_steps = st.one_of(
    st.booleans().map(lambda accepted: ("settle", accepted)),
    st.just(("defer",)),
    st.tuples(st.just("resolve"), st.integers(0, 10), st.booleans()),
    st.tuples(st.just("resolve"), st.just(0), st.just(True)),
    st.just(("take",)),
    st.sampled_from((("take",), ("refuse_unsent",))),
)


@given(st.lists(_steps, max_size=60))
def test_every_publish_is_told_once_and_rightly_in_whatever_order_it_is_resolved(steps: list[tuple[Any, ...]]) -> None:
    asked = _Asked()
    for name, *arguments in [*steps, ("take",)]:
        getattr(asked, name)(*arguments)
        assert asked.confirms.unsent_count == asked.last - len(asked.told)
    while asked.unresolved:
        asked.resolve(0, True)
    asked.take()
    assert sorted(asked.told) == list(range(1, asked.last + 1))


def test_many_open_publishes_cost_a_take_nothing() -> None:
    """Resolved in order, one a turn, while 20,000 wait: this must not look at all of them every turn."""
    confirms = Confirms()
    for _ in range(20_000):
        confirms.defer()
    for number in range(1, 20_001):
        confirms.resolve(number, True)
        assert _take(confirms) == [(number, False, True)]


def test_a_deferred_publish_before_one_that_was_lost_is_told_what_became_of_itself() -> None:
    """The run of those that wait is cut at the lost one: right behind a number that is none of it."""
    journal, confirms = Journal(), Confirms()
    number = confirms.defer()
    confirms.settle_behind(True, journal.number, ON_DISKS)
    journal.abandon()
    confirms.resolve(number, False)
    told = [(each.delivery_tag, each.multiple, isinstance(each, BasicAck)) for each in confirms.take(journal)]
    assert told == [(2, True, False)]
