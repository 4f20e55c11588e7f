"""What is shown of the messages in a queue, and of its consumers and copies."""

from __future__ import annotations

from typing import Any

import pytest

from openclust.broker.journal.journal import Journal
from openclust.broker.server.broker import Broker
from openclust.manage.gather.selection import Row
from openclust.manage.history.history import History
from openclust.manage.history.shown import ShownHistory
from openclust.manage.rows.connection_rows import octets_of
from openclust.manage.rows.queue_contents import LOOKED_AT_MAX, QUEUE_BYTES, contents_of
from openclust.manage.rows.queue_rows import QueueRows, queue_row
from openclust.wire.methods import BasicQos, BasicQosOk, QueueDeclare, QueueDeclareOk
from tests.cluster.test_checkpoints import Life, publish
from tests.simulator.store import ModelStore
from tests.support.client import Client, new_broker
from tests.support.cluster.joined import Joined


@pytest.fixture
def client() -> Client:
    return Client(new_broker(journal=Journal("alone", has_disk=True)))


def contents(client: Client, name: str = "q") -> Row:
    return contents_of(client.broker, client.broker.vhosts["/"].queues[name])


def row(broker: Broker, name: str = "q") -> Row:
    return queue_row(broker, broker.vhosts["/"].queues[name])


def filled(client: Client, **declared: Any) -> None:
    """A queue with three messages of ten bytes each, of which one is persistent."""
    client.call(QueueDeclare(queue="q", **declared), QueueDeclareOk)
    for delivery_mode in (1, 2, 1):
        client.publish("q", b"x" * 10, delivery_mode=delivery_mode)


@pytest.mark.parametrize(("durable", "persistent"), [(True, 1), (False, 0)])
def test_persistent_messages_are_counted_where_any_are_kept(client: Client, durable: bool, persistent: int) -> None:
    filled(client, durable=durable)
    shown = contents(client)
    assert (shown["messages"], shown["message_bytes"]) == (3, 30)
    assert (shown["messages_persistent"], shown["message_bytes_persistent"]) == (persistent, 10 * persistent)
    assert (shown["messages_ram"], shown["message_bytes_ram"]) == (3, 30)
    assert shown["memory"] > QUEUE_BYTES + 30


@pytest.mark.parametrize("durable", [True, False])
def test_deliveries_have_their_bytes_until_they_are_acknowledged(client: Client, durable: bool) -> None:
    filled(client, durable=durable)
    client.consume("q")
    shown = contents(client)
    assert (shown["messages_ready"], shown["messages_unacknowledged"]) == (0, 3)
    assert (shown["message_bytes_ready"], shown["message_bytes_unacknowledged"]) == (0, 30)
    assert shown["messages_persistent"] == (1 if durable else 0)
    client.ack(3, multiple=True)
    assert contents(client)["message_bytes"] == 0


def test_what_was_got_one_by_one_has_its_bytes_too(client: Client) -> None:
    filled(client, durable=False)
    client.get("q", no_ack=False)
    assert contents(client)["message_bytes_unacknowledged"] == 10


def test_many_messages_are_reckoned_from_the_first_ones(client: Client) -> None:
    client.call(QueueDeclare(queue="q", durable=True), QueueDeclareOk)
    count = LOOKED_AT_MAX + 500
    for _ in range(count):
        client.publish("q", b"x" * 10, delivery_mode=2)
    shown = contents(client)
    assert (shown["messages_persistent"], shown["message_bytes_persistent"]) == (count, 10 * count)


def test_the_timestamp_of_the_next_message_is_shown(client: Client) -> None:
    client.call(QueueDeclare(queue="q"), QueueDeclareOk)
    assert contents(client)["head_message_timestamp"] is None
    client.publish("q", b"1", timestamp=1_700_000_000)
    client.publish("q", b"2")
    assert contents(client)["head_message_timestamp"] == 1_700_000_000
    client.get("q")
    assert contents(client)["head_message_timestamp"] is None


def test_messages_that_are_on_disk_only_are_not_in_memory() -> None:
    life = Life(ModelStore())
    queue = life.declare("q")
    for number in range(300):
        publish(queue, number)
        life.turn()
    shown = contents_of(life.broker, queue)
    away = shown["messages_paged_out"]
    assert 0 < away < 300
    assert shown["messages_ram"] == 300 - away
    assert shown["message_bytes_ram"] + shown["message_bytes_paged_out"] == shown["message_bytes"]
    assert 0 < shown["message_bytes_paged_out"] < shown["message_bytes"]


