"""A broker that is stopped takes leave of its peers, and they go on at once."""

from __future__ import annotations

from tests.support.cluster.joined import Joined


def leave(cluster: Joined, name: str) -> None:
    cluster[name].leave("asked by SIGTERM")
    cluster.settle()


def test_when_the_root_is_stopped_another_is_elected_without_waiting_for_a_heartbeat() -> None:
    cluster = Joined("p1", "p2", "p3")
    first = cluster.await_root()
    now_ms = cluster.now_ms
    leave(cluster, first)
    assert cluster.now_ms == now_ms
    assert {cluster[name].root for name in cluster.members if name != first} == {cluster.root} != {first}


def test_who_has_left_is_no_part_of_what_follows() -> None:
    cluster = Joined("p1", "p2", "p3")
    first = cluster.await_root()
    leave(cluster, first)
    for name in cluster.members:
        if name != first:
            assert not cluster[name].is_there(first), "nobody waits for three heartbeats"
    cluster.tick(1_000)
    for name in cluster.members:
        if name != first:
            assert not cluster[name].is_there(first), "and it says nothing more"
    cluster.kill(first)
    assert cluster.await_root() != first


def test_a_backup_that_is_stopped_costs_nobody_a_reign() -> None:
    cluster = Joined("p1", "p2", "p3")
    root = cluster.await_root()
    epoch = cluster[root].epoch
    leave(cluster, next(name for name in cluster.members if name != root))
    cluster.tick(1_000)
    assert (cluster.root, cluster[root].epoch) == (root, epoch)
