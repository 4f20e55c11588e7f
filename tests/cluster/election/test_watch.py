"""How a secondary knows the root: from what the primaries say, as long as they say it."""

from __future__ import annotations

import msgspec

from openclust.cluster.election.watch import Watch
from openclust.cluster.protocol.status import Ended, Reign, Seniority, Status


def status(name: str, number: int = 1, reign: Reign | None = None, stamp_ms: int = 1) -> Status:
    return Status(number=number, seniority=Seniority(stamp_ms, name), phase="active", reign=reign)


def watching(*statuses: Status, now_ms: int = 1_000) -> Watch:
    watch = Watch(100)
    for each in statuses:
        watch.heard(each, now_ms)
    return watch


def test_the_root_is_who_says_so_itself() -> None:
    reign = Reign(3, "p1")
    assert watching(status("p1", reign=reign), status("p2", reign=reign)).reign(1_000) == reign


def test_hearsay_makes_no_root() -> None:
    assert watching(status("p2", reign=Reign(3, "p1"))).reign(1_000) is None
    assert watching(status("p1"), status("p2", reign=Reign(3, "p1"))).reign(1_000) is None


def test_of_two_that_say_so_the_later_epoch_counts() -> None:
    watch = watching(status("p1", reign=Reign(3, "p1")), status("p2", reign=Reign(4, "p2")))
    assert watch.reign(1_000) == Reign(4, "p2")


def test_a_root_that_is_silent_for_three_heartbeats_is_none() -> None:
    watch = watching(status("p1", reign=Reign(3, "p1")))
    assert watch.reign(1_299) == Reign(3, "p1") and watch.is_online("p1", 1_299)
    assert watch.reign(1_300) is None and not watch.is_online("p1", 1_300)


def test_a_root_whose_link_has_ended_is_none_at_once() -> None:
    watch = watching(status("p1", reign=Reign(3, "p1")))
    watch.lost("p1")
    assert watch.reign(1_000) is None and watch.status("p1") is None
    watch.lost("p1")


def test_an_older_status_that_comes_late_is_passed_over() -> None:
    watch = watching(status("p1", 5, Reign(3, "p1")), status("p1", 4))
    assert watch.reign(1_000) == Reign(3, "p1")
    watch.heard(status("p1", 6), 1_000)
    assert watch.reign(1_000) is None


def test_a_restarted_primary_counts_anew() -> None:
    watch = watching(status("p1", 5, Reign(3, "p1"), stamp_ms=1), status("p1", 1, stamp_ms=2))
    assert watch.reign(1_000) is None


def test_after_a_long_silence_any_status_is_news() -> None:
    """Its clock may have been set back meanwhile, and its stamp and numbers with it."""
    watch = watching(status("p1", 5, Reign(3, "p1")))
    watch.heard(status("p1", 1, Reign(4, "p1")), 1_300)
    assert watch.reign(1_300) == Reign(4, "p1")


def test_the_heartbeat_is_the_primaries() -> None:
    watch = watching(status("p1", reign=Reign(3, "p1")))
    watch.heartbeat_ms = 1_000
    assert watch.reign(3_999) == Reign(3, "p1")


def test_when_a_primary_was_heard_is_known() -> None:
    watch = watching(status("p1"))
    assert (watch.heard_ms("p1"), watch.heard_ms("p2")) == (1_000, 0)


def lost(watch: Watch, now_ms: int, passed_ms: int = 100) -> tuple[str, bool]:
    told = watch.lost_root(Reign(3, "p1"), now_ms, passed_ms)
    return told.how, told.is_told


def test_of_a_root_that_is_gone_a_secondary_says_why() -> None:
    reign = Reign(3, "p1")
    watch = watching(status("p1", reign=reign))
    assert lost(watch, 1_300) == ("is not heard any more: nothing came for 300 ms", False)
    how, is_told = lost(watch, 3_000, passed_ms=2_000)
    assert how.startswith("is not heard any more: this process stood still for 2.0 s") and not is_told
    watch.lost("p1")
    assert lost(watch, 1_000) == ("is not heard any more: its link has ended", False)


def test_of_a_root_that_stepped_down_a_secondary_says_why() -> None:
    watch = watching(status("p1", reign=Reign(3, "p1")))
    watch.heard(msgspec.structs.replace(status("p1", 2), ended=Ended(3, "new kernel")), 1_010)
    assert lost(watch, 1_010) == ("has given up its place: new kernel", True)
    watch.lost("p1")
    assert lost(watch, 1_010) == ("has given up its place: new kernel", True), "its word outlives its link"


def test_how_long_it_is_since_the_last_look() -> None:
    watch = Watch(100)
    assert [watch.look(now_ms) for now_ms in (5_000, 5_100, 7_100)] == [0, 100, 2_000]
