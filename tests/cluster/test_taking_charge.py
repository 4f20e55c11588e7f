"""A new root takes charge of queues that were used through another: it gives their users time to come back."""

from __future__ import annotations

from tests.cluster.joined import Joined


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
