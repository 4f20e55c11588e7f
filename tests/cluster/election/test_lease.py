"""How long a root may serve."""

from __future__ import annotations

from msgspec.structs import replace

from openclust.cluster.election.lease import lease_end_ms, serves, supporters
from openclust.cluster.election.view import ElectionRole, Terms
from openclust.cluster.protocol.status import Reign
from tests.support.cluster.election_view import hear, root, said, tick


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
