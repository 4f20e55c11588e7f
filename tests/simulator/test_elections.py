"""A sweep of seeds that always run and of some that never ran before; and that the simulator would notice a fault."""

from __future__ import annotations

from functools import partial

import pytest

from openclust.cluster.election import election
from openclust.cluster.election.view import Terms
from tests.simulator.disk import ForgetfulDisk
from tests.simulator.election_run import run_elections as run
from tests.simulator.failover import failover_ms
from tests.simulator.sweeping import first_failure as first_failure_of

SEEDS = 100
BROKEN_SEEDS_MAX = 150

first_failure = partial(first_failure_of, seeds=BROKEN_SEEDS_MAX)


@pytest.mark.parametrize("first", range(0, SEEDS, 20))
def test_whatever_happens_no_two_are_root_and_afterwards_one_is(first: int) -> None:
    for seed in range(first, first + 20):
        run(seed)


def test_a_seed_is_a_run() -> None:
    once: list[str] = []
    again: list[str] = []
    assert run(4, tell=once.append) == run(4, tell=again.append)
    assert once == again and len(once) > 1_000


def test_a_failure_says_how_to_see_it_again() -> None:
    failure = first_failure(lambda seed: run(seed, steps=999, primaries=3, disk=ForgetfulDisk))
    seed = failure.partition(":")[0].removeprefix("seed ")
    assert failure.endswith(f"python -m tests.simulator --elections --seed {seed} --steps 999 --primaries 3 --trace")


def test_votes_that_are_not_on_disk_are_noticed() -> None:
    assert "on disk" in first_failure(lambda seed: run(seed, disk=ForgetfulDisk))


def test_leases_longer_than_the_voters_wait_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Terms, "lease_ms", property(lambda terms: terms.wait_ms * 5))
    assert "root at the same time" in first_failure(lambda seed: run(seed, primaries=3))


def test_voters_who_do_not_wait_for_a_lease_to_end_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(election, "_may_vote_for", lambda election, name: True)
    failure = first_failure(lambda seed: run(seed, primaries=3))
    assert "root at the same time" in failure, failure[:300]


def test_an_election_by_less_than_a_majority_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(election, "_is_elected", lambda election: bool(election.stands_in))
    assert first_failure(lambda seed: run(seed, primaries=3))


@pytest.mark.parametrize("primaries", [3, 4, 5])
def test_a_killed_root_is_followed_by_another_within_four_heartbeats(primaries: int) -> None:
    assert max(failover_ms(seed, primaries, "killed, links end") for seed in range(30)) <= 400


@pytest.mark.parametrize("primaries", [3, 4, 5])
def test_a_root_cut_off_is_followed_by_another_within_five_heartbeats(primaries: int) -> None:
    assert max(failover_ms(seed, primaries, "cut off, silently") for seed in range(30)) <= 500
