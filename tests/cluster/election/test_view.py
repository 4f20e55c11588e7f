"""What a primary knows of the others from their statuses."""

from __future__ import annotations

import pytest

from openclust.cluster.election.election import step
from openclust.cluster.election.events import PeerLost
from openclust.cluster.election.view import begin, is_online, is_starting
from openclust.cluster.protocol.status import Reign
from tests.support.cluster.election_view import TERMS, hear, ready, said, tick


def test_only_defined_primaries_take_part() -> None:
    with pytest.raises(AssertionError, match="only primaries elect"):
        begin(TERMS, "s1", 10, 0)


def test_a_peer_is_online_until_three_heartbeats_are_missed() -> None:
    election = hear(ready(), 1_000, said("b"))
    assert is_online(tick(election, 1_299), "b")
    assert not is_online(tick(election, 1_300), "b")


def test_a_peer_whose_link_ended_is_offline_at_once_and_back_when_it_is_heard() -> None:
    election, _ = step(hear(ready(), 1_000, said("b")), PeerLost(1_001, "b"))
    assert not is_online(election, "b")
    assert is_online(hear(election, 1_002, said("b", 2)), "b")


def test_the_end_of_a_link_from_nobody_changes_nothing() -> None:
    election, _ = step(ready(), PeerLost(1, "c"))
    assert election.peers == {}


def test_a_peer_never_heard_is_starting_until_the_grace_is_over() -> None:
    assert is_starting(tick(ready(), 999), "b")
    assert not is_starting(tick(ready(), 1_000), "b")


def test_a_peer_that_went_is_not_starting_though_the_grace_lasts() -> None:
    election, _ = step(hear(ready(), 100, said("b", phase="starting")), PeerLost(101, "b"))
    assert not is_starting(election, "b")


def test_a_status_older_than_the_last_is_not_taken() -> None:
    election = hear(ready(), 100, said("b", 7, stands_in=3), said("b", 6))
    assert election.peers["b"].status.number == 7


def test_a_restarted_peer_counts_its_statuses_anew() -> None:
    election = hear(ready(), 100, said("b", 7), said("b", 1, stamp_ms=60))
    assert election.peers["b"].status.seniority.stamp_ms == 60


def test_who_is_no_primary_is_not_heard() -> None:
    election = hear(ready(), 100, said("s1", stands_in=9, vote=Reign(9, "s1"), reign=Reign(9, "s1")))
    assert election.peers == {} and election.reign is None
