"""A cluster that changes its root while it is measured is measured anew; any other error is told at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import cast

import pytest

from openclust.bench.brokers.bench_cluster import MakeCluster
from openclust.bench.brokers.one_root import TRIES, RootedCluster, under_one_root
from openclust.bench.client.bench_errors import BenchError


class Brokers:
    """Three that are in an epoch; as much of a cluster as is asked of it here."""

    names = ("p1", "p2", "p3")

    def __init__(self) -> None:
        self.is_running, self.epochs = False, dict.fromkeys(self.names, 1)

    def start(self) -> None:
        self.is_running = True

    def wait_until_serving(self) -> str:
        return "p2"

    def epoch(self, name: str) -> int:
        return self.epochs[name]


class Made:
    """Remembers what was made."""

    def __init__(self) -> None:
        self.clusters: list[Brokers] = []

    @contextmanager
    def __call__(self, primaries: int, secondaries: int) -> Iterator[Brokers]:
        self.clusters.append(Brokers())
        yield self.clusters[-1]
        self.clusters[-1].is_running = False


def _measured(made: Made, silent: int, *, elects: bool) -> str:
    """The first so many clusters fall silent, with an election or without one."""

    def measure(clusters: Sequence[RootedCluster]) -> str:
        ((brokers, root),) = clusters
        if len(made.clusters) <= silent:
            if elects:
                cast(Brokers, brokers).epochs["p3"] = 2
            raise BenchError("p1 delivered nothing for 5 s")
        return root

    return under_one_root([cast(MakeCluster, made)], 3, 0, measure)


def test_a_cluster_whose_root_stays_is_measured_once() -> None:
    made = Made()
    assert _measured(made, 0, elects=False) == "p2"
    assert len(made.clusters) == 1


def test_a_cluster_that_changed_its_root_is_ended_and_another_measured() -> None:
    made = Made()
    assert _measured(made, 2, elects=True) == "p2"
    assert [each.is_running for each in made.clusters] == [False] * 3


def test_a_silence_without_an_election_is_told_as_it_is() -> None:
    made = Made()
    with pytest.raises(BenchError, match="delivered nothing for 5 s"):
        _measured(made, 1, elects=False)
    assert len(made.clusters) == 1


def test_brokers_that_do_not_answer_any_more_have_elected_nobody() -> None:
    made = Made()

    def measure(clusters: Sequence[RootedCluster]) -> str:
        cast(Brokers, clusters[0][0]).epochs = dict.fromkeys(Brokers.names, 0)
        raise BenchError("p1 closed the connection without a reason")

    with pytest.raises(BenchError, match="closed the connection without a reason"):
        under_one_root([cast(MakeCluster, made)], 3, 0, measure)
    assert len(made.clusters) == 1


def test_roots_that_never_stay_are_told_with_their_epochs() -> None:
    made = Made()
    with pytest.raises(BenchError, match=r"in each of 3 clusters the root changed .* from epoch 1 to 2: this machine"):
        _measured(made, TRIES, elects=True)
    assert len(made.clusters) == TRIES


def test_of_two_clusters_both_are_made_anew_when_one_of_them_changed_its_root() -> None:
    ours, theirs = Made(), Made()

    def measure(clusters: Sequence[RootedCluster]) -> list[object]:
        if len(theirs.clusters) == 1:
            theirs.clusters[0].epochs["p1"] = 2
            raise BenchError("p1 delivered nothing for 5 s")
        return [brokers for brokers, _ in clusters]

    found = under_one_root([cast(MakeCluster, ours), cast(MakeCluster, theirs)], 3, 0, measure)
    assert found == [ours.clusters[1], theirs.clusters[1]]
