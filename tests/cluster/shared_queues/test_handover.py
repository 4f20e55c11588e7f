"""What a former root still holds: the next root gets it, and nobody gets it twice."""

from __future__ import annotations

import msgspec
import pytest

from openclust.broker.backlog.backlog import Entry
from openclust.broker.model.message import Message, delivery_suffix
from openclust.broker.queues.queue import Queue
from openclust.cluster.protocol.messages import Append, Lane
from openclust.cluster.protocol.outbox import HANDOVER_LANE
from openclust.cluster.relay.lanes import Reach, frames
from openclust.cluster.relay.relay_lane import end_lanes
from openclust.wire.methods import QueueDelete, QueueDeleteOk
from openclust.wire.properties import Properties, encode_header
from tests.support.cluster.joined import Application, Joined


@pytest.fixture
def cluster() -> Joined:
    return Joined("p1", "p2", "p3")


def queue_at(cluster: Joined, broker: str, name: str = "q") -> Queue:
    return cluster.broker(broker).vhosts["/"].queues[name]


def fill(cluster: Joined, *bodies: bytes, queue: str = "q") -> None:
    client = cluster.client("p1")
    client.queue(queue)
    for body in bodies:
        client.publish(queue, body)


def drain(client: Application, queue: str = "q") -> list[tuple[bytes, bool]]:
    """All messages of a queue, each with whether it is redelivered."""
    found = []
    while (got := client.get(queue)) is not None:
        found.append((got.body, got.redelivered))
    return found


def test_a_root_that_steps_down_gives_its_messages_to_the_next(cluster: Joined) -> None:
    fill(cluster, b"1", b"2", b"3")
    cluster.step_down("p1")
    root = cluster.await_root()
    assert root != "p1" and len(queue_at(cluster, "p1")) == 0
    assert drain(cluster.client("p3")) == [(b"1", False), (b"2", False), (b"3", False)]


def test_what_a_consumer_held_comes_again_and_says_so(cluster: Joined) -> None:
    fill(cluster, b"1", b"2")
    holder = cluster.client("p3")
    holder.get("q", no_ack=False)
    cluster.step_down("p1")
    cluster.await_root()
    assert sorted(drain(cluster.client("p2"))) == [(b"1", True), (b"2", False)]


def test_every_queue_gets_its_own(cluster: Joined) -> None:
    for name in ("a", "b", "c"):
        fill(cluster, name.encode(), queue=name)
    cluster.step_down("p1")
    cluster.await_root()
    client = cluster.client("p1")
    assert [drain(client, name) for name in ("a", "b", "c")] == [[(name, False)] for name in (b"a", b"b", b"c")]


def test_a_root_that_was_cut_off_gives_what_it_held_when_it_is_back(cluster: Joined) -> None:
    fill(cluster, b"1")
    cluster.cut("p1", "p2")
    cluster.cut("p1", "p3")
    cluster.tick(2_000)
    assert cluster.root in ("p2", "p3")
    assert drain(cluster.client(cluster.root)) == []
    cluster.mend("p1", "p2")
    cluster.mend("p1", "p3")
    cluster.await_root()
    cluster.tick(200)
    assert drain(cluster.client("p3")) == [(b"1", False)]


