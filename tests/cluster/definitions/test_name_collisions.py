"""A private queue and a shared one of the same name: a primary's makes way, a secondary's hides the other."""

from __future__ import annotations

import pytest

from openclust.broker.model.changes import (
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    DeleteVhost,
    PutPermission,
    PutVhost,
)
from openclust.wire.methods import QueueDeclare, QueueDelete, QueueDeleteOk, QueueUnbind, QueueUnbindOk
from tests.cluster.relay.test_meta_bindings import define
from tests.support.client import EVERYTHING
from tests.support.cluster.joined import Application, Joined
from tests.support.shared_state import digest, shared_state


@pytest.fixture
def cluster() -> Joined:
    return Joined("p1", "p2", "p3", secondaries=("s1",))


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
    owner, other = private(cluster, "s1"), cluster.client("p3")
    other.queue("both")
    other.bind("both", "amq.topic", "kept")
    other.bind("both", "amq.topic", "dropped")
    other.call(QueueUnbind(queue="both", exchange="amq.topic", routing_key="dropped"), QueueUnbindOk)
    assert cluster["s1"].replica.diverged == 0
    assert keys(cluster, "s1", "amq.topic") == [], "what was bound is not the private one"
    assert owner.count("both") == 1
    owner.lose()
    assert keys(cluster, "s1", "amq.topic") == ["kept"] and are_equal(cluster)
    late = cluster.client("s1")
    late.publish("kept", b"x", exchange="amq.topic")
    assert late.count("both") == 1


def test_deleting_a_shared_queue_leaves_a_private_one_alone(cluster: Joined) -> None:
    owner, other = private(cluster, "s1"), cluster.client("p3")
    other.queue("both")
    other.call(QueueDelete(queue="both"), QueueDeleteOk)
    assert owner.count("both") == 1
    owner.lose()
    assert "both" not in cluster.broker("s1").vhosts["/"].queues and are_equal(cluster)


def test_nobody_elsewhere_can_delete_or_declare_over_a_private_queue_of_the_root(cluster: Joined) -> None:
    owner, other = private(cluster, "p1"), cluster.client("p3")
    before = cluster["p1"].replica.position
    assert other.error(QueueDelete(queue="both")).code == 405
    assert other.error(QueueDeclare(queue="both")).code == 405
    assert owner.count("both") == 1 and cluster["p1"].replica.position == before


def test_a_private_queue_of_a_primary_makes_way_for_a_shared_one(cluster: Joined) -> None:
    owner = private(cluster, "p2")
    other = cluster.client("p3")
    other.queue("both", durable=True)
    other.publish("both", b"shared", delivery_mode=2)
    assert owner.closed is not None and owner.closed.code == 320 and "both" in owner.closed.text
    assert [entry.message.body for entry in cluster.broker("p2").vhosts["/"].queues["both"].backlog] == [b"shared"]
    cluster.step_down("p1")
    cluster.await_root()
    assert cluster.client("p3").count("both") == 1 and are_equal(cluster)


def test_a_private_queue_of_a_primary_stays_when_a_shared_one_goes_that_was_there_before(cluster: Joined) -> None:
    cluster.client("p3").queue("both")
    cluster.cut("p1", "p2")
    define(cluster, DeleteQueue(vhost="/", name="both"))
    cluster.mend("p1", "p2")
    cluster.await_root()
    owner = private(cluster, "p2")
    cluster["p2"].replica.definitions.hidden.follow(DeleteQueue(vhost="/", name="both"))
    assert owner.count("both") == 1


def test_who_gets_a_snapshot_hides_what_is_in_it(cluster: Joined) -> None:
    cluster.client("p1").queue("both")
    cluster.cut("p1", "s1")
    define(cluster, DeleteQueue(vhost="/", name="both"))
    cluster.mend("p1", "s1")
    cluster.await_root()
    owner = private(cluster, "s1")
    define(cluster, DeclareQueue(vhost="/", name="both"))
    cluster["s1"].replica.log.restart(type(cluster["s1"].replica.position)())
    cluster["s1"].role.met()
    cluster.settle()
    assert owner.count("both") == 1
    owner.lose()
    assert are_equal(cluster) and "both" in cluster.broker("s1").vhosts["/"].queues


def test_what_is_hidden_goes_with_its_virtual_host(cluster: Joined) -> None:
    define(cluster, PutVhost(vhost="team"), PutPermission(vhost="team", user="guest", permission=EVERYTHING))
    owner = cluster.client("s1", vhost="team")
    owner.queue("both", exclusive=True)
    define(cluster, DeclareQueue(vhost="team", name="both"))
    count = cluster.broker("s1").queue_count
    define(cluster, DeleteVhost(vhost="team"))
    assert cluster.broker("s1").queue_count == count - 1
    assert not cluster["s1"].replica.definitions.hidden.changes() and are_equal(cluster)


def test_a_hidden_binding_goes_with_its_exchange(cluster: Joined) -> None:
    define(cluster, DeclareExchange(vhost="/", name="news", type="fanout"))
    owner, other = private(cluster, "s1"), cluster.client("p3")
    other.queue("both")
    other.bind("both", "news")
    other.bind("both", "amq.topic", "kept")
    define(cluster, DeleteExchange(vhost="/", name="news"), DeclareExchange(vhost="/", name="news", type="topic"))
    owner.lose()
    assert keys(cluster, "s1", "news") == [] and keys(cluster, "s1", "amq.topic") == ["kept"]
    assert are_equal(cluster)
