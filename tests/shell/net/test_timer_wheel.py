"""The timer wheel against a dictionary of deadlines."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from openclust.shell.net.timer_wheel import TimerWheel

TICK_MS = 10


@given(
    start_ms=st.integers(0, 1_000),
    steps=st.lists(
        st.tuples(st.sampled_from(["add", "add", "remove", "advance"]), st.integers(0, 9), st.integers(0, 300)),
        max_size=80,
    ),
)
def test_an_item_is_never_early_and_at_most_two_ticks_late(start_ms: int, steps: list[tuple[str, int, int]]) -> None:
    wheel: TimerWheel[int] = TimerWheel(8, TICK_MS, start_ms)
    now_ms = start_ms
    deadlines: dict[int, int] = {}
    for step, item, amount_ms in steps:
        if step == "add":
            wheel.add(item, amount_ms)
            deadlines[item] = now_ms + amount_ms
        elif step == "remove":
            wheel.remove(item)
            deadlines.pop(item, None)
        else:
            now_ms += amount_ms
            due = wheel.advance(now_ms)
            assert len(due) == len(set(due))
            for one in due:
                assert deadlines.pop(one) <= now_ms
            assert all(now_ms < deadline_ms + 2 * TICK_MS for deadline_ms in deadlines.values())
        assert len(wheel) == len(deadlines) and all(one in wheel for one in deadlines)
    assert sorted(wheel.advance(now_ms + 400)) == sorted(deadlines)
    assert len(wheel) == 0
    assert wheel.advance(now_ms + 10_000) == [], "no slot has kept an item"


def test_an_item_added_between_two_advances_is_not_early() -> None:
    wheel: TimerWheel[str] = TimerWheel(100, TICK_MS, 0)
    # The clock really shows 9 ms now.
    wheel.add("a", 10)
    assert wheel.advance(18) == []
    assert wheel.advance(20) == ["a"]


def test_a_wait_longer_than_a_revolution_takes_its_full_time() -> None:
    wheel: TimerWheel[str] = TimerWheel(4, TICK_MS, 0)
    wheel.add("late", 1_000)
    assert [wheel.advance(now_ms) for now_ms in range(0, 1_010, TICK_MS)] == [[]] * 101
    assert wheel.advance(1_020) == ["late"]


def test_adding_again_moves_the_item() -> None:
    wheel: TimerWheel[str] = TimerWheel(16, TICK_MS, 0)
    wheel.add("a", 10)
    wheel.add("a", 50)
    assert wheel.advance(40) == [] and wheel.advance(70) == ["a"] and wheel.advance(1_000) == []


def test_a_removed_item_is_never_due_and_removing_it_again_does_no_harm() -> None:
    wheel: TimerWheel[str] = TimerWheel(16, TICK_MS, 0)
    wheel.add("a", 10)
    wheel.remove("a")
    wheel.remove("a")
    assert wheel.advance(1_000) == []


def test_one_call_returns_no_more_than_its_limit_and_the_next_calls_return_the_rest_in_order() -> None:
    wheel: TimerWheel[int] = TimerWheel(16, TICK_MS, 0)
    for item in range(25):
        wheel.add(item, 10)
    batches = [wheel.advance(100, limit=10) for _ in range(4)]
    assert batches == [list(range(10)), list(range(10, 20)), list(range(20, 25)), []]


def test_what_is_added_while_a_limit_holds_back_items_keeps_its_own_time() -> None:
    wheel: TimerWheel[str] = TimerWheel(4, TICK_MS, 0)
    wheel.add("a", 10)
    wheel.add("b", 10)
    assert wheel.advance(100, limit=1) == ["a"]
    wheel.add("a", 50)
    assert wheel.advance(150) == ["b"] and wheel.advance(160) == ["a"]


def test_a_clock_that_goes_back_makes_nothing_due() -> None:
    wheel: TimerWheel[str] = TimerWheel(16, TICK_MS, 1_000)
    wheel.add("a", 10)
    assert wheel.advance(500) == [] and wheel.advance(1_020) == ["a"]


def test_a_jump_of_a_year_costs_one_revolution() -> None:
    wheel: TimerWheel[str] = TimerWheel(16, TICK_MS, 0)
    wheel.add("a", 10)
    assert wheel.advance(365 * 86_400_000) == ["a"]
    wheel.add("b", 10)
    assert wheel.advance(365 * 86_400_000 + 20) == ["b"]
