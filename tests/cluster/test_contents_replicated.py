"""What replicated queues hold is the same on all primaries, whatever becomes of it, and whoever is root."""

from __future__ import annotations

from typing import Any

import pytest

from openclust.broker.model.changes import DeclareQueue
from openclust.broker.queues.queue import Queue
from openclust.cluster.protocol.bounds import Bounds
from openclust.cluster.protocol.messages import Append, Enlist, Snapshot
from openclust.cluster.protocol.status import Position
from openclust.wire.methods import ConfirmSelect, ConfirmSelectOk, QueueDelete, QueueDeleteOk, QueuePurge, QueuePurgeOk
from tests.cluster.log.test_replica import said
from tests.cluster.shared_queues.test_handover import drain
from tests.support.cluster.joined import Application, Joined

PRIMARIES = ("p1", "p2", "p3")


@pytest.fixture
def cluster() -> Joined:
    return Joined(*PRIMARIES)


def queue_at(cluster: Joined, broker: str, name: str = "q") -> Queue:
    return cluster.broker(broker).vhosts["/"].queues[name]


def held(cluster: Joined, broker: str, name: str = "q") -> list[tuple[int, bytes]]:
    """All that a broker has of a queue, by its places; on the root, what is delivered too."""
    queue = queue_at(cluster, broker, name)
    entries = [*queue.backlog, *queue.recorded_unacked.values()]
    return sorted((entry.seq, entry.message.body) for entry in entries)


def same(cluster: Joined, name: str = "q", brokers: tuple[str, ...] = PRIMARIES) -> list[bytes]:
    """What is in a queue, in the order of its places; the same on all of them."""
    found = [held(cluster, broker, name) for broker in brokers if broker in cluster.members]
    assert all(each == found[0] for each in found), found
    return [body for _, body in found[0]]


def fill(cluster: Joined, *bodies: bytes, at: str = "p1", queue: str = "q", **arguments: Any) -> Application:
    client = cluster.client(at)
    client.queue(queue, durable=True, **arguments)
    for body in bodies:
        client.publish(queue, body)
    return client


def numbers(first: int, last: int) -> list[bytes]:
    return [b"%03d" % number for number in range(first, last + 1)]


def cut_off(cluster: Joined, name: str) -> None:
    for other in PRIMARIES:
        if other != name:
            cluster.cut(name, other)


def mend(cluster: Joined, name: str) -> None:
    for other in PRIMARIES:
        if other != name:
            cluster.mend(name, other)
    cluster.await_root()
    cluster.tick(300)


# -- what happens to a queue


@pytest.mark.parametrize("at", ["p1", "p2"])
def test_what_is_published_is_on_all_primaries(cluster: Joined, at: str) -> None:
    fill(cluster, b"1", b"2", at=at)
    assert same(cluster) == [b"1", b"2"]


def test_a_secondary_holds_no_messages() -> None:
    cluster = Joined(*PRIMARIES, secondaries=("s1",))
    fill(cluster, b"1")
    assert held(cluster, "s1") == []
    assert cluster["s1"].replica.position.epoch == 1


def test_what_is_acknowledged_has_left_them_all(cluster: Joined) -> None:
    fill(cluster, b"1", b"2", b"3")
    consumer = cluster.client("p2")
    consumer.consume("q")
    tags = [each.tag for each in consumer.deliveries()]
    assert same(cluster) == [b"1", b"2", b"3"], "a delivery alone changes nothing"
    consumer.ack(tags[1])
    assert same(cluster) == [b"1", b"3"]
    consumer.nack(tags[2], requeue=False)
    assert same(cluster) == [b"1"]


def test_what_comes_back_is_in_its_old_place_and_counted(cluster: Joined) -> None:
    client = fill(cluster, b"1", b"2")
    got = client.get("q", no_ack=False)
    assert got is not None
    client.nack(got.tag)
    assert same(cluster) == [b"1", b"2"]
    assert [each.deliveries for each in queue_at(cluster, "p3").backlog] == [1, 0]


def test_what_is_purged_is_gone_everywhere(cluster: Joined) -> None:
    client = fill(cluster, b"1", b"2")
    client.call(QueuePurge(queue="q"), QueuePurgeOk)
    assert same(cluster) == []


