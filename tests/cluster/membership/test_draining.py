"""What can be spared: enough primaries must be left to elect a root."""

from __future__ import annotations

from openclust.cluster.membership.draining import obstacle
from openclust.cluster.protocol.roster import BrokerInfo, Roster

THREE = ("p1", "p2", "p3")


def told(name: str, primaries: tuple[str, ...], *there: str, draining: str = "") -> str:
    brokers = tuple(BrokerInfo(name=each, client="", is_draining=each == draining) for each in (*primaries, "s1"))
    return obstacle(name, primaries, lambda each: each in there, Roster(brokers=brokers))


def test_one_of_three_can_be_spared() -> None:
    assert told("p1", THREE, "p2", "p3") == ""


def test_a_second_one_cannot() -> None:
    assert told("p1", THREE, "p2") == ("without p1 there would be 1 of 3 primaries (p2), too few to elect a root")


def test_one_that_is_drained_is_as_good_as_gone() -> None:
    assert "1 of 3 primaries (p2)" in told("p1", THREE, "p2", "p3", draining="p3")


def test_exactly_half_elects_nobody() -> None:
    assert "1 of 2 primaries (p2)" in told("p1", ("p1", "p2"), "p2")
    assert told("p1", ("p1", "p2", "p3", "p4"), "p2", "p3", "p4") == ""
    assert told("p1", ("p1", "p2", "p3", "p4"), "p2", "p3") != ""


def test_the_only_primary_cannot_be_spared() -> None:
    assert "0 of 1 primaries (none)" in told("p1", ("p1",))


def test_a_secondary_always_can() -> None:
    assert told("s1", THREE) == ""
