"""Which reason is told where a root is lost."""

from __future__ import annotations

import pytest

from openclust.cluster.election.lost_root import lost_root, stood_still
from openclust.cluster.protocol.status import Ended, Reign

LAST = Reign(7, "p1")


def told(
    ended: Ended | None = None, *, passed_ms: int = 100, silent_ms: int | None = 320, is_online: bool = False
) -> tuple[str, bool]:
    lost = lost_root(LAST, ended, passed_ms=passed_ms, stood_still_ms=150, silent_ms=silent_ms, is_online=is_online)
    assert lost.last == LAST
    return lost.how, lost.is_told


def test_what_the_root_itself_has_told_of_that_reign_comes_first() -> None:
    assert told(Ended(7, "drained"), passed_ms=9_000, silent_ms=None) == ("has given up its place: drained", True)


def test_the_end_of_an_earlier_reign_is_no_reason() -> None:
    assert told(Ended(6, "drained")) == ("is not heard any more: nothing came for 320 ms", False)


def test_a_process_that_stood_still_blames_itself_and_not_the_root() -> None:
    how = "is not heard any more: this process stood still for 2.5 s (stopped, or its machine is busy)"
    assert told(passed_ms=2_500) == (how, False)


def test_a_link_that_has_ended_is_told_before_silence() -> None:
    assert told(silent_ms=None) == ("is not heard any more: its link has ended", False)


def test_a_root_that_is_heard_and_says_it_is_none_has_told_so() -> None:
    assert told(is_online=True) == ("says that it is root no more", True)


@pytest.mark.parametrize(("for_ms", "shown"), [(999, "999 ms"), (1_000, "1.0 s")])
def test_a_time_of_a_second_or_more_is_told_in_seconds(for_ms: int, shown: str) -> None:
    assert f" {shown} " in stood_still(for_ms)
