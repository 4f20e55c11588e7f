"""Backlogs against a naive model that keeps a sorted list."""

from __future__ import annotations

import sys
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclust.broker.backlog.backlog import Backlog, Entry, FifoBacklog
from openclust.broker.backlog.last_value_backlog import LastValueBacklog
from openclust.broker.backlog.priority_backlog import PriorityBacklog


def entry(seq: int, *, expires_ms: int = 0, priority: int = 0) -> Entry:
    message: Any = f"m{seq}"
    return Entry(message, seq, expires_ms, priority=priority)


def filled(backlog: Backlog, entries: list[Entry]) -> Backlog:
    for one in entries:
        assert backlog.push(one) is None
    return backlog


def seqs(entries: Any) -> list[int]:
    return [one.seq for one in entries]


class Model:
    """The plainest right answer: one list, sorted when asked."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.ready: list[Entry] = []
        self.out: list[Entry] = []
        self.key: dict[int, str] = {}
        self.newest: dict[str, int] = {}

    def order(self) -> list[Entry]:
        if self.kind == "priority":
            return sorted(self.ready, key=lambda one: (-min(one.priority, 3), one.seq))
        return sorted(self.ready, key=lambda one: one.seq)

    def push(self, one: Entry, key: str | None) -> Entry | None:
        replaced = None
        if self.kind == "last-value" and key is not None:
            replaced = next((old for old in self.ready if self.key.get(old.seq) == key), None)
            if replaced is not None:
                self.ready.remove(replaced)
            self.key[one.seq] = key
            self.newest[key] = one.seq
        self.ready.append(one)
        return replaced

    def put_back(self, one: Entry) -> bool:
        self.out.remove(one)
        key = self.key.get(one.seq)
        if key is not None and self.newest[key] != one.seq:
            return False
        self.ready.append(one)
        return True

    def heads(self) -> list[Entry]:
        if self.kind != "priority":
            return self.order()[:1]
        levels: dict[int, Entry] = {}
        for one in self.order():
            levels.setdefault(min(one.priority, 3), one)
        return list(levels.values())


def made(kind: str) -> Backlog:
    if kind == "priority":
        return PriorityBacklog(3)
    return FifoBacklog() if kind == "fifo" else LastValueBacklog()


STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["push", "push", "push", "pop", "pop", "put_back", "put_back", "settle", "drop_head", "remove", "expire"]
        ),
        st.integers(0, 40),
    ),
    max_size=120,
)


@pytest.mark.parametrize("kind", ["fifo", "priority", "last-value"])
@given(steps=STEPS)
def test_a_backlog_behaves_as_the_sorted_list_does(kind: str, steps: list[tuple[str, int]]) -> None:
    backlog, model = made(kind), Model(kind)
    for seq, (step, pick) in enumerate(steps):
        if step == "push":
            key = f"k{pick % 4}" if pick % 5 else None
            one = entry(seq, expires_ms=pick if pick % 2 else 0, priority=pick % 6)
            assert backlog.push(one, key) is model.push(one, key)
        elif step in ("pop", "drop_head"):
            expected = model.order()[0] if model.ready else None
            assert backlog.peek() is expected
            assert (backlog.pop() if step == "pop" else backlog.drop_head()) is expected
            if expected is not None:
                model.ready.remove(expected)
                if step == "pop":
                    model.out.append(expected)
        elif step == "put_back" and model.out:
            one = model.out[pick % len(model.out)]
            assert backlog.put_back(one) is model.put_back(one)
        elif step == "settle" and model.out:
            backlog.settle(model.out.pop(pick % len(model.out)))
        elif step == "remove" and model.ready:
            one = model.ready.pop(pick % len(model.ready))
            backlog.remove(one)
        elif step == "expire":
            gone: list[Entry] = []
            while due := [head for head in model.heads() if 0 < head.expires_ms <= pick]:
                model.ready.remove(due[0])
                gone.append(due[0])
            assert backlog.pop_expired(pick) == gone
        assert len(backlog) == len(model.ready)
        assert list(backlog) == model.order()
        assert backlog.heads() == model.heads()
        assert backlog.next_expiry_ms() == min((h.expires_ms for h in model.heads() if h.expires_ms), default=0)
    assert backlog.clear() == model.order()
    assert len(backlog) == 0 and backlog.pop() is None and list(backlog) == []


def test_returned_deliveries_take_their_old_place_whatever_the_order_of_return() -> None:
    backlog = filled(FifoBacklog(), [entry(seq) for seq in range(6)])
    taken = [backlog.pop() for _ in range(5)]
    for index in (2, 0, 4, 1, 3):
        one = taken[index]
        assert one is not None and backlog.put_back(one)
    assert seqs(backlog) == [0, 1, 2, 3, 4, 5]
    assert seqs(iter(backlog.pop, None)) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("kind", ["fifo", "priority"])
def test_a_backlog_that_is_filled_in_order_is_searched_without_being_sorted_for_each_entry(kind: str) -> None:
    backlog = made(kind)
    began = time.process_time()
    for seq in range(1, 20_001):
        assert backlog.find(seq) is None
        backlog.put_back(entry(seq))
    # Sorted for each entry it took minutes.
    assert time.process_time() - began < 5
    assert [each.seq for each in backlog] == list(range(1, 20_001))


def test_the_highest_priority_goes_first_and_a_priority_above_the_maximum_counts_as_the_maximum() -> None:
    given_order = [entry(0, priority=1), entry(1, priority=9), entry(2, priority=2), entry(3, priority=3)]
    backlog = filled(PriorityBacklog(3), given_order)
    assert seqs(backlog) == [1, 3, 2, 0]


def test_a_length_limit_takes_the_head_of_delivery_order_even_of_a_high_priority() -> None:
    backlog = filled(PriorityBacklog(10), [entry(0), entry(1, priority=10)])
    victim = backlog.drop_head()
    assert victim is not None and victim.seq == 1


def test_a_newer_value_takes_out_the_older_one_wherever_it_stands() -> None:
    backlog = LastValueBacklog()
    first, other, newer = entry(0), entry(1), entry(2)
    assert backlog.push(first, "k") is None
    assert backlog.push(other, "other") is None
    assert backlog.push(newer, "k") is first
    assert seqs(backlog) == [1, 2]


def test_a_returned_delivery_with_a_newer_value_is_discarded() -> None:
    backlog = LastValueBacklog()
    backlog.push(entry(0), "k")
    older = backlog.pop()
    assert older is not None
    assert backlog.push(entry(1), "k") is None, "what is out is not in the backlog's accounts"
    newer = backlog.pop()
    assert newer is not None
    assert not backlog.put_back(older)
    assert backlog.put_back(newer)
    assert seqs(backlog) == [1]


def test_a_settled_key_leaves_nothing_in_memory() -> None:
    backlog = LastValueBacklog()
    for seq in range(1_000):
        backlog.push(entry(seq), f"k{seq}")
        one = backlog.pop()
        assert one is not None
        backlog.settle(one)
    assert not backlog._newest and not backlog._key_by_seq and not backlog._out


def test_replacing_one_key_for_ever_keeps_no_trail_of_tombstones() -> None:
    backlog = LastValueBacklog()
    backlog.push(entry(0), "stands in front")
    for seq in range(1, 10_000):
        backlog.push(entry(seq), "k")
    assert len(backlog) == 2
    assert backlog._ready is not None and len(backlog._ready) < 100


def test_expiry_takes_no_more_at_once_than_its_limit() -> None:
    backlog = filled(FifoBacklog(), [entry(seq, expires_ms=5) for seq in range(10)])
    assert seqs(backlog.pop_expired(5, limit=4)) == [0, 1, 2, 3]
    assert len(backlog) == 6


def test_only_a_head_expires_and_each_priority_has_its_own() -> None:
    fifo = filled(FifoBacklog(), [entry(0), entry(1, expires_ms=5)])
    assert fifo.pop_expired(9) == [] and fifo.next_expiry_ms() == 0
    levels = filled(PriorityBacklog(1), [entry(0, priority=1), entry(1, expires_ms=5)])
    assert levels.next_expiry_ms() == 5
    assert seqs(levels.pop_expired(9)) == [1]


@pytest.mark.parametrize("kind", ["fifo", "priority", "last-value"])
def test_an_empty_backlog_is_tiny_before_and_after_traffic(kind: str) -> None:
    backlog = made(kind)
    for seq in range(100):
        backlog.push(entry(seq), "k")
    taken = list(iter(backlog.pop, None))
    for one in taken[::2] + taken[1::2]:
        backlog.put_back(one)
    backlog.clear()
    slots = [slot for kind_ in type(backlog).__mro__ for slot in getattr(kind_, "__slots__", ())]
    held = [getattr(backlog, slot) for slot in slots if slot not in ("_max_priority", "_superseded")]
    assert not any(held)
    if kind != "last-value":
        assert set(map(repr, held)) == {"0", "None"} and sys.getsizeof(backlog) <= 80
