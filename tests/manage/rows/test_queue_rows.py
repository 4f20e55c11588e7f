"""The level of reliability that a queue is shown with."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from openclust.broker.journal.journal import Journal
from openclust.broker.model.changes import DeclareQueue
from openclust.broker.server.change_performer import perform
from openclust.manage.brokers.overview_rows import object_totals
from openclust.manage.gather.questions import Viewer
from openclust.manage.rows.queue_rows import queue_row
from openclust.shell.cluster.cluster_snapshot import votes_snapshot
from openclust.wire.methods import QueueDeclare, QueueDeclareOk
from tests.cluster.test_checkpoints import Life, publish
from tests.simulator.store import ModelStore
from tests.support.client import new_broker
from tests.support.cluster.joined import Joined

TRANSIENT = {"transient": "fully transient", "persistent": "fully transient"}
PERSISTENT = {"transient": "fully transient", "persistent": "persistent"}
IN_MEMORIES = {"transient": "reliable transient", "persistent": "reliable transient"}
RELIABLE = {"transient": "reliable transient", "persistent": "reliable persistent"}


@pytest.mark.parametrize(
    ("journal", "durable", "replicate", "shown", "level"),
    [
        (Journal("shared", has_disk=True), True, None, "messages", RELIABLE),
        (Journal("shared", has_disk=True), False, "messages", "messages", RELIABLE),
        (Journal("shared", has_disk=True), True, "configuration", "configuration", PERSISTENT),
        (Journal("shared", has_disk=True), True, "none", "none", PERSISTENT),
        (Journal("shared", has_disk=True), False, None, "configuration", TRANSIENT),
        (Journal("shared"), True, None, "messages", IN_MEMORIES),
        (Journal("shared"), True, "none", "none", TRANSIENT),
        (Journal("alone", has_disk=True), True, None, "messages", PERSISTENT),
        (Journal("alone", has_disk=True), False, None, "configuration", TRANSIENT),
        (Journal("alone"), True, None, "messages", TRANSIENT),
    ],
)
def test_a_queue_is_shown_with_its_level(
    journal: Journal, durable: bool, replicate: str | None, shown: str, level: dict[str, str]
) -> None:
    broker = new_broker(journal=journal)
    arguments = {} if replicate is None else {"x-replicate": replicate}
    perform(broker, DeclareQueue(vhost="/", name="q", durable=durable, arguments=arguments))
    row = queue_row(broker, broker.vhosts["/"].queues["q"])
    assert (row["replicate"], row["level"]) == (shown, level)


COUNTS = {
    "consumers",
    "messages",
    "messages_ready",
    "messages_unacknowledged",
    "message_bytes_ready",
    "messages_paged_out",
}


@pytest.fixture
def cluster() -> Joined:
    """Three primaries with two messages in a queue, of which one has been delivered; p1 is root."""
    joined = Joined("p1", "p2", "p3")
    client = joined.client("p2")
    client.queue("work")
    client.publish("work", b"1")
    client.publish("work", b"2")
    client.get("work", no_ack=False)
    return joined


def work_at(cluster: Joined, name: str) -> dict[str, Any]:
    return queue_row(cluster.broker(name), cluster.broker(name).vhosts["/"].queues["work"])


def totals_at(cluster: Joined, name: str, *, is_own: bool = False) -> dict[str, Any]:
    viewer = Viewer(name="guest", sees_all=True)
    return asyncio.run(object_totals(cluster.broker(name), viewer, is_own=is_own))


def test_the_root_counts_a_shared_queue(cluster: Joined) -> None:
    row = work_at(cluster, "p1")
    assert row.keys() >= COUNTS
    assert (row["messages"], row["messages_ready"], row["messages_unacknowledged"]) == (2, 1, 1)
    totals = totals_at(cluster, "p1")
    assert totals["queue_totals"] == {"messages": 2, "messages_ready": 1, "messages_unacknowledged": 1}
    assert totals["object_totals"]["queues"] == 1


def test_a_broker_where_a_queue_is_not_active_names_its_home_and_gives_no_counts(cluster: Joined) -> None:
    row = work_at(cluster, "p2")
    assert row.keys() & COUNTS == set()
    assert (row["node"], row["state"]) == ("p1", "running")
    totals = totals_at(cluster, "p2")
    assert totals["queue_totals"] == {"messages": 0, "messages_ready": 0, "messages_unacknowledged": 0}
    assert totals["object_totals"]["queues"] == 0


def test_a_private_queue_is_counted_where_it_is(cluster: Joined) -> None:
    client = cluster.client("p3")
    client.call(QueueDeclare(queue="mine", exclusive=True), QueueDeclareOk)
    client.publish("mine", b"x")
    row = queue_row(cluster.broker("p3"), cluster.broker("p3").vhosts["/"].queues["mine"])
    assert (row["node"], row["messages_ready"]) == ("p3", 1)


def test_a_shared_queue_is_down_while_there_is_no_root(cluster: Joined) -> None:
    cluster.kill("p1")
    cluster.kill("p3")
    row = work_at(cluster, "p2")
    assert (row["node"], row["state"], row.keys() & COUNTS) == ("p2", "down", set())
    totals = totals_at(cluster, "p2", is_own=True)
    assert (totals["queues_without_root"], totals["object_totals"]["queues"]) == (1, 1)
    assert totals["queue_totals"]["messages"] == 0


def test_messages_that_are_on_disk_alone_are_counted() -> None:
    life = Life(ModelStore())
    queue = life.declare("q")
    for number in range(300):
        publish(queue, number)
        life.turn()
    row = queue_row(life.broker, queue)
    assert row["messages_ready"] == 300
    assert 0 < row["messages_paged_out"] < 300


def test_who_follows_a_root_without_having_voted_for_it_is_counted_apart() -> None:
    cluster = Joined("p1", "p2", "p3")
    first = cluster.await_root()
    late = next(name for name in cluster.members if name != first)
    cluster.kill(late)
    cluster.step_down(first)
    root = cluster.await_root()
    cluster.start(late)
    cluster.await_root()
    cluster.tick(1_000)
    assert votes_snapshot(cluster[root]) == {"given": 2, "following": 3, "electorate": 3, "defined": 3}
