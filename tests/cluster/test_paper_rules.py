"""The rules of OpenAMQ's paper on clustering, each as a test; docs/clustering.md has the table of them.

Its rules of election, failover and recovery are played in tests/scenarios/.
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import msgspec
import pytest

from openclust.broker.journal.batch import Batch, decode_batch
from openclust.broker.journal.store_rows import Keep
from openclust.cluster.protocol.bounds import Bounds
from openclust.cluster.protocol.hello import difference
from openclust.cluster.protocol.messages import RosterTold
from openclust.cluster.protocol.redirect import Redirect
from openclust.cluster.protocol.roster import Roster
from openclust.wire.methods import (
    BasicDeliver,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionRedirect,
    ConnectionTune,
    ConnectionTuneOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    QueueDeclare,
    QueueDeclareOk,
    TxCommit,
    TxCommitOk,
    TxSelect,
    TxSelectOk,
)
from tests.cluster.relay.test_meta_bindings import held, subscribe
from tests.cluster.relay.test_relay import copies, fresh_copies
from tests.support.client import Client
from tests.support.cluster.joined import Joined
from tests.support.shared_state import digest, shared_state

PRIMARIES = ("p1", "p2", "p3")
SECONDARIES = ("s1", "s2")
ALL = (*PRIMARIES, *SECONDARIES)
# One of each role: the root, a backup, a secondary.
ROLES = ("p1", "p2", "s1")

every_pair = pytest.mark.parametrize(("here", "there"), list(itertools.product(ROLES, ("p1", "p3", "s2"))))


@pytest.fixture
def cluster() -> Joined:
    return Joined(*PRIMARIES, secondaries=SECONDARIES)


def queues(cluster: Joined, name: str) -> set[str]:
    return set(cluster.broker(name).vhosts["/"].queues)


def depth(cluster: Joined, name: str, queue: str) -> int:
    return len(cluster.broker(name).vhosts["/"].queues[queue])


# -- organisation


def test_all_brokers_share_the_cluster_key(cluster: Joined) -> None:
    mine, theirs = cluster["p1"].hello, cluster["p2"].hello
    assert difference(mine, theirs) is None
    other = msgspec.structs.replace(theirs, cluster_key="x")
    assert difference(mine, other) == "cluster_key differs: p1 has 'k', p2 has 'x'"


def opened(cluster: Joined, at: str, vhost: str, *capabilities: str, **properties: Any) -> Client:
    """A client that has got as far as connection.open."""
    client = cluster.client(at, log_in=False, capabilities=capabilities, properties=properties)
    tune = client.start()
    assert isinstance(tune, ConnectionTune)
    client.send(ConnectionTuneOk(channel_max=0, frame_max=tune.frame_max, heartbeat=0), channel=0)
    client.send(ConnectionOpen(virtual_host=vhost), channel=0)
    return client


def test_applications_name_the_same_cluster_key_or_are_refused(cluster: Joined) -> None:
    cluster["p2"].placing.settings = Redirect(require_key=True)
    opened(cluster, "p2", "k").reply(0, ConnectionOpenOk)
    refused = opened(cluster, "p2", "production")
    assert refused.closed is not None and refused.closed.code == 402
    silent = opened(cluster, "p2", "/")
    assert silent.closed is not None and silent.closed.code == 402


def test_a_cluster_is_a_closed_set_of_brokers(cluster: Joined) -> None:
    """Two clusters of one key that have each had a root can not be joined by linking their brokers."""
    other = Joined("q1")
    assert cluster["p1"].hello.uuid and other["q1"].hello.uuid
    problem = difference(cluster["s1"].hello, other["q1"].hello)
    assert problem is not None and problem.startswith("uuid differs")


def test_a_primary_partition_of_one_is_a_whole_cluster() -> None:
    alone = Joined("p1")
    assert alone.root == "p1"
    client = alone.client("p1")
    client.queue("work")
    client.publish("work", b"x")
    assert client.count("work") == 1


def test_primaries_are_fully_interconnected_by_one_link_each_way(cluster: Joined) -> None:
    for name in PRIMARIES:
        others = set(ALL) - {name}
        assert set(cluster[name].links.outboxes) == set(cluster.members[name].wires) == others
        assert set(cluster[name].admission.connections) == others


def test_a_second_path_between_two_brokers_takes_the_place_of_the_first(cluster: Joined) -> None:
    first = cluster.members["p1"].wires["p2"].connection
    cluster.link("p2", "p1")
    assert cluster["p1"].admission.connections["p2"] is not first
    assert cluster.members["p1"].wires["p2"].connection is cluster["p1"].admission.connections["p2"]


def test_primaries_of_different_configuration_do_not_link(cluster: Joined) -> None:
    other = Joined("p1", "p2", "p4")
    problem = difference(cluster["p1"].hello, other["p2"].hello)
    assert (problem is not None and problem.startswith("uuid differs")) or "primaries differ" in str(problem)


def test_secondaries_come_and_go_without_a_change_of_configuration(cluster: Joined) -> None:
    client = cluster.client("p1")
    client.queue("before")
    cluster.start("s9")
    cluster.await_root()
    assert "before" in queues(cluster, "s9")
    late = cluster.client("s9")
    late.queue("from s9")
    cluster.kill("s9")
    assert cluster.root == "p1" and "from s9" in queues(cluster, "p3")
    cluster.start("s9")
    cluster.await_root()
    assert {"before", "from s9"} <= queues(cluster, "s9")


def test_a_secondary_is_linked_to_all_primaries_and_to_no_secondary(cluster: Joined) -> None:
    for name in SECONDARIES:
        assert set(cluster[name].links.outboxes) == set(cluster.members[name].wires) == set(PRIMARIES)
    problem = difference(cluster["s1"].hello, cluster["s2"].hello)
    assert problem is not None and "a secondary joins primaries" in problem


def test_secondaries_take_what_they_share_with_the_primaries_from_them(cluster: Joined) -> None:
    for name in SECONDARIES:
        assert cluster[name].primaries == PRIMARIES
        assert cluster[name].heartbeat_ms == cluster["p1"].heartbeat_ms


def test_the_root_is_one_of_the_primaries(cluster: Joined) -> None:
    roots = []
    for _ in PRIMARIES:
        roots.append(cluster.root)
        cluster.step_down(cluster.root)
        cluster.await_root()
    assert sorted(roots) == sorted(PRIMARIES)
    assert not any(cluster[name].is_root for name in SECONDARIES)


def test_all_brokers_follow_one_root(cluster: Joined) -> None:
    assert {cluster[name].root for name in ALL} == {"p1"}
    cluster.kill("p1")
    root = cluster.await_root()
    assert {cluster[name].root for name in cluster.members} == {root} != {"p1"}


# -- management


@pytest.fixture
def addressed(cluster: Joined) -> Joined:
    """Each broker `x` tells that clients reach it at `x:5672`."""
    for name in ALL:
        presences = cluster[name].presences
        presences.own = msgspec.structs.replace(presences.own, client=f"{name}:5672")
    cluster.tick(2_000)
    return cluster


def connect(cluster: Joined, at: str, **properties: Any) -> str:
    """The broker that serves a client which comes to this one and follows redirects."""
    reply = opened(cluster, at, "/", "connection.redirect", **properties).reply(0)
    if isinstance(reply, ConnectionOpenOk):
        return at
    assert isinstance(reply, ConnectionRedirect)
    target: str = reply.host.removesuffix(":5672")
    opened(cluster, target, "/", "connection.redirect", openclust_redirected=True).reply(0, ConnectionOpenOk)
    return target


def test_an_application_that_comes_to_a_primary_may_be_sent_to_another_broker(addressed: Joined) -> None:
    assert connect(addressed, "p1") == "p1"
    assert connect(addressed, "p1") == "p2", "that has none yet"


def test_applications_are_distributed_fairly_over_primaries_and_secondaries(addressed: Joined) -> None:
    served = Counter(connect(addressed, "p1") for _ in range(4 * len(ALL)))
    assert served == dict.fromkeys(ALL, 4)


@pytest.mark.parametrize("at", ROLES)
def test_an_application_may_ask_for_the_root(addressed: Joined, at: str) -> None:
    assert connect(addressed, at, connect_to="root") == "p1"


def test_who_understands_no_redirects_is_served_where_it_comes(addressed: Joined) -> None:
    for _ in range(10):
        opened(addressed, "p1", "/").reply(0, ConnectionOpenOk)


def test_only_the_root_tells_everybody_where_applications_may_go(cluster: Joined) -> None:
    cluster.tick(1_000)
    assert {each.name for each in cluster["s1"].roster.brokers} == set(ALL)
    cluster["p3"].presences.told("p2", RosterTold(roster=Roster()))
    assert cluster["p3"].roster.root == "p1"


# -- connections between brokers


def test_brokers_speak_amqp_to_each_other_as_users_of_type_cluster(cluster: Joined) -> None:
    for name in ALL:
        for other, wire in cluster.members[name].wires.items():
            user = wire.connection.user
            assert (user.name, user.type) == (f"peer:{other}", "cluster")
    application = cluster.client("p1").connection.user
    assert (application.name, application.type) == ("guest", "normal")


def test_every_broker_is_client_and_server_of_every_broker_it_knows(cluster: Joined) -> None:
    for name in ALL:
        assert set(cluster.members[name].wires) == set(cluster[name].links.outboxes)


# -- state


def test_what_an_application_changes_at_one_broker_is_replicated_to_all(cluster: Joined) -> None:
    for number, name in enumerate(ALL):
        client = cluster.client(name)
        client.call(ExchangeDeclare(exchange=f"exchange-{number}", type="topic"), ExchangeDeclareOk)
        client.queue(f"queue-{number}")
        client.bind(f"queue-{number}", f"exchange-{number}", "a.#")
        assert {digest(shared_state(cluster.broker(each))) for each in ALL} == {
            digest(shared_state(cluster.broker(name)))
        }


def test_a_broker_that_joins_gets_the_state_from_the_root(cluster: Joined) -> None:
    cluster.client("s1").queue("work")
    cluster.start("s9")
    cluster.await_root()
    assert digest(shared_state(cluster.broker("s9"))) == digest(shared_state(cluster.broker("p1")))
    assert cluster["s9"].replica.position == cluster["p1"].replica.position


def test_a_backup_that_becomes_root_has_the_full_state_already(cluster: Joined) -> None:
    client = cluster.client("s1")
    for number in range(20):
        client.queue(f"queue-{number}")
    before = digest(shared_state(cluster.broker("p1")))
    cluster.kill("p1")
    root = cluster.await_root()
    assert digest(shared_state(cluster.broker(root))) == before
    client.queue("one more")
    assert all("one more" in queues(cluster, name) for name in cluster.members)


def test_the_state_has_a_maximum_size() -> None:
    cluster = Joined(*PRIMARIES, bounds=Bounds(state_bytes_max=500))
    client = cluster.client("p2")
    closed = None
    for number in range(100):
        client.send(QueueDeclare(queue=f"queue-{number}"))
        if not isinstance(client.replies[1][0], QueueDeclareOk):
            closed = client.channel_error()
            break
        client.reply()
    assert closed is not None and closed.code == 506


# -- exchanges


@pytest.mark.parametrize("at", ROLES)
def test_an_exchange_that_is_created_at_one_broker_is_on_all(cluster: Joined, at: str) -> None:
    cluster.client(at).call(ExchangeDeclare(exchange="news", type="topic"), ExchangeDeclareOk)
    for name in ALL:
        assert cluster.broker(name).vhosts["/"].exchanges["news"].type == "topic"


def test_of_exchanges_declared_differently_at_once_one_wins_everywhere(cluster: Joined) -> None:
    one, other = cluster.client("s1"), cluster.client("s2")
    cluster.hold("s1", "p1")
    one.send(ExchangeDeclare(exchange="news", type="topic"))
    other.send(ExchangeDeclare(exchange="news", type="fanout"))
    cluster.let_go("s1", "p1")
    assert isinstance(other.reply(), ExchangeDeclareOk)
    assert one.channel_error().code == 406
    assert {cluster.broker(name).vhosts["/"].exchanges["news"].type for name in ALL} == {"fanout"}


# -- queues


@pytest.mark.parametrize("at", ROLES)
def test_a_private_queue_is_on_its_consumers_broker_alone(cluster: Joined, at: str) -> None:
    client = cluster.client(at)
    before = cluster["p1"].replica.position
    name = client.queue("mine", exclusive=True)
    assert [each for each in ALL if name in queues(cluster, each)] == [at]
    assert cluster["p1"].replica.position == before, "and is no part of the state"
    client.lose()
    assert name not in queues(cluster, at)


@pytest.mark.parametrize("at", ROLES)
def test_a_shared_queue_is_on_every_broker_and_active_on_the_root_alone(cluster: Joined, at: str) -> None:
    client = cluster.client(at)
    client.queue("work")
    for name in ALL:
        assert "work" in queues(cluster, name)
        cluster.client(name).publish("work", b"x")
    assert {name: depth(cluster, name, "work") for name in ALL if depth(cluster, name, "work")} == {"p1": len(ALL)}
    assert all(cluster.client(name).count("work") == len(ALL) for name in ALL), "a passive declare tells the truth"


def test_private_queues_of_one_name_may_be_on_several_brokers(cluster: Joined) -> None:
    """Each of them gets what is published to that name."""
    inboxes = [cluster.client(name) for name in ROLES]
    for client in inboxes:
        client.queue("mine", exclusive=True)
        client.consume("mine", no_ack=True)
    cluster.client("p3").publish("mine", b"x")
    assert [client.bodies() for client in inboxes] == [[b"x"]] * len(ROLES)


# -- bindings


@pytest.mark.parametrize("at", ROLES)
def test_a_binding_of_a_private_queue_makes_a_meta_binding_on_all_primaries(cluster: Joined, at: str) -> None:
    subscribe(cluster.client(at), "amq.topic", "stock.#")
    for name in PRIMARIES:
        if name != at:
            assert held(cluster, name, at) == [("amq.topic", "stock.#")]
            assert cluster.broker(name).vhosts["/"].exchanges["amq.topic"].remote_table is not None


@pytest.mark.parametrize("at", ROLES)
def test_a_binding_of_a_shared_queue_is_replicated_to_all_brokers(cluster: Joined, at: str) -> None:
    client = cluster.client(at)
    client.queue("work")
    client.bind("work", "amq.topic", "stock.#")
    for name in ALL:
        exchange = cluster.broker(name).vhosts["/"].exchanges["amq.topic"]
        assert [(each.target.name, each.routing_key) for each in exchange.bindings.values()] == [("work", "stock.#")]


# -- consumers


@pytest.mark.parametrize("at", ROLES)
def test_a_consumer_of_a_private_queue_works_as_at_a_single_broker(cluster: Joined, at: str) -> None:
    client = cluster.client(at)
    client.queue("mine", exclusive=True)
    for number in range(3):
        client.publish("mine", b"%d" % number)
    client.consume("mine")
    deliveries = client.deliveries()
    assert [(each.body, each.tag) for each in deliveries] == [(b"0", 1), (b"1", 2), (b"2", 3)]
    client.nack(2)
    assert [(each.body, each.redelivered) for each in client.deliveries()] == [(b"1", True)]


@every_pair
def test_a_consumer_of_a_shared_queue_may_be_at_any_broker(cluster: Joined, here: str, there: str) -> None:
    client = cluster.client(there)
    client.queue("work")
    client.consume("work")
    cluster.client(here).publish("work", b"x")
    (delivery,) = client.deliveries()
    assert delivery.body == b"x"
    client.ack(delivery.tag)
    assert client.count("work") == 0


@pytest.mark.parametrize("at", ["p2", "p3", "s1"])
def test_a_consumer_of_a_shared_queue_follows_the_root_wherever_it_moves(cluster: Joined, at: str) -> None:
    client = cluster.client(at)
    client.queue("work")
    client.consume("work", no_ack=True)
    for number in range(3):
        cluster.step_down(cluster.root)
        cluster.await_root()
        cluster.client("s2").publish("work", b"%d" % number)
    assert client.bodies() == [b"0", b"1", b"2"]


# -- a message's way to its queues


@every_pair
def test_a_message_goes_to_queues_here_and_to_the_same_exchange_elsewhere(
    cluster: Joined, here: str, there: str
) -> None:
    near, far = cluster.client(here), cluster.client(there)
    subscribe(near, "amq.topic", "a.*")
    subscribe(far, "amq.topic", "a.#")
    cluster.client(here).publish("a.b", b"x", exchange="amq.topic")
    assert near.bodies() == [b"x"] and far.bodies() == [b"x"]


@pytest.mark.parametrize("at", ["p2", "s1"])
def test_a_message_for_a_shared_queue_is_pushed_to_the_same_exchange_of_the_root(cluster: Joined, at: str) -> None:
    client = cluster.client(at)
    client.queue("work")
    client.bind("work", "amq.topic", "a.*")
    before = copies(cluster)
    client.publish("a.b", b"x", exchange="amq.topic")
    assert fresh_copies(cluster, before) == {"p1": 1}
    assert depth(cluster, "p1", "work") == 1 and depth(cluster, at, "work") == 0
    delivery = cluster.client("p1").get("work")
    assert delivery is not None and delivery.method.routing_key == "a.b"


def test_a_message_that_comes_to_a_shared_queue_on_the_root_is_held_and_given_to_consumers_in_turn(
    cluster: Joined,
) -> None:
    publisher = cluster.client("s2")
    publisher.queue("work")
    for number in range(2):
        publisher.publish("work", b"%d" % number)
    assert depth(cluster, "p1", "work") == 2
    one, other = cluster.client("p2"), cluster.client("s1")
    one.consume("work", no_ack=True)
    assert one.bodies() == [b"0", b"1"]
    other.consume("work", no_ack=True)
    for number in range(4):
        publisher.publish("work", b"%d" % number)
    assert sorted(one.bodies() + other.bodies()) == [b"0", b"1", b"2", b"3"]


@pytest.mark.parametrize("at", ALL)
def test_a_message_of_an_application_goes_to_all_exchanges_that_are_bound(cluster: Joined, at: str) -> None:
    inboxes = {name: cluster.client(name) for name in ALL}
    for client in inboxes.values():
        subscribe(client, "amq.fanout")
    inboxes[at].publish("", b"x", exchange="amq.fanout")
    assert {name: client.bodies() for name, client in inboxes.items()} == {name: [b"x"] for name in ALL}


def test_a_message_of_a_secondary_is_routed_by_the_root_to_the_other_secondaries(cluster: Joined) -> None:
    cluster.start("s3")
    cluster.await_root()
    for name in ("s1", "s2", "s3"):
        subscribe(cluster.client(name), "amq.fanout")
    sent = {name: dict(copies_from(cluster, name)) for name in PRIMARIES}
    cluster.client("s1").publish("", b"x", exchange="amq.fanout")
    after = {name: dict(copies_from(cluster, name)) for name in PRIMARIES}
    assert after["p2"] == sent["p2"] and after["p3"] == sent["p3"]
    assert {peer: after["p1"][peer] - sent["p1"][peer] for peer in after["p1"]} == {
        "p2": 0,
        "p3": 0,
        "s1": 0,
        "s2": 1,
        "s3": 1,
    }


def copies_from(cluster: Joined, name: str) -> dict[str, int]:
    return {peer: outbox.relayed for peer, outbox in sorted(cluster[name].links.outboxes.items())}


@pytest.mark.parametrize("at", ALL)
def test_no_message_comes_back_to_the_broker_that_it_came_from(cluster: Joined, at: str) -> None:
    for name in ALL:
        subscribe(cluster.client(name), "amq.fanout")
    publisher = cluster.client(at)
    publisher.queue("work")
    publisher.bind("work", "amq.fanout")
    before = copies(cluster)
    publisher.publish("", b"x", exchange="amq.fanout")
    assert at not in fresh_copies(cluster, before)


@pytest.mark.parametrize("at", ALL)
def test_no_broker_is_sent_a_message_twice_however_many_bindings_want_it(cluster: Joined, at: str) -> None:
    for name in ALL:
        client = cluster.client(name)
        for _ in range(2):
            subscribe(client, "amq.topic", "a.b", "a.*", "#")
    shared = cluster.client("p3")
    for name in ("one", "two"):
        shared.queue(name)
        shared.bind(name, "amq.topic", "a.#")
    before = copies(cluster)
    cluster.client(at).publish("a.b", b"x", exchange="amq.topic")
    assert set(fresh_copies(cluster, before).values()) == {1}


# -- a message's way to its consumers


def test_shared_queues_are_distributed_by_the_root_alone(cluster: Joined) -> None:
    client = cluster.client("s1")
    client.queue("work")
    for name in ALL:
        cluster.client(name).consume("work", no_ack=True)
    client.publish("work", b"x")
    for name in ALL:
        local = cluster.broker(name).vhosts["/"].queues["work"]
        assert bool(local.consumers.all) is (name == "p1")


def test_local_and_remote_consumers_share_a_queue(cluster: Joined) -> None:
    publisher = cluster.client("p3")
    publisher.queue("work")
    inboxes = [cluster.client(name) for name in ROLES]
    for client in inboxes:
        client.consume("work", no_ack=True)
    for number in range(6):
        publisher.publish("work", b"%d" % number)
    got = [client.bodies() for client in inboxes]
    assert sorted(itertools.chain(*got)) == [b"%d" % number for number in range(6)]
    assert all(len(each) == 2 for each in got)


def test_what_the_root_sends_goes_to_the_consumer_that_it_is_for(cluster: Joined) -> None:
    """Not to another consumer of the same queue at the same broker, and under the client's own tag."""
    one, other = cluster.client("s1"), cluster.client("s1")
    one.queue("work")
    one.consume("work", "first", no_ack=True)
    other.consume("work", "second", no_ack=True)
    for number in range(4):
        cluster.client("p2").publish("work", b"%d" % number)
    for client, tag in ((one, "first"), (other, "second")):
        deliveries = client.deliveries()
        assert len(deliveries) == 2
        assert {each.method.consumer_tag for each in deliveries if isinstance(each.method, BasicDeliver)} == {tag}