def test_what_a_root_had_not_said_it_has_when_it_died_goes_to_the_next(
    cluster: Joined, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(cluster, b"1", b"2")
    monkeypatch.setattr(cluster["p1"].handover, "settled", lambda message: None)
    cluster.step_down("p1")
    new = cluster.await_root()
    assert new != "p1" and len(queue_at(cluster, new)) == 2
    monkeypatch.undo()
    cluster.kill(new)
    cluster.await_root()
    cluster.tick(200)
    assert sorted(body for body, _ in drain(cluster.client(cluster.root))) == [b"1", b"2"]


def test_consumers_at_the_next_root_get_what_is_handed_over(cluster: Joined) -> None:
    fill(cluster, b"1", b"2")
    consumer = cluster.client("p3")
    cluster.step_down("p1")
    cluster.await_root()
    consumer.consume("q")
    assert consumer.bodies() == [b"1", b"2"]


def test_messages_of_a_queue_that_is_deleted_meanwhile_are_gone(cluster: Joined) -> None:
    fill(cluster, b"1")
    accounts = cluster.broker("p1").memory_accounts
    cluster.cut("p1", "p2")
    cluster.cut("p1", "p3")
    cluster.tick(2_000)
    cluster.client(cluster.root).call(QueueDelete(queue="q"), QueueDeleteOk)
    cluster.mend("p1", "p2")
    cluster.mend("p1", "p3")
    cluster.await_root()
    assert "q" not in cluster.broker("p1").vhosts["/"].queues
    assert accounts.held_bytes == 0


def test_more_than_goes_at_once_arrives_in_order(cluster: Joined) -> None:
    bodies = [b"%04d" % number + bytes(60_000) for number in range(60)]
    fill(cluster, *bodies)
    cluster.step_down("p1")
    cluster.await_root()
    assert [body for body, _ in drain(cluster.client("p1"))] == bodies


def cut_off_with(cluster: Joined, *bodies: bytes) -> str:
    """p1 takes in values that no log has, and is cut off; who is root then."""
    client = cluster.client("p1")
    cluster.hold("p1", "p2")
    cluster.hold("p1", "p3")
    for body in bodies:
        client.publish("q", body, headers={"key": 1})
    cluster.cut("p1", "p2")
    cluster.cut("p1", "p3")
    cluster.tick(2_000)
    assert cluster.root in ("p2", "p3")
    return cluster.root


def join_again(cluster: Joined) -> None:
    cluster.mend("p1", "p2")
    cluster.mend("p1", "p3")
    cluster.await_root()
    cluster.tick(200)


def test_what_its_log_loses_goes_before_what_came_later_and_was_in_no_log(cluster: Joined) -> None:
    """The first message makes a batch, which is under way; the others wait for that, and are in none."""
    cluster.client("p1").queue("q", durable=True)
    cut_off_with(cluster, b"1", b"2", b"3")
    assert cluster["p1"].replica.log.last.epoch == 1 and len(queue_at(cluster, "p1")) == 1
    join_again(cluster)
    assert [body for body, _ in drain(cluster.client("p3"))] == [b"1", b"2", b"3"]


def test_who_is_root_no_more_takes_nothing_and_says_so_of_nothing(cluster: Joined) -> None:
    fill(cluster)
    outbox = cluster["p2"].links.outbox("p1")
    message = Message("", "q", encode_header(Properties(), 1), b"x", delivery_suffix("", "q"))
    flags = int(Reach.SHARED | Reach.CONFIRM)
    outbox.open_lane(Lane(number=HANDOVER_LANE, vhost=b"/", flags=flags, queue=b"q", run=1, epoch=1))
    cluster.settle()
    for is_over in (False, True):
        if is_over:
            end_lanes(cluster["p1"].admission.connections.values())
        cluster.hold("p1", "p2")
        outbox.relay(frames(HANDOVER_LANE, outbox.frame_max, message))
        cluster.settle()
        assert len(queue_at(cluster, "p1")) == 1
        assert bool(cluster.held.pop(("p1", "p2"))) is not is_over, "as root it says what it has"


def test_what_is_never_in_a_log_does_not_wait_for_it(cluster: Joined) -> None:
    client = cluster.client("p1")
    client.queue("q", durable=True)
    client.queue("none")
    client.publish("none", b"1")
    cut_off_with(cluster, b"1", b"2", b"3")
    cluster.drop(Append, to="p1")
    join_again(cluster)
    assert drain(cluster.client("p3"), "none") == [(b"1", False)]
    assert cluster["p1"].handover.waiting == 2 and drain(cluster.client("p3")) == []
    cluster.drop(to="p1")
    cluster.redial("p1", cluster.root)
    assert [body for body, _ in drain(cluster.client("p3"))] == [b"1", b"2", b"3"]


def test_what_a_former_root_held_does_not_replace_a_newer_last_value(cluster: Joined) -> None:
    cluster.client("p1").queue("q", durable=True, x_last_value_key="key")
    root = cut_off_with(cluster, b"old")
    cluster.client(root).publish("q", b"new", headers={"key": 1})
    join_again(cluster)
    assert cluster["p1"].handover.waiting == 0
    assert drain(cluster.client("p3")) == [(b"new", False)]


def test_nor_when_the_former_root_is_root_again(cluster: Joined) -> None:
    cluster.client("p1").queue("q", durable=True, x_last_value_key="key")
    root = cut_off_with(cluster, b"old")
    cluster.client(root).publish("q", b"new", headers={"key": 1})
    queue, handover = queue_at(cluster, root), cluster[root].handover
    [old] = queue_at(cluster, "p1").backlog
    handover.keep([(queue, Entry(old.message, old.seq))])
    handover.take_in()
    assert handover.waiting == 0
    assert drain(cluster.client(root)) == [(b"new", False)]


def test_of_the_last_values_that_a_former_root_held_the_newest_replaces_what_was_there_before(cluster: Joined) -> None:
    client = cluster.client("p1")
    client.queue("q", durable=True, x_last_value_key="key")
    client.publish("q", b"in the log", headers={"key": 1})
    cut_off_with(cluster, b"1", b"2")
    join_again(cluster)
    assert drain(cluster.client("p3")) == [(b"2", False)]


def test_of_values_that_wait_for_a_root_only_the_newest_goes(cluster: Joined) -> None:
    cluster.client("p1").queue("q", durable=True, x_last_value_key="key")
    root = cut_off_with(cluster, b"old")
    queue, handover = queue_at(cluster, root), cluster[root].handover
    [old] = queue_at(cluster, "p1").backlog
    newer = msgspec.structs.replace(old.message, body=b"now")
    # The open batch of a root that steps down comes first, and those that no log has when it is part of another's.
    handover.keep([(queue, Entry(newer, 9))])
    handover.keep([(queue, Entry(old.message, 5))])
    assert handover.waiting == 1
    handover.take_in()
    assert drain(cluster.client(root)) == [(b"now", False)]
