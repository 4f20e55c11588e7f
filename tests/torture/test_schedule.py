"""The faults of a run are a matter of its seed."""

from __future__ import annotations

from itertools import islice

from tests.torture.faults import KINDS, NETWORK
from tests.torture.schedule import Episode, episodes

COUNT = 400


def drawn(seed: int) -> list[Episode]:
    return list(islice(episodes(seed, list(KINDS)), COUNT))


def shape(episode: Episode) -> list[tuple[str, bool, float]]:
    return [(step.kind, step.is_begin, step.at_s) for step in episode.steps]


def test_a_seed_draws_the_same_faults_again() -> None:
    assert list(map(shape, drawn(1))) == list(map(shape, drawn(1)))
    assert list(map(shape, drawn(1))) != list(map(shape, drawn(2)))


def test_every_kind_strikes_and_sometimes_two_at_once() -> None:
    steps = [step for episode in drawn(3) for step in episode.steps]
    assert {step.kind for step in steps} == set(KINDS)
    assert {type(step.fault) for step in steps} == {fault for faults in KINDS.values() for fault in faults}
    assert {len(episode.steps) for episode in drawn(3)} == {2, 4}


def test_what_mends_one_fault_never_mends_another() -> None:
    for episode in drawn(4):
        kinds = [step.kind for step in episode.steps if step.is_begin]
        assert len(set(kinds)) == len(kinds)
        assert len(NETWORK.intersection(kinds)) <= 1


def test_all_that_begins_ends() -> None:
    for episode in drawn(5):
        assert sum(step.is_begin for step in episode.steps) * 2 == len(episode.steps)
        assert episode.steps == sorted(episode.steps, key=lambda step: step.at_s)
