"""A disk that is slow, full, or fails: what a broker of one does, and who is root then."""

from __future__ import annotations

from openclust.cluster.election.events import StepDown
from openclust.shell.cluster.cluster_snapshot import store_snapshot
from openclust.wire.methods import (
    BasicAck,
    BasicNack,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionBlocked,
    ConnectionUnblocked,
    QueueDeclare,
    QueueDeclareOk,
)
from tests.support.cluster.joined import HEARTBEAT_MS, Joined
from tests.support.cluster.one_broker import UNWRITTEN_MAX, WAIT_MS, Disk, One

FULL = "No space left on device"
STALLED = "nothing was written for 2000 ms"
STALL_MS = 2_000


# -- a broker of one


def test_what_ails_the_disk_is_told_once_and_that_it_is_over() -> None:
    one = One()
    one.publish()
    one.disk.failed(FULL)
    one.tick(1_000)
    assert one.membership.disk_health.illness == FULL
    one.tick(HEARTBEAT_MS, writes=True)
    one.tick(1_000)
    assert one.membership.disk_health.illness == ""
    assert one.disk.notes == [f"the disk is ill: {FULL}", "the disk is well again"]


def test_a_disk_to_which_nothing_comes_for_too_long_is_ill() -> None:
    one = One()
    one.publish()
    one.tick(STALL_MS - HEARTBEAT_MS)
    assert one.membership.disk_health.illness == ""
    one.tick(HEARTBEAT_MS)
    assert one.membership.disk_health.illness == STALLED


def test_a_disk_that_has_nothing_to_do_is_well() -> None:
    one = One()
    one.tick(3 * STALL_MS)
    assert one.disk.notes == []


def test_a_disk_that_is_slow_and_gets_on_is_well() -> None:
    one = One()
    for _ in range(5):
        one.publish()
        one.tick(STALL_MS - HEARTBEAT_MS)
        one.disk.write()
    assert one.disk.notes == []


def test_a_process_that_stood_still_does_not_blame_the_disk() -> None:
    one = One()
    one.publish()
    one.disk.look()
    one.broker.now_ms += 60_000
    one.disk.look()
    assert one.disk.notes == []


def test_publishers_wait_when_too_much_waits_for_the_disk_and_are_told_why() -> None:
    one = One()
    one.disk.failed(FULL)
    one.publish(bytes(UNWRITTEN_MAX))
    assert one.broker.memory_accounts.alarm and one.client.blocked == [ConnectionBlocked(reason=f"disk: {FULL}")]
    one.publish(b"held back")
    assert one.client.connection.hold == "memory"
    assert f"publishers wait: disk: {FULL}" in one.disk.notes