def test_what_expires_on_the_root_leaves_the_others_with_it_and_not_before(cluster: Joined) -> None:
    fill(cluster, b"1", x_message_ttl=80)
    cluster.hold("p1", "p2")
    for name in PRIMARIES:
        cluster.broker(name).tick(cluster.now_ms + 90)
    cluster.now_ms += 90
    cluster.settle()
    assert held(cluster, "p2") == [(1, b"1")]
    cluster.let_go("p1", "p2")
    assert same(cluster) == []


def test_a_dead_letter_is_where_it_came_to_and_not_where_it_was(cluster: Joined) -> None:
    client = fill(cluster, b"1", x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    client.queue("dead", durable=True)
    got = client.get("q", no_ack=False)
    assert got is not None
    client.nack(got.tag, requeue=False)
    assert (same(cluster), same(cluster, "dead")) == ([], [b"1"])


def test_a_ring_keeps_the_same_messages_everywhere(cluster: Joined) -> None:
    fill(cluster, *numbers(1, 9), x_max_length=3)
    assert same(cluster) == numbers(7, 9)


def test_the_last_value_of_each_key_is_the_same_everywhere(cluster: Joined) -> None:
    client = fill(cluster, x_last_value_key="k")
    for body, key in ((b"1", "a"), (b"2", "b"), (b"3", "a"), (b"4", "c"), (b"5", "b")):
        client.publish("q", body, headers={"k": key})
    assert same(cluster) == [b"3", b"4", b"5"]


def test_a_deleted_queue_leaves_nothing_behind(cluster: Joined) -> None:
    client = fill(cluster, b"1", b"2")
    client.call(QueueDelete(queue="q"), QueueDeleteOk)
    assert [cluster.broker(name).memory_accounts.held_bytes for name in PRIMARIES] == [0, 0, 0]
    fill(cluster, b"3")
    assert same(cluster) == [b"3"]


def test_messages_of_queues_that_are_not_replicated_are_on_the_root_alone(cluster: Joined) -> None:
    client = fill(cluster, x_replicate="configuration")
    client.publish("q", b"1")
    assert [held(cluster, name) for name in PRIMARIES] == [[(1, b"1")], [], []]


# -- another root


def test_the_next_root_delivers_all_in_order(cluster: Joined) -> None:
    fill(cluster, *numbers(1, 50))
    cluster.kill("p1")
    cluster.await_root()
    assert drain(cluster.client(cluster.root)) == [(body, False) for body in numbers(1, 50)]


def test_what_may_have_been_delivered_comes_again_and_says_so(cluster: Joined) -> None:
    fill(cluster, *numbers(1, 5))
    consumer = cluster.client("p1")
    consumer.get("q", no_ack=False)
    consumer.get("q", no_ack=False)
    cluster.kill("p1")
    cluster.await_root()
    got = drain(cluster.client("p3"))
    assert [body for body, _ in got] == numbers(1, 5) and got[0][1] and got[1][1]


def test_not_all_that_waits_is_taken_for_delivered(cluster: Joined) -> None:
    client = fill(cluster, *numbers(1, 200))
    client.get("q", no_ack=False)
    cluster.kill("p1")
    cluster.await_root()
    assert [body for body, again in drain(cluster.client("p3")) if not again] == numbers(102, 200)


def test_priorities_outlive_a_root(cluster: Joined) -> None:
    client = fill(cluster, x_max_priority=5)
    for number in range(6):
        client.publish("q", b"%d" % number, priority=number % 3)
    cluster.kill("p1")
    cluster.await_root()
    assert [body for body, _ in drain(cluster.client("p2"))] == [b"2", b"5", b"1", b"4", b"0", b"3"]


def test_a_dedup_window_outlives_a_root(cluster: Joined) -> None:
    client = fill(cluster, x_message_deduplication=True)
    client.publish("q", b"1", message_id="a")
    client.publish("q", b"2", message_id="b")
    assert client.get("q") is not None
    cluster.kill("p1")
    cluster.await_root()
    client = cluster.client(cluster.root)
    client.publish("q", b"3", message_id="a")
    client.publish("q", b"4", message_id="b")
    client.publish("q", b"5", message_id="c")
    assert [body for body, _ in drain(client)] == [b"2", b"5"]


def test_a_root_that_steps_down_keeps_what_the_log_has_and_sends_nothing(cluster: Joined) -> None:
    fill(cluster, *numbers(1, 5))
    cluster.step_down("p1")
    assert cluster["p1"].handover.waiting == 0
    assert cluster.await_root() != "p1"
    assert same(cluster) == numbers(1, 5)
    assert drain(cluster.client("p1")) == [(body, False) for body in numbers(1, 5)]
    assert same(cluster) == []


def test_what_a_root_could_not_tell_any_more_goes_to_the_next(cluster: Joined) -> None:
    fill(cluster, *numbers(1, 3))
    # A batch is under way for ever: the rest waits in the next.
    cluster.hold("p1", "p2")
    cluster.hold("p1", "p3")
    client = cluster.client("p1")
    for body in numbers(4, 9):
        client.publish("q", body)
    cut_off(cluster, "p1")
    cluster.tick(2_000)
    assert cluster.root in ("p2", "p3")
    assert held(cluster, "p1") == held(cluster, "p1")[:4] and cluster["p1"].handover.waiting == 5
    cluster.held.clear()
    mend(cluster, "p1")
    assert cluster["p1"].handover.waiting == 0
    assert sorted(same(cluster)) == numbers(1, 9)


def test_while_there_is_no_root_nothing_expires(cluster: Joined) -> None:
    fill(cluster, b"1", x_message_ttl=200)
    cluster.kill("p2")
    cluster.kill("p3")
    cluster.tick(2_000)
    assert cluster.root == "" and held(cluster, "p1") == [(1, b"1")]


# -- logs that differ


def diverge(cluster: Joined, *bodies: bytes) -> None:
    """p1 is root, and has entries that nobody else has; then it is root no more."""
    cluster.hold("p1", "p2")
    cluster.hold("p1", "p3")
    client = cluster.client("p1")
    for body in bodies:
        client.publish("q", body)
    cut_off(cluster, "p1")
    cluster.tick(2_000)
    cluster.held.clear()
    assert cluster.root in ("p2", "p3")


def test_a_tail_that_the_next_root_does_not_have_is_undone_without_a_snapshot(cluster: Joined) -> None:
    fill(cluster, *numbers(1, 3))
    diverge(cluster, b"x", b"y")
    client = cluster.client(cluster.root)
    for body in numbers(4, 6):
        client.publish("q", body)
    sent = cluster.tap(cluster.root)
    mend(cluster, "p1")
    assert set(said(sent, "p1", Append, Snapshot)) == {"Append"}
    assert same(cluster)[:6] == numbers(1, 6)
    assert sorted(same(cluster)[6:]) == [b"x", b"y"], "nobody else had them"


def test_what_was_acknowledged_in_a_tail_that_is_undone_is_there_again(cluster: Joined) -> None:
    client = fill(cluster, *numbers(1, 3))
    cluster.hold("p1", "p2")
    cluster.hold("p1", "p3")
    assert client.get("q") is not None
    cut_off(cluster, "p1")
    cluster.tick(2_000)
    cluster.held.clear()
    mend(cluster, "p1")
    assert same(cluster) == numbers(1, 3)


def test_what_came_and_went_and_no_other_primary_knows_of_is_no_repetition(cluster: Joined) -> None:
    fill(cluster, x_message_deduplication=True)
    cluster.hold("p1", "p2")
    cluster.hold("p1", "p3")
    client = cluster.client("p1")
    client.consume("q", no_ack=True)
    # The first is in a batch that is under way for ever, the second waits in the next.
    client.publish("q", b"1", message_id="a")
    client.publish("q", b"2", message_id="b")
    assert client.bodies() == [b"1", b"2"]
    cut_off(cluster, "p1")
    cluster.tick(2_000)
    window = queue_at(cluster, "p1").dedup
    assert window is not None and window.keys() == ["a"], "that may be in the log of the next root"
    cluster.held.clear()
    mend(cluster, "p1")
    assert window.keys() == []


def test_a_repetition_is_confirmed_when_others_have_the_first_of_it_though_that_is_of_a_former_reign(
    cluster: Joined,
) -> None:
    fill(cluster, x_message_deduplication=True)
    client = cluster.client("p1")
    client.call(ConfirmSelect(), ConfirmSelectOk)
    for other in ("p2", "p3"):
        cluster.drop(Append, Snapshot, to=other)
    client.publish("q", b"1", message_id="a", delivery_mode=2)
    assert same(cluster, brokers=("p1",)) == [b"1"] and same(cluster, brokers=("p2", "p3")) == []
    for other in ("p2", "p3"):
        cluster.kill(other)
    cluster.tick(1_000)
    for other in ("p2", "p3"):
        cluster.start(other)
    assert cluster.await_root() == "p1"
    client.confirms.clear()
    client.publish("q", b"1", message_id="a", delivery_mode=2)
    cluster.tick()
    assert not client.confirms, "no other broker has it"
    for other in ("p2", "p3"):
        cluster.drop(to=other)
        cluster.redial(other, "p1")
    cluster.tick(300)
    assert client.confirms and same(cluster) == [b"1"]


def test_a_tail_with_a_definition_is_replaced_by_a_snapshot(cluster: Joined) -> None:
    fill(cluster, *numbers(1, 3))
    cluster.hold("p1", "p2")
    cluster.hold("p1", "p3")
    cluster["p1"].role.define(DeclareQueue(vhost="/", name="new", durable=True), lambda _: None)
    client = cluster.client("p1")
    client.publish("q", b"x")
    cut_off(cluster, "p1")
    cluster.tick(2_000)
    cluster.held.clear()
    sent = cluster.tap(cluster.root)
    mend(cluster, "p1")
    assert "Snapshot" in said(sent, "p1", Snapshot)
    assert same(cluster)[:3] == numbers(1, 3)
    assert same(cluster)[3:] in ([b"x"], [])


def test_a_former_root_feeds_nobody(cluster: Joined) -> None:
    fill(cluster, b"1")
    old = cluster["p1"].replica.position
    cluster.step_down("p1")
    cluster.await_root()
    before = held(cluster, "p3")
    cluster["p3"].replica.append("p1", Append(epoch=1, after=old, entries=[]))
    cluster["p3"].replica.snapshot("p1", Snapshot(epoch=1, work=b"", position=old))
    assert held(cluster, "p3") == before and cluster["p3"].replica.position > old


# -- snapshots


def test_a_broker_that_begins_with_nothing_gets_what_queues_hold(cluster: Joined) -> None:
    fill(cluster, *numbers(1, 20))
    client = cluster.client("p1")
    assert client.get("q") is not None and client.get("q", no_ack=False) is not None
    cluster.kill("p3")
    cluster.tick(1_000)
    cluster.start("p3")
    cluster.tick(500)
    assert same(cluster) == numbers(2, 20)
    assert queue_at(cluster, "p3").next_seq == 20 and queue_at(cluster, "p3").reached == 2


def test_a_dedup_window_is_in_a_snapshot(cluster: Joined) -> None:
    client = fill(cluster, x_message_deduplication=True)
    client.publish("q", b"1", message_id="a")
    assert client.get("q") is not None
    cluster.kill("p3")
    cluster.start("p3")
    cluster.tick(500)
    window = queue_at(cluster, "p3").dedup
    assert window is not None and window.keys() == ["a"]


def test_a_snapshot_in_the_middle_of_traffic_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openclust.cluster.snapshot.contents.PART_BYTES", 1_000)
    cluster = Joined(*PRIMARIES, bounds=Bounds(slice_max=5))
    for name in ("a", "b", "c"):
        fill(cluster, *numbers(1, 60), queue=name, x_max_length=80)
    client, consumer = cluster.client("p1"), cluster.client("p2")
    consumer.consume("b")
    cluster.kill("p3")
    cluster.make("p3", is_primary=True)
    cluster.begin("p3")
    settle, cluster.settle = cluster.settle, lambda: None  # type: ignore[method-assign]
    tags = [each.tag for each in consumer.deliveries()]
    for number in range(200):
        for member in list(cluster.members.values()):
            cluster.turn(member)
        client.publish("abc"[number % 3], b"new %d" % number)
        if number % 3 == 0 and tags:
            consumer.ack(tags.pop(0))
        if number == 100:
            cluster["p1"].broker.vhosts["/"].queues["c"].purge()
    cluster.settle = settle  # type: ignore[method-assign]
    cluster.settle()
    cluster.tick(500)
    for name in ("a", "b", "c"):
        same(cluster, name)
    assert len(same(cluster, "b")) > 60


def test_the_first_part_of_a_snapshot_changes_nothing(cluster: Joined) -> None:
    fill(cluster, *numbers(1, 5))
    follower, epoch = cluster["p3"].replica, cluster["p3"].epoch
    follower.snapshot("p1", Snapshot(epoch=epoch, part=0, is_last=False))
    follower.snapshot("p1", Snapshot(epoch=epoch, work=b"\x92\x90\x90", part=1, is_last=False))
    assert same(cluster) == numbers(1, 5)
    fill(cluster, b"006")
    assert same(cluster) == numbers(1, 6)


def test_a_root_to_be_gets_contents_from_a_voter_whose_log_begins_later() -> None:
    cluster = Joined(*PRIMARIES, bounds=Bounds(log_entries_max=5))
    fill(cluster, b"0")
    cut_off(cluster, "p2")
    client = cluster.client("p1")
    for body in numbers(1, 20):
        client.publish("q", body)
    # p3 alone knows, and p2, which comes back, is the next root.
    cluster.kill("p1")
    cluster.cuts.clear()
    cluster.mend("p2", "p3")
    cluster.start("p1")
    cluster.await_root()
    cluster.tick(500)
    assert sorted(same(cluster)) == sorted([b"0", *numbers(1, 20)])


# -- what it costs


def test_secondaries_are_told_of_messages_once_a_heartbeat_and_of_definitions_at_once() -> None:
    cluster = Joined(*PRIMARIES, secondaries=("s1",))
    client = fill(cluster)
    cluster.tick(500)
    sent = cluster.tap("p1")
    for body in numbers(1, 20):
        client.publish("q", body)
    assert len(said(sent, "s1", Append)) <= 1 and len(said(sent, "p2", Append)) >= 10
    client.queue("another")
    assert "another" in cluster.broker("s1").vhosts["/"].queues
    sent_by_s1 = cluster.tap("s1")
    for body in numbers(21, 60):
        client.publish("q", body)
        cluster.tick(50)
    cluster.tick(500)
    assert cluster["s1"].replica.position == cluster["p1"].replica.position
    assert said(sent_by_s1, "p1", Enlist) == [], "nothing was lost"


def test_publishers_wait_while_too_much_is_not_committed(cluster: Joined, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openclust.broker.model.memory_accounts.UNCOMMITTED_BYTES_MAX", 150_000)
    client = fill(cluster)
    cluster.hold("p2", "p1")
    cluster.hold("p3", "p1")
    for number in range(16):
        client.publish("q", bytes([number]) * 100_000)
    accounts = cluster.broker("p1").memory_accounts
    assert accounts.alarm and accounts.alarm_cause == "log" and len(queue_at(cluster, "p1")) < 16
    cluster.let_go("p2", "p1")
    cluster.let_go("p3", "p1")
    cluster.settle()
    assert not accounts.alarm and accounts.uncommitted_bytes == 0
    assert len(same(cluster)) == 16


def test_what_is_not_committed_is_forgotten_with_the_reign(cluster: Joined) -> None:
    fill(cluster)
    diverge(cluster, b"x", b"y")
    assert cluster.broker("p1").memory_accounts.uncommitted_bytes == 0


def test_a_snapshot_comes_to_its_end_though_what_is_under_way_waits_for_it(cluster: Joined) -> None:
    client = fill(cluster, b"0")
    for follower in ("p2", "p3"):
        cluster.hold(follower, "p1")
    # As many batches as may be under way, and one that is open.
    for number in range(1, 5):
        client.publish("q", b"%d" % number)
    assert not cluster.broker("p1").journal.is_empty
    sent = cluster.tap("p1")
    cluster["p1"].role.enlisted("p2", Enlist(position=Position()))
    cluster.settle()
    assert any(to == "p2" and isinstance(each, Snapshot) and each.is_last for to, each in sent)