# -- transactions


@pytest.mark.parametrize("at", ROLES)
def test_a_transaction_is_confirmed_when_the_disks_of_root_and_backup_have_it(cluster: Joined, at: str) -> None:
    """The paper's steps A to F."""
    client = cluster.client(at)
    for name in ("jobs", "done"):
        client.queue(name, durable=True)
    client.publish("jobs", b"job", delivery_mode=2)
    for name in PRIMARIES:
        cluster.broker(name).journal.has_disk = True

    def written(name: str) -> list[Batch]:
        """What a broker has given its disk to write, of queues' contents."""
        keeps = [each for each in cluster.members[name].driver.writes if isinstance(each, Keep)]
        return [decode_batch(each.body) for each in keeps if each.kind == "work"]

    def disk_has_it(name: str) -> None:
        cluster[name].batch_commit.stored(cluster[name].store_writes.given)
        cluster.settle()

    # A: the client prepares a transaction, and commits.
    client.call(TxSelect(), TxSelectOk)
    client.get("jobs", no_ack=False)
    disk_has_it("p1")
    disk_has_it("p2")
    for name in PRIMARIES:
        cluster.members[name].driver.writes.clear()
    client.publish("done", b"first", delivery_mode=2)
    client.publish("done", b"second", delivery_mode=2)
    client.ack(1)
    assert not any(written(name) for name in PRIMARIES)
    client.send(TxCommit())
    # B, C and D: the root writes it, passes it on, and the backup writes it: all of it at once.
    for name in ("p1", "p2"):
        (work,) = written(name)
        assert [body for _, _, body in work.messages] == [b"first", b"second"]
        assert {each.name: each.left for each in work.queues} == {b"jobs": [1, 1], b"done": []}
        assert (depth(cluster, name, "jobs"), depth(cluster, name, "done")) == (0, 2)
    disk_has_it("p1")
    assert not client.replies.get(1)
    # E: the backup confirms that it has it safely. F: the root confirms it to the client.
    disk_has_it("p2")
    client.reply(1, TxCommitOk)
    # The root fails, and its client turns to the backup.
    cluster.kill("p1")
    assert cluster.await_root() == "p2"
    assert (depth(cluster, "p2", "jobs"), depth(cluster, "p2", "done")) == (0, 2)
