"""A private queue and a shared one of the same name: neither harms the other, and the shared one comes in the end."""

from __future__ import annotations

import pytest

from openclust.broker.changes import (
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    DeleteVhost,
    PutPermission,
    PutVhost,
)
from openclust.cluster.messages import Get, Inspect, Purge
from openclust.wire.methods import QueueDeclare, QueueDelete, QueueDeleteOk, QueueUnbind, QueueUnbindOk
from tests.cluster.joined import Application, Joined
from tests.cluster.test_asking import ask
from tests.cluster.test_interest import define
from tests.support.client import EVERYTHING
from tests.support.shared_state import digest, shared_state


@pytest.fixture
def cluster() -> Joined:
    return Joined("p1", "p2", "p3")


def private(cluster: Joined, at: str, name: str = "both") -> Application:
    """Somebody with a private queue, and a message in it."""
    client = cluster.client(at)
    client.queue(name, exclusive=True)
    client.publish(name, b"mine")
    return client


def are_equal(cluster: Joined) -> bool:
    return len({digest(shared_state(cluster.broker(name))) for name in cluster.members}) == 1


def keys(cluster: Joined, at: str, exchange: str) -> list[str]:
    return sorted(each.routing_key for each in cluster.broker(at).vhosts["/"].exchanges[exchange].bindings.values())


def test_a_shared_queue_comes_when_the_private_one_goes(cluster: Joined) -> None:
    owner, other = private(cluster, "p2"), cluster.client("p3")
    other.queue("both")
    other.bind("both", "amq.topic", "kept")
    other.bind("both", "amq.topic", "dropped")
    other.call(QueueUnbind(queue="both", exchange="amq.topic", routing_key="dropped"), QueueUnbindOk)
    assert cluster["p2"].replica.diverged == 0
    assert keys(cluster, "p2", "amq.topic") == [], "what was bound is not the private one"
    assert owner.count("both") == 1
    owner.lose()
    assert keys(cluster, "p2", "amq.topic") == ["kept"] and are_equal(cluster)
    late = cluster.client("p2")
    late.publish("kept", b"x", exchange="amq.topic")
    assert late.count("both") == 1


def test_deleting_a_shared_queue_leaves_a_private_one_alone(cluster: Joined) -> None:
    owner, other = private(cluster, "p2"), cluster.client("p3")
    other.queue("both")
    other.call(QueueDelete(queue="both"), QueueDeleteOk)
    assert owner.count("both") == 1
    owner.lose()
    assert "both" not in cluster.broker("p2").vhosts["/"].queues and are_equal(cluster)


def test_nobody_elsewhere_can_delete_or_declare_over_a_private_queue_of_the_root(cluster: Joined) -> None:
    owner, other = private(cluster, "p1"), cluster.client("p3")
    before = cluster["p1"].replica.position
    assert other.error(QueueDelete(queue="both")).code == 405
    assert other.error(QueueDeclare(queue="both")).code == 405
    assert owner.count("both") == 1 and cluster["p1"].replica.position == before


def test_a_new_root_shows_nobody_its_private_queue_instead_of_a_shared_one(cluster: Joined) -> None:
    owner = private(cluster, "p2")
    cluster.client("p3").queue("both")
    cluster.step_down("p1")
    assert cluster.await_root() == "p2"
    for question in (Get(b"/", b"both", 0, True), Purge(b"/", b"both"), Inspect(b"/", b"both")):
        (refused,) = ask(cluster, "p3", question)
        assert refused.code == 405
    assert owner.count("both") == 1
    owner.lose()
    assert cluster.client("p3").count("both") == 0 and are_equal(cluster)


def test_a_snapshot_of_a_root_that_hides_a_queue_has_it(cluster: Joined) -> None:
    owner = private(cluster, "p2")
    other = cluster.client("p3")
    other.queue("both")
    other.bind("both", "amq.topic", "a")
    cluster.step_down("p1")
    assert cluster.await_root() == "p2"
    cluster.start("s1")
    cluster.await_root()
    assert keys(cluster, "s1", "amq.topic") == keys(cluster, "p3", "amq.topic") == ["a"]
    assert owner.count("both") == 1


def test_who_gets_a_snapshot_hides_what_is_in_it(cluster: Joined) -> None:
    cluster.client("p1").queue("both")
    cluster.cut("p1", "p3")
    define(cluster, DeleteQueue(vhost="/", name="both"))
    cluster.mend("p1", "p3")
    cluster.await_root()
    owner = private(cluster, "p3")
    define(cluster, DeclareQueue(vhost="/", name="both"))
    cluster["p3"].replica.log.restart(type(cluster["p3"].replica.position)())
    cluster["p3"].replica.enlist()
    cluster.settle()
    assert owner.count("both") == 1
    owner.lose()
    assert are_equal(cluster) and "both" in cluster.broker("p3").vhosts["/"].queues


def test_what_is_hidden_goes_with_its_virtual_host(cluster: Joined) -> None:
    define(cluster, PutVhost(vhost="team"), PutPermission(vhost="team", user="guest", permission=EVERYTHING))
    owner = cluster.client("p2", vhost="team")
    owner.queue("both", exclusive=True)
    define(cluster, DeclareQueue(vhost="team", name="both"))
    count = cluster.broker("p2").queue_count
    define(cluster, DeleteVhost(vhost="team"))
    assert cluster.broker("p2").queue_count == count - 1
    assert not cluster["p2"].replica.hidden.changes() and are_equal(cluster)


def test_a_hidden_binding_goes_with_its_exchange(cluster: Joined) -> None:
    define(cluster, DeclareExchange(vhost="/", name="news", type="fanout"))
    owner, other = private(cluster, "p2"), cluster.client("p3")
    other.queue("both")
    other.bind("both", "news")
    other.bind("both", "amq.topic", "kept")
    define(cluster, DeleteExchange(vhost="/", name="news"), DeclareExchange(vhost="/", name="news", type="topic"))
    owner.lose()
    assert keys(cluster, "p2", "news") == [] and keys(cluster, "p2", "amq.topic") == ["kept"]
    assert are_equal(cluster)
