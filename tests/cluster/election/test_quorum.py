"""Which primaries take part, which is most senior, and what stands in the way of a root."""

from __future__ import annotations

from msgspec.structs import replace

from openclust.cluster.election.quorum import active, electorate, is_critical, why_no_root
from openclust.cluster.election.view import ElectionRole, Terms, begin
from openclust.cluster.protocol.status import Reign
from tests.support.cluster.election_view import TERMS, hear, ready, root, said, tick


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


def test_a_root_is_critical_where_the_others_could_elect_none_without_it() -> None:
    assert not is_critical(root())
    # c is silent: b alone is not more than half of three.
    election = root(1_000)
    assert is_critical(hear(tick(election, 1_500), 1_500, said("b", 2, reign=Reign(1, "a"), heard=election.number)))


def test_a_primary_that_is_not_root_is_critical_where_less_than_half_would_be_left() -> None:
    four = Terms(primaries=("a", "b", "c", "d"), heartbeat_ms=100, start_grace_ms=1_000)
    election = tick(ready(terms=four), 2_000)
    election = hear(election, 2_000, said("b", reign=Reign(1, "b")), said("c", reign=Reign(1, "b")))
    followed = replace(election, role=ElectionRole.BACKUP, reign=Reign(1, "b"))
    assert not is_critical(followed), "a sitting root stays with half of the primaries"
    assert is_critical(replace(followed, reign=Reign(1, "a"))), "a new one needs more than half"
    assert is_critical(replace(followed, terms=replace(four, primaries=("a", "b", "c", "d", "e"))))