def test_publishers_go_on_when_half_of_it_is_written() -> None:
    one = One()
    one.publish(bytes(UNWRITTEN_MAX))
    assert one.client.blocked == [ConnectionBlocked(reason="disk: slower than what is published")]
    disk = one.membership.disk_health
    disk.waits(UNWRITTEN_MAX // 2 + 1)
    one.rest()
    assert one.broker.memory_accounts.alarm
    disk.waits(UNWRITTEN_MAX // 2)
    one.rest()
    assert one.client.blocked[1:] == [ConnectionUnblocked()]
    assert one.disk.notes[-1] == "the disk has caught up: publishers go on"


def test_what_waits_for_the_disk_while_its_root_resigns_waits_on() -> None:
    one = One()
    one.publish(b"under way")
    under_way = one.membership.store_writes.given
    one.publish(b"in the open batch")
    for _ in range(2):
        one.membership.tell(StepDown(one.broker.now_ms, "told to"))
        one.rest()
    assert one.membership.is_root
    one.disk.node.stored(under_way, one.broker.now_ms)
    one.rest()
    assert one.confirms() == [(BasicAck, 1)]
    one.disk.write()
    one.rest()
    assert one.confirms() == [(BasicAck, 2)]
    assert len(one.restarted().broker.vhosts["/"].queues["q"]) == 2


def test_what_needs_no_disk_goes_on_while_it_is_ill() -> None:
    one = One()
    one.disk.failed(FULL)
    one.publish(b"transient", mode=1)
    assert one.confirms() == [(BasicAck, 1)]
    got = one.client.get("q")
    assert got is not None and got.body == b"transient"


def test_what_waits_for_a_disk_that_does_not_recover_is_refused_in_the_end() -> None:
    one = One()
    one.publish()
    one.publish()
    one.disk.failed(FULL)
    one.tick(WAIT_MS - HEARTBEAT_MS)
    assert one.confirms() == []
    one.tick(2 * HEARTBEAT_MS)
    assert one.confirms() == [(BasicNack, 2)]
    assert one.disk.notes[1:] == [
        f"nothing came to this broker's disk for {WAIT_MS} ms: what waits to be confirmed is refused; {FULL}"
    ]


def test_what_comes_after_the_refusal_waits_for_the_disk_again() -> None:
    one = One()
    one.publish()
    one.disk.failed(FULL)
    one.tick(WAIT_MS + 2 * HEARTBEAT_MS)
    assert one.confirms() == [(BasicNack, 1)]
    one.publish()
    one.tick(1_000)
    assert one.confirms() == []
    one.tick(HEARTBEAT_MS, writes=True)
    one.tick(HEARTBEAT_MS, writes=True)
    assert one.confirms() == [(BasicAck, 2)], "the disk is well again"


def test_a_disk_that_gets_on_slowly_refuses_nothing() -> None:
    one = One()
    for number in range(1, 4):
        one.publish()
        one.tick(WAIT_MS - 1_000)
        one.disk.write()
        one.tick(HEARTBEAT_MS, writes=True)
        assert one.confirms() == [(BasicAck, number)]


def test_a_declare_that_no_disk_takes_fails_in_the_end_and_is_made_all_the_same() -> None:
    one = One()
    one.disk.failed(FULL)
    one.client.send(QueueDeclare(queue="another", durable=True))
    one.tick(WAIT_MS)
    assert not one.client.replies.get(1)
    one.tick(2 * HEARTBEAT_MS)
    error = one.client.channel_error()
    assert error.code == 506 and error.text.startswith("RESOURCE_ERROR - made, but the disks of half of the primaries")
    assert "another" in one.broker.vhosts["/"].queues


# -- a cluster


def test_a_root_whose_disk_fails_makes_room_for_another_and_does_not_come_back_while_it_fails() -> None:
    joined = Joined("p1", "p2", "p3")
    disk = Disk(joined.broker("p1"), joined["p1"])
    disk.failed(FULL)
    joined.tick(500)
    assert joined.await_root() == "p2"
    assert joined["p2"].election.peers["p1"].status.illness == FULL
    joined.kill("p2")
    joined.tick(1_000)
    assert joined.await_root() == "p3", "p1 was passed over"


def test_a_root_that_others_cannot_replace_stays() -> None:
    joined = Joined("p1", "p2", "p3")
    joined.kill("p3")
    Disk(joined.broker("p1"), joined["p1"]).failed(FULL)
    joined.tick(1_000)
    assert joined.root == "p1"


def test_a_root_stays_where_all_disks_are_ill() -> None:
    joined = Joined("p1", "p2", "p3")
    for name in ("p3", "p2", "p1"):
        Disk(joined.broker(name), joined[name]).failed(FULL)
        joined.tick(300)
    assert joined.root == "p1"


def test_a_backup_whose_disk_is_full_lets_the_log_go_by_until_there_is_room() -> None:
    joined = Joined("p1", "p2", "p3", unwritten_bytes_max=UNWRITTEN_MAX)
    backup = joined["p3"]
    backup.disk_health.waits(UNWRITTEN_MAX + 1)
    before = backup.replica.position
    client = joined.client("p1")
    client.send(QueueDeclare(queue="q", durable=True))
    joined.tick(1_000)
    client.reply(1, QueueDeclareOk)
    assert backup.replica.position == before and joined["p2"].replica.position > before
    assert not joined.broker("p3").memory_accounts.alarm, "its clients publish to the root"
    backup.disk_health.waits(0)
    joined.tick(1_000)
    assert backup.replica.position == joined["p1"].replica.position
    assert "q" in joined.broker("p3").vhosts["/"].queues


# -- what is shown


def test_the_snapshot_says_how_far_the_log_is_on_disk_and_what_waits() -> None:
    one = One()
    before = store_snapshot(one.membership)
    assert before["on_disk"] == before["committed"] and before["uncommitted_entries"] == 0
    assert (before["has_disk"], before["is_well"], before["waiting_bytes"]) == (True, True, 0)
    one.client.send(QueueDeclare(queue="another", durable=True))
    one.rest()
    one.disk.failed(FULL)
    now = store_snapshot(one.membership)
    assert (now["on_disk"], now["committed"]) == (before["on_disk"], before["committed"])
    assert now["uncommitted_entries"] == 1 and now["uncommitted_bytes"] == now["waiting_bytes"] > 0
    assert (now["is_well"], now["illness"]) == (False, FULL)


def test_the_root_knows_how_far_its_followers_are_on_disk() -> None:
    joined = Joined("p1", "p2", "p3")
    slow = joined["p3"]
    joined.broker("p3").journal.has_disk = True
    client = joined.client("p1")
    client.queue("q", durable=True)
    assert joined["p1"].role.lag("p3") == 0
    assert joined["p1"].role.lag_on_disk("p3") == 1
    slow.batch_commit.stored(slow.store_writes.given)
    joined.settle()
    assert joined["p1"].role.lag_on_disk("p3") == 0


def test_what_a_root_could_not_replicate_is_not_confirmed_by_its_own_disk() -> None:
    joined = Joined("p1", "p2", "p3")
    joined.broker("p1").journal.has_disk = True
    client = joined.client("p1")
    client.queue("here", durable=True, x_replicate="configuration")
    client.queue("q", durable=True)
    client.call(ConfirmSelect(), ConfirmSelectOk)
    batch_commit, writes = joined["p1"].batch_commit, joined["p1"].store_writes
    batch_commit.stored(writes.given)
    for other in ("p2", "p3"):
        joined.hold("p1", other)
    client.publish("here", b"under way", delivery_mode=2)
    under_way = writes.given
    # These two make one batch. They are confirmed in this order, and the first is slow.
    client.publish("here", b"own", delivery_mode=2)
    client.publish("q", b"replicated", delivery_mode=2)
    batch_commit.stored(under_way)
    joined.settle()
    joined.step_down("p1")
    assert [type(each) for each in client.confirms] == [BasicAck]
    batch_commit.stored(writes.given)
    joined.settle()
    assert [type(each) for each in client.confirms[1:]] == [BasicAck, BasicNack]
