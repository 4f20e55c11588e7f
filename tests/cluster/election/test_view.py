"""What one primary sees of the others."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from openclust.cluster.election.election import step
from openclust.cluster.election.events import PeerLost, StatusHeard, StoreRead, Tick
from openclust.cluster.election.view import (
    Election,
    ElectionRole,
    Terms,
    active,
    begin,
    electorate,
    is_online,
    is_starting,
    lease_end_ms,
    serves,
    supporters,
    why_no_root,
)
from openclust.cluster.protocol.status import Phase, Position, Reign, Seniority, Status

NOWHERE = Position()
TERMS = Terms(primaries=("a", "b", "c"), heartbeat_ms=100, start_grace_ms=1_000)


def said(
    name: str,
    number: int = 1,
    *,
    stamp_ms: int = 50,
    phase: Phase = "active",
    stands_in: int = 0,
    vote: Reign | None = None,
    reign: Reign | None = None,
    heard: int = 0,
    position: Position = NOWHERE,
    held_ms: int = 0,
) -> Status:
    """What a peer of `a` tells of itself."""
    return Status(
        number=number,
        seniority=Seniority(stamp_ms, name),
        phase=phase,
        position=position,
        stands_in=stands_in,
        vote=vote,
        reign=reign,
        heard={"a": heard} if heard else {},
        held_ms=held_ms,
    )


def ready(now_ms: int = 0, terms: Terms = TERMS) -> Election:
    return step(begin(terms, "a", 10, 0), StoreRead(now_ms))[0]


def hear(election: Election, now_ms: int, *statuses: Status) -> Election:
    for status in statuses:
        election, _ = step(election, StatusHeard(now_ms, status))
    return election


def tick(election: Election, now_ms: int) -> Election:
    return step(election, Tick(now_ms))[0]


def root(now_ms: int = 1_000) -> Election:
    """`a` is root in epoch 1, and b and c heard its last status when it was sent."""
    election = tick(ready(), now_ms)
    mine = Reign(1, "a")
    for name in ("b", "c"):
        election = hear(election, now_ms, said(name, reign=mine, vote=mine, heard=election.number))
    # The way there is what the scenarios show.
    return replace(election, role=ElectionRole.ROOT, reign=mine, vote=mine, stands_in=0)


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


def test_who_starts_is_in_the_electorate_and_is_not_active() -> None:
    election = hear(tick(ready(), 2_000), 2_000, said("b", phase="starting"))
    assert electorate(election) == ["a", "b"]
    assert [each.name for each in active(election)] == ["a"]


def test_who_does_not_hear_us_is_not_in_our_electorate() -> None:
    election = tick(ready(), 2_000)
    for now_ms in range(2_000, 2_400, 100):
        election = hear(tick(election, now_ms), now_ms, said("b", now_ms))
        assert electorate(election) == (["a", "b"] if now_ms < 2_300 else ["a"])
    election = hear(election, 2_301, said("b", 2_301, heard=election.number))
    assert electorate(election) == ["a", "b"]


def test_the_oldest_stamp_is_the_most_senior_and_then_the_first_name() -> None:
    election = hear(ready(), 100, said("c", stamp_ms=5), said("b", stamp_ms=5))
    assert [each.name for each in active(election)] == ["b", "c", "a"]


def test_a_status_older_than_the_last_is_not_taken() -> None:
    election = hear(ready(), 100, said("b", 7, stands_in=3), said("b", 6))
    assert election.peers["b"].status.number == 7


def test_a_restarted_peer_counts_its_statuses_anew() -> None:
    election = hear(ready(), 100, said("b", 7), said("b", 1, stamp_ms=60))
    assert election.peers["b"].status.seniority.stamp_ms == 60


def test_who_is_no_primary_is_not_heard() -> None:
    election = hear(ready(), 100, said("s1", stands_in=9, vote=Reign(9, "s1"), reign=Reign(9, "s1")))
    assert election.peers == {} and election.reign is None


def test_a_lease_counts_from_when_the_status_was_sent_that_was_heard() -> None:
    election = root(1_000)
    assert lease_end_ms(election) == 1_180
    late = hear(tick(election, 1_050), 1_150, said("b", 2, reign=Reign(1, "a"), vote=Reign(1, "a"), heard=2))
    assert late.peers["b"].echoed_ms == 1_000


def test_a_root_serves_to_the_end_of_its_lease_and_not_longer() -> None:
    election = root(1_000)
    assert serves(election, 1_180)
    assert not serves(election, 1_181)


def test_of_five_the_second_best_echo_counts_and_of_two_none_is_needed() -> None:
    mine = Reign(1, "a")
    of_five = replace(root(), terms=Terms(primaries=("a", "b", "c", "d", "e")))
    assert lease_end_ms(of_five) == 1_180
    assert lease_end_ms(hear(of_five, 1_010, said("b", 2, reign=Reign(9, "d"), vote=Reign(9, "d")))) == -1
    later = hear(tick(of_five, 1_100), 1_100, said("b", 2, reign=mine, vote=mine, heard=of_five.number + 1))
    assert lease_end_ms(later) == 1_180, "c has not heard it since"
    assert lease_end_ms(replace(root(), terms=Terms(primaries=("a", "b")))) > 2**60


def test_who_voted_in_a_later_epoch_supports_no_more() -> None:
    election = hear(root(), 1_000, said("b", 2, reign=Reign(1, "a"), vote=Reign(2, "c"), heard=2))
    assert supporters(election) == ["a", "c"]


def test_who_stood_in_vain_supports_the_root_again_when_it_has_given_up() -> None:
    later = Reign(2, "b")
    standing = hear(root(), 1_000, said("b", 2, stands_in=2, vote=later, heard=2))
    assert supporters(standing) == ["a", "c"]
    given_up = hear(standing, 1_000, said("b", 3, reign=Reign(1, "a"), vote=later, heard=2))
    assert supporters(given_up) == ["a", "b", "c"]


def test_who_voted_for_another_supports_the_root_again_when_that_one_has_given_up() -> None:
    mine, later = Reign(1, "a"), Reign(2, "b")
    given_up = hear(root(), 1_000, said("b", 2, reign=mine, vote=later, heard=2))
    misled = said("c", 2, reign=mine, vote=later, heard=2)
    assert supporters(hear(given_up, 1_000, misled)) == ["a", "b", "c"]
    standing = hear(root(), 1_000, said("b", 2, stands_in=2, vote=later, heard=2))
    assert hear(standing, 1_000, misled).role is ElectionRole.ELECTOR, "the votes of b and c may make another root"


def test_who_voted_for_one_of_whom_nothing_is_known_supports_no_more() -> None:
    mine = Reign(1, "a")
    election = replace(root(), peers={"b": root().peers["b"]})
    assert supporters(hear(election, 1_000, said("b", 2, reign=mine, vote=Reign(2, "c"), heard=2))) == ["a"]


# -- why there is no root


def test_there_is_nothing_to_say_under_a_root() -> None:
    assert why_no_root(root()) == []


def test_who_reads_its_store_says_so() -> None:
    assert ("a", "is starting") in why_no_root(begin(TERMS, "a", 10, 0))


def test_who_was_never_heard_is_named() -> None:
    election = hear(ready(), 100, said("b"))
    assert ("c", "is starting") in why_no_root(election)


def test_who_is_missing_at_half_or_less_is_named() -> None:
    assert [each for each in why_no_root(tick(ready(), 2_000)) if each[1] == "is offline"] == [
        ("b", "is offline"),
        ("c", "is offline"),
    ]


def test_who_does_not_hear_us_is_named() -> None:
    election = tick(ready(), 2_000)
    for now_ms in range(2_000, 2_400, 100):
        election = hear(tick(election, now_ms), now_ms, said("b", now_ms, stamp_ms=20))
    assert ("b", "does not hear us") in why_no_root(election)


def test_who_has_not_voted_is_named() -> None:
    election = hear(tick(ready(), 2_000), 2_000, said("b"), said("c"))
    election = hear(election, 2_000, said("b", 2, vote=Reign(1, "a"), heard=election.number))
    assert why_no_root(election) == [("c", "has not voted for a in epoch 1")]


def test_the_most_senior_that_does_not_stand_is_named() -> None:
    election = hear(tick(ready(), 2_000), 2_000, said("b", stamp_ms=1), said("c"))
    assert why_no_root(election) == [("b", "is the most senior and does not stand: it follows or waits for another")]


def test_one_that_takes_over_is_named() -> None:
    vote = Reign(1, "a")
    election = hear(tick(ready(), 2_000), 2_000, said("b"), said("c"))
    election = hear(election, 2_000, said("b", 2, vote=vote, heard=election.number), said("c", 2, vote=vote))
    assert election.role is ElectionRole.TAKING_OVER
    assert why_no_root(election) == [("a", "has the votes in epoch 1, and fetches what its voters hold")]
