"""A new root takes charge of queues that were used through another: it gives their users time to come back."""

from __future__ import annotations

from tests.support.cluster.joined import Joined


def shared_queues(cluster: Joined, broker: str) -> list[str]:
    return sorted(cluster.broker(broker).vhosts["/"].queues)


def test_a_queue_that_expires_has_its_whole_time_at_a_new_root() -> None:
    cluster = Joined("p1", "p2", "p3")
    client = cluster.client("p3")
    client.queue("q", **{"x-expires": 3_000})
    client.consume("q")
    cluster.tick(5_000)
    cluster.step_down("p1")
    cluster.await_root()
    cluster.tick(2_000)
    assert all(shared_queues(cluster, name) == ["q"] for name in ("p1", "p2", "p3"))
    client.close()
    cluster.tick(3_500)
    assert all(shared_queues(cluster, name) == [] for name in ("p1", "p2", "p3"))


def test_a_queue_that_nobody_comes_back_to_expires_at_the_new_root() -> None:
    cluster = Joined("p1", "p2", "p3")
    client = cluster.client("p1")
    client.queue("q", **{"x-expires": 3_000})
    client.consume("q")
    cluster.tick(5_000)
    cluster.kill("p1")
    cluster.await_root()
    assert shared_queues(cluster, "p2") == ["q"]
    cluster.tick(4_000)
    assert shared_queues(cluster, "p2") == shared_queues(cluster, "p3") == []


def test_a_shared_queue_is_at_home_on_the_root_and_a_private_one_with_its_owner() -> None:
    cluster = Joined("p1", "p2", "p3")
    client = cluster.client("p3")
    client.queue("shared")
    client.queue("private", exclusive=True)
    queues = cluster.broker("p3").vhosts["/"].queues
    homes = cluster["p3"].home
    assert (homes(queues["shared"]), homes(queues["private"])) == ("p1", "p3")
    cluster.kill("p1")
    assert homes(queues["shared"]) in ("", "p2", "p3")
    assert homes(queues["shared"]) == cluster.root
