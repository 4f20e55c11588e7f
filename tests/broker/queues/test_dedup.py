"""The dedup window against a list that is searched."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from openclust.broker.model.queue_arguments import NO_ARGS, QueueArgs
from openclust.broker.queues.dedup import DedupWindow, dedup_window


@given(
    size=st.integers(1, 5),
    ttl_ms=st.integers(0, 10),
    steps=st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 6)), max_size=60),
)
def test_a_key_is_seen_while_it_is_among_the_newest_and_young_enough(
    size: int, ttl_ms: int, steps: list[tuple[str, int]]
) -> None:
    window = DedupWindow(size, ttl_ms)
    model: list[tuple[str, int]] = []
    now_ms = 0
    for key, passed_ms in steps:
        now_ms += passed_ms
        model = [(old, at_ms) for old, at_ms in model if not ttl_ms or now_ms - at_ms < ttl_ms]
        expected = key in [old for old, _ in model]
        if not expected:
            model = [*model, (key, now_ms)][-size:]
        assert window.seen(key, now_ms) is expected
        assert len(window) == len(model) <= size


def test_repeating_a_key_does_not_keep_it_alive() -> None:
    window = DedupWindow(10, 100)
    assert [window.seen("k", now_ms) for now_ms in (0, 60, 99, 100)] == [False, True, True, False]


def test_a_window_holds_no_more_than_its_size() -> None:
    window = DedupWindow(100)
    for number in range(10_000):
        window.seen(f"k{number}", number)
    assert len(window) == 100 and "k9900" in window and "k9899" not in window


def test_a_refused_message_may_be_tried_again() -> None:
    window = DedupWindow(10)
    assert not window.seen("k", 0)
    window.forget("k")
    assert not window.seen("k", 1)


def test_only_the_newest_record_can_be_taken_back() -> None:
    window = DedupWindow(10)
    window.seen("old", 0)
    window.seen("new", 0)
    window.forget("old")
    assert window.seen("old", 1)


def test_a_dedup_window_is_made_only_where_it_is_asked_for() -> None:
    assert dedup_window(NO_ARGS, 10) is None
    window = dedup_window(QueueArgs(dedup=True, dedup_size=1), 10)
    assert window is not None
    assert [window.seen(key, 0) for key in ("a", "b", "a")] == [False, False, False]


def test_a_dedup_window_is_no_larger_than_the_broker_allows() -> None:
    window = dedup_window(QueueArgs(dedup=True, dedup_size=100), 2)
    assert window is not None
    assert [window.seen(key, 0) for key in ("a", "b", "c", "a")] == [False, False, False, False]
