"""Events that come again and again."""

from __future__ import annotations

from openclust.broker.queues.repeats import INTERVALS_MS, KEYS_MAX, Repeats


def lines(repeats: Repeats, event: str, until_ms: int, every_ms: int = 500) -> list[int]:
    """When an event that comes every half second is logged."""
    return [ms for ms in range(0, until_ms, every_ms) if repeats.again(event, ms) is not None]


def test_an_event_is_logged_once_and_then_ever_more_seldom() -> None:
    when = lines(Repeats(), "refused", 5_000_000)
    assert when == [0, 10_000, 70_000, 670_000, 4_270_000]


def test_a_later_line_says_how_often_it_came_and_for_how_long() -> None:
    repeats = Repeats()
    assert repeats.again("refused", 0) == ""
    assert [repeats.again("refused", ms) for ms in (4_000, 8_000)] == [None, None]
    assert repeats.again("refused", 12_000) == " (3 more since the last line; for 12 s by now)"
    assert repeats.again("refused", 80_000) == " (1 more since the last line; for 80 s by now)"


def test_events_are_counted_apart() -> None:
    repeats = Repeats()
    assert repeats.again("p1 refused", 0) == ""
    assert repeats.again("p2 refused", 0) == ""
    assert repeats.again("p1 refused", 1) is None


def test_an_event_that_stayed_away_for_long_begins_anew() -> None:
    repeats = Repeats()
    repeats.again("refused", 0)
    assert repeats.again("refused", 2 * INTERVALS_MS[0]) is not None
    repeats = Repeats()
    repeats.again("refused", 0)
    assert repeats.again("refused", 2 * INTERVALS_MS[0] + 1) == ""


def test_what_is_forgotten_is_told_at_once_again() -> None:
    repeats = Repeats()
    repeats.again("p1 refused", 0)
    repeats.again("p2 refused", 0)
    repeats.forget("p1 ")
    assert (repeats.again("p1 refused", 1), repeats.again("p2 refused", 1)) == ("", None)


def test_there_is_a_bound_on_what_is_counted() -> None:
    repeats = Repeats()
    for number in range(2 * KEYS_MAX):
        assert repeats.again(f"p{number}", number) == ""
    assert repeats.again("p0", 2 * KEYS_MAX) == "", "it was forgotten for newer ones"
    assert repeats.again(f"p{2 * KEYS_MAX - 1}", 2 * KEYS_MAX) is None
