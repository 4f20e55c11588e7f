"""Limits of users and virtual hosts hold for a whole cluster, as well as its brokers know of each other."""

from __future__ import annotations

import pytest

from openclust.broker.model.access import TopicPermission
from openclust.broker.model.changes import (
    Change,
    PutGlobalParameter,
    PutParameter,
    PutTopicPermission,
    PutUserLimit,
    PutVhost,
    PutVhostLimit,
)
from openclust.broker.server.change_performer import perform
from openclust.wire.methods import ConnectionOpen, ConnectionTuneOk, QueueDeclare
from tests.cluster.relay.test_meta_bindings import define
from tests.support.client import new_broker
from tests.support.cluster.joined import Joined
from tests.support.shared_state import digest, reconcile, shared_state

CHANGES: tuple[Change, ...] = (
    PutVhost(vhost="/", metadata={"description": "orders", "tags": ["one"]}),
    PutTopicPermission(vhost="/", user="guest", exchange="amq.topic", permission=TopicPermission(write="^a")),
    PutUserLimit(user="guest", name="max-channels", value=5),
    PutVhostLimit(vhost="/", name="max-queues", value=2),
    PutVhostLimit(vhost="/", name="max-connections", value=3),
    PutParameter(vhost="/", component="vhost-limits", name="limits", value='{"max-connections":2,"max-queues":2}'),
    PutGlobalParameter(name="cluster_name", value='"orders"'),
)


@pytest.fixture
def cluster() -> Joined:
    return Joined("p1", "p2", "p3", secondaries=("s1",))


def refusal(cluster: Joined, at: str) -> str:
    client = cluster.client(at, log_in=False)
    client.start()
    client.send(ConnectionTuneOk(), channel=0)
    client.send(ConnectionOpen(), channel=0)
    return client.closed.text if client.closed is not None else ""


def test_every_broker_has_what_one_was_told(cluster: Joined) -> None:
    define(cluster, *CHANGES)
    wanted = digest(shared_state(cluster.broker("p1")))
    for name in cluster.members:
        broker = cluster.broker(name)
        assert digest(shared_state(broker)) == wanted
        assert broker.cluster_name == "orders"
        assert broker.parameters.limit("/", "max-connections") == 2
        assert broker.users["guest"].limits == {"max-channels": 5}
        assert not broker.users["guest"].may_use_topic("write", "/", "amq.topic", "b")
        assert broker.vhosts["/"].metadata["description"] == "orders"


def test_a_broker_that_gets_a_snapshot_has_all_of_it() -> None:
    one, other = new_broker(), new_broker()
    for change in CHANGES:
        perform(one, change)
    reconcile(other, shared_state(one))
    assert other.parameters.list() == one.parameters.list() != []
    assert other.parameters.global_values == one.parameters.global_values != {}
    assert other.parameters.limit("/", "max-queues") == 2
    assert other.cluster_name == "orders"
    assert other.vhosts["/"].metadata == one.vhosts["/"].metadata != {}
    assert other.users == one.users
    reconcile(one, shared_state(new_broker()))
    assert (one.parameters.list(), one.parameters.global_values, one.vhosts["/"].metadata) == ([], {}, {})
    assert one.parameters.limit("/", "max-queues") is None and one.cluster_name == "openclust"


def test_clients_of_other_brokers_count(cluster: Joined) -> None:
    define(cluster, PutVhostLimit(vhost="/", name="max-connections", value=2))
    clients = [cluster.client("p2"), cluster.client("s1")]
    for _ in range(30):
        cluster.tick()
    for name in cluster.members:
        assert "connection limit (2) is reached" in refusal(cluster, name)
    clients[0].lose()
    for _ in range(30):
        cluster.tick()
    cluster.client("s1")


def test_who_is_cut_off_refuses_nobody_for_clients_elsewhere(cluster: Joined) -> None:
    define(cluster, PutUserLimit(user="guest", name="max-connections", value=2))
    clients = [cluster.client("p1"), cluster.client("p1")]
    for _ in range(30):
        cluster.tick()
    assert "user connection limit (2) is reached" in refusal(cluster, "p3")
    for name in ("p1", "p2", "s1"):
        cluster.cut("p3", name)
    for _ in range(30):
        cluster.tick()
    assert cluster["p3"].root == ""
    assert cluster["p3"].used_elsewhere("user_connections", "guest") == 0
    assert len(clients) == cluster["p2"].used_elsewhere("user_connections", "guest")


def test_queues_are_counted_where_they_are_ordered(cluster: Joined) -> None:
    define(cluster, PutVhostLimit(vhost="/", name="max-queues", value=2))
    cluster.client("s1").queue("mine", exclusive=True)
    for _ in range(30):
        cluster.tick()
    client = cluster.client("p3")
    client.queue("one")
    closed = client.error(QueueDeclare(queue="two"))
    assert closed.code == 406
    assert "cannot declare queue 'two': queue limit in vhost '/' (2) is reached" in closed.text


def test_who_follows_takes_what_the_root_has_allowed(cluster: Joined) -> None:
    cluster.client("p3").queue("mine", exclusive=True)
    cluster.client("p3").queue("mine-too", exclusive=True)
    define(cluster, PutVhostLimit(vhost="/", name="max-queues", value=2))
    # The root has not heard of the private ones yet.
    cluster.client("p1").queue("shared")
    assert all("shared" in cluster.broker(name).vhosts["/"].queues for name in cluster.members)