# -- consumers


def test_a_queue_has_capacity_while_a_message_would_be_delivered_at_once(client: Client) -> None:
    client.call(QueueDeclare(queue="q"), QueueDeclareOk)
    assert row(client.broker)["consumer_capacity"] == 0
    client.call(BasicQos(prefetch_count=1), BasicQosOk)
    client.consume("q")
    assert row(client.broker)["consumer_capacity"] == 1
    for _ in range(2):
        client.publish("q", b"x")
    shown = row(client.broker)
    assert (shown["consumer_capacity"], shown["consumer_utilisation"]) == (0, 0)


def test_the_consumer_that_has_a_queue_alone_is_named(client: Client) -> None:
    client.call(QueueDeclare(queue="q"), QueueDeclareOk)
    client.consume("q", tag="only", exclusive=True)
    client.call(QueueDeclare(queue="one", arguments={"x-single-active-consumer": True}), QueueDeclareOk)
    client.consume("one", tag="first")
    client.consume("one", tag="second")
    shown = [row(client.broker, name) for name in ("q", "one")]
    assert [each["exclusive_consumer_tag"] for each in shown] == ["only", None]
    assert [each["single_active_consumer_tag"] for each in shown] == [None, "first"]


def test_the_connection_that_owns_an_exclusive_queue_is_named(client: Client) -> None:
    client.call(QueueDeclare(queue="q", exclusive=True), QueueDeclareOk)
    client.call(QueueDeclare(queue="shared"), QueueDeclareOk)
    peer = client.connection.peer
    owner = row(client.broker)["owner_pid_details"]
    assert (owner["peer_host"], owner["peer_port"]) == (peer.host, peer.port)
    assert "owner_pid_details" not in row(client.broker, "shared")


# -- in a cluster


@pytest.fixture(scope="module")
def cluster() -> Joined:
    """Three primaries and a secondary; the queues `kept`, which is replicated, `light`, and a private one at s1."""
    joined = Joined("p1", "p2", "p3", secondaries=("s1",))
    client = joined.client("s1")
    client.queue("kept", durable=True)
    client.queue("light")
    client.call(QueueDeclare(queue="mine", exclusive=True), QueueDeclareOk)
    return joined


def shown_at(cluster: Joined, broker: str, name: str) -> Row:
    shown = ShownHistory(History(cluster.broker(broker), lambda: 1_000, octets_of))
    rows = QueueRows(cluster.broker(broker), cluster[broker], shown)
    return rows.details(cluster.broker(broker).vhosts["/"].queues[name])


def test_a_replicated_queue_names_the_primaries_and_any_other_its_broker(cluster: Joined) -> None:
    kept = shown_at(cluster, "p1", "kept")
    assert (kept["node"], kept["leader"]) == ("p1", "p1")
    assert (kept["members"], kept["online"]) == (["p1", "p2", "p3"], ["p1", "p2", "p3"])
    assert shown_at(cluster, "p1", "light")["members"] == ["p1"]
    assert shown_at(cluster, "s1", "mine")["members"] == ["s1"]


def test_deliveries_to_other_brokers_have_their_bytes_at_the_root(cluster: Joined) -> None:
    for name in ("kept", "light"):
        client = cluster.client("s1")
        client.consume(name)
        client.publish(name, b"x" * 10)
        cluster.tick(100)
        shown = shown_at(cluster, "p1", name)
        assert (shown["messages_unacknowledged"], shown["message_bytes_unacknowledged"]) == (1, 10)


def test_without_a_root_a_shared_queue_is_down_and_has_a_node_all_the_same() -> None:
    joined = Joined("p1", "p2", "p3")
    joined.client("p2").queue("kept", durable=True)
    joined.tick(500)
    for name in ("p1", "p3"):
        joined.kill(name)
    joined.tick(5_000)
    shown = shown_at(joined, "p2", "kept")
    assert (shown["state"], shown["node"], shown["leader"], shown["online"]) == ("down", "p2", "p2", ["p2"])
    assert shown["members"] == ["p1", "p2", "p3"]
    assert "messages" not in shown
