"""Transactions of shared queues, through any broker: whole or not at all, once, and sure to stay when they are told."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from openclust.broker.journal.batch import Batch, decode_batch
from openclust.cluster.protocol.bounds import Bounds
from openclust.cluster.protocol.messages import Snapshot
from openclust.cluster.protocol.status import Position
from openclust.cluster.transactions.commit_registry import CommitRegistry, DoneTransaction
from openclust.wire.methods import (
    BasicGet,
    BasicQos,
    BasicQosOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    QueueDelete,
    QueueDeleteOk,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxRollbackOk,
    TxSelect,
    TxSelectOk,
)
from tests.cluster.log.test_replica import said
from tests.cluster.relay.test_meta_bindings import subscribe
from tests.support.cluster.joined import Application, Joined

ROLES = ("p1", "p2", "s1")
every_role = pytest.mark.parametrize("at", ROLES)


@pytest.fixture
def cluster() -> Joined:
    joined = Joined("p1", "p2", "p3", secondaries=("s1",))
    client = joined.client("p1")
    for name in ("a", "b"):
        client.queue(name, durable=True)
    return joined


def transactional(cluster: Joined, at: str) -> Application:
    client = cluster.client(at)
    client.call(TxSelect(), TxSelectOk)
    return client


def waiting(cluster: Joined, at: str = "") -> dict[str, list[bytes]]:
    """What waits in the two queues, at the root or another broker."""
    queues = cluster.broker(at or cluster.root).vhosts["/"].queues
    return {name: [entry.message.body for entry in queues[name].backlog] for name in ("a", "b")}


def work(cluster: Joined, at: str) -> list[Batch]:
    """The log of a broker, as far as it tells of messages."""
    log = cluster[at].replica.log
    return [decode_batch(each.body) for each in log.tail(log.base) or [] if each.kind == "work" and each.body]


def fill(cluster: Joined, queue: str, *bodies: bytes) -> None:
    client = cluster.client(cluster.root)
    for body in bodies:
        client.publish(queue, body, delivery_mode=2)


def publish_both(client: Application, body: bytes = b"x", **properties: Any) -> None:
    client.publish("a", body, delivery_mode=2, **properties)
    client.publish("b", body, delivery_mode=2, **properties)


BOTH = {"a": [b"x"], "b": [b"x"]}
NEITHER: dict[str, list[bytes]] = {"a": [], "b": []}


# -- one entry


@every_role
def test_a_transaction_is_one_entry_of_the_log_at_every_primary(cluster: Joined, at: str) -> None:
    fill(cluster, "a", b"job")
    client = transactional(cluster, at)
    client.consume("a")
    assert client.bodies() == [b"job"]
    client.publish("b", b"done", delivery_mode=2)
    client.publish("b", b"and more")
    client.ack(1)
    before = {name: len(work(cluster, name)) for name in ("p1", "p2", "p3")}
    client.call(TxCommit(), TxCommitOk)
    for name in ("p1", "p2", "p3"):
        entries = work(cluster, name)[before[name] :]
        assert len(entries) == 1, name
        assert [body for _, _, body in entries[0].messages] == [b"done", b"and more"]
        assert {each.name: each.left for each in entries[0].queues} == {b"a": [1, 1], b"b": []}
        assert waiting(cluster, name) == {"a": [], "b": [b"done", b"and more"]}


@every_role
def test_nothing_happens_before_the_commit_or_after_a_rollback(cluster: Joined, at: str) -> None:
    fill(cluster, "a", b"job")
    client = transactional(cluster, at)
    client.consume("a")
    before = cluster["p1"].replica.position
    publish_both(client)
    client.ack(1)
    client.call(TxRollback(), TxRollbackOk)
    client.call(TxCommit(), TxCommitOk)
    assert waiting(cluster) == NEITHER and cluster["p1"].replica.position == before
    client.lose()
    assert waiting(cluster) == {"a": [b"job"], "b": []}


@every_role
def test_acks_requeues_and_rejects_are_done_together(cluster: Joined, at: str) -> None:
    cluster.client("p1").queue("work", durable=True, x_dead_letter_exchange="", x_dead_letter_routing_key="b")
    for body in (b"1", b"2", b"3", b"4"):
        cluster.client("p1").publish("work", body, delivery_mode=2)
    client = transactional(cluster, at)
    for _ in range(4):
        client.get("work", no_ack=False)
    client.ack(1)
    client.nack(2)
    client.nack(3, requeue=False)
    queue = cluster.broker("p1").vhosts["/"].queues["work"]
    entries = len(work(cluster, "p2"))
    assert (len(queue), queue.unacked) == (0, 4)
    client.call(TxCommit(), TxCommitOk)
    assert ([entry.message.body for entry in queue.backlog], queue.unacked) == ([b"2"], 1)
    assert waiting(cluster)["b"] == [b"3"], "a dead letter is part of it"
    assert len(work(cluster, "p2")) == entries + 1
    client.lose()
    assert len(queue) == 2


def test_dead_letters_wait_for_no_other_turn(cluster: Joined) -> None:
    """One moves no more than so many of them, and the batch may end with it."""
    cluster.client("p1").queue("work", durable=True, x_dead_letter_exchange="", x_dead_letter_routing_key="b")
    fill(cluster, "work", b"1", b"2", b"3")
    client = transactional(cluster, "s1")
    for tag in (1, 2, 3):
        client.get("work", no_ack=False)
        client.nack(tag, requeue=False)
    cluster.hold("s1", "p1")
    client.send(TxCommit())
    cluster.members["p1"].wires["s1"].connection.receive(cluster.held.pop(("s1", "p1")))
    assert waiting(cluster)["b"] == [b"1", b"2", b"3"]
    cluster.settle()
    client.reply(1, TxCommitOk)


@every_role
def test_credit_comes_back_with_the_commit(cluster: Joined, at: str) -> None:
    fill(cluster, "a", b"1", b"2", b"3")
    client = transactional(cluster, at)
    client.call(BasicQos(prefetch_count=1), BasicQosOk)
    client.consume("a")
    for body in (b"1", b"2", b"3"):
        assert client.bodies() == [body]
        client.ack(0, multiple=True)
        assert client.bodies() == []
        client.call(TxCommit(), TxCommitOk)
    assert client.broker.memory_accounts.held_bytes == 0


# -- when it is told


@pytest.mark.parametrize("at", ROLES)
def test_it_is_told_when_half_of_the_primaries_have_it(cluster: Joined, at: str) -> None:
    client = transactional(cluster, at)
    publish_both(client)
    for follower in ("p2", "p3"):
        cluster.hold(follower, "p1") if follower != at else cluster.hold("p1", "p2")
    client.send(TxCommit())
    assert waiting(cluster) == BOTH and not client.replies.get(1)
    cluster.let_go("p3", "p1")
    if at == "p2":
        cluster.let_go("p1", "p2")
    client.reply(1, TxCommitOk)


@pytest.mark.parametrize("at", ROLES)
@pytest.mark.parametrize("mode", [1, 2])
def test_acks_alone_are_told_when_half_of_the_primaries_have_them(cluster: Joined, at: str, mode: int) -> None:
    client = transactional(cluster, at)
    client.publish("a", b"job", delivery_mode=mode)
    client.call(TxCommit(), TxCommitOk)
    client.get("a", no_ack=False)
    client.ack(1)
    for follower in ("p2", "p3"):
        cluster.hold("p1", follower)
    client.send(TxCommit())
    assert cluster.broker("p1").vhosts["/"].queues["a"].unacked == 0 and not client.replies.get(1)
    cluster.let_go("p1", "p2")
    client.reply(1, TxCommitOk)


@pytest.mark.parametrize("mode", [1, 2])
def test_a_transaction_for_queues_that_are_not_replicated_waits_for_nobody(cluster: Joined, mode: int) -> None:
    client = transactional(cluster, "p1")
    client.queue("c")
    for follower in ("p2", "p3"):
        cluster.hold(follower, "p1")
    client.publish("c", b"x", delivery_mode=mode)
    client.call(TxCommit(), TxCommitOk)
    assert client.count("c") == 1


@pytest.mark.parametrize("at", ROLES)
def test_what_no_queue_wants_is_returned_before_it_is_told(cluster: Joined, at: str) -> None:
    client = transactional(cluster, at)
    client.publish("a", b"wanted", mandatory=True)
    client.publish("nobody", b"one", mandatory=True)
    client.publish("gone", b"two", mandatory=True)
    client.call(TxCommit(), TxCommitOk)
    assert [each.body for each in client.returns] == [b"one", b"two"]


def test_what_the_root_has_no_queue_for_any_more_is_returned(cluster: Joined) -> None:
    client = transactional(cluster, "s1")
    client.publish("b", b"gone", mandatory=True)
    client.publish("a", b"stays", mandatory=True)
    cluster.hold("p1", "s1")
    cluster.client("p1").send(QueueDelete(queue="b"))
    client.send(TxCommit())
    cluster.let_go("p1", "s1")
    client.reply(1, TxCommitOk)
    assert [each.body for each in client.returns] == [b"gone"]


def test_private_queues_get_theirs_when_the_root_has_said_yes(cluster: Joined) -> None:
    inboxes = {name: cluster.client(name) for name in ("p1", "p2", "p3", "s1")}
    for inbox in inboxes.values():
        subscribe(inbox, "amq.fanout")
    inboxes["p1"].bind("a", "amq.fanout")
    client = transactional(cluster, "s1")
    client.publish("", b"x", exchange="amq.fanout")
    cluster.hold("s1", "p1")
    client.send(TxCommit())
    assert [each.bodies() for each in inboxes.values()] == [[]] * 4
    cluster.let_go("s1", "p1")
    client.reply(1, TxCommitOk)
    assert [each.bodies() for each in inboxes.values()] == [[b"x"]] * 4
    assert waiting(cluster)["a"] == [b"x"]


# -- all or nothing


def test_an_exchange_that_the_root_has_no_more_stands_against_all_of_it(cluster: Joined) -> None:
    fill(cluster, "a", b"job")
    inbox = cluster.client("p3")
    subscribe(inbox, "amq.fanout")
    client = transactional(cluster, "s1")
    client.call(ExchangeDeclare(exchange="news", type="fanout"), ExchangeDeclareOk)
    client.bind("b", "news")
    client.get("a", no_ack=False)
    publish_both(client)
    client.publish("", b"x", exchange="amq.fanout")
    client.publish("", b"x", exchange="news")
    client.ack(1)
    cluster.hold("p1", "s1")
    cluster.client("p1").send(ExchangeDelete(exchange="news"))
    client.send(TxCommit())
    cluster.let_go("p1", "s1")
    assert client.channel_error().code == 404
    # The channel is closed, so what it had fetched is back.
    assert waiting(cluster) == {"a": [b"job"], "b": []} and inbox.bodies() == []
    assert client.broker.memory_accounts.held_bytes == 0


@every_role
def test_a_queue_without_room_stands_against_all_of_it(cluster: Joined, at: str) -> None:
    client = transactional(cluster, at)
    client.queue("small", x_max_length=1, x_overflow="reject-publish")
    publish_both(client)
    client.publish("small", b"1")
    client.publish("small", b"2")
    closed = client.error(TxCommit())
    assert closed.code == 406 and "'small'" in closed.text
    assert waiting(cluster) == NEITHER


def test_a_transaction_too_large_to_cross_is_refused_by_name_of_the_limit() -> None:
    cluster = Joined("p1", "p2", "p3", message_size_max=100_000)
    cluster.client("p1").queue("a")
    client = transactional(cluster, "p2")
    for _ in range(2):
        client.publish("a", b"x" * 30_000)
    closed = client.error(TxCommit())
    assert closed.code == 506 and "limits.message_size_max" in closed.text
    client.call(TxSelect(), TxSelectOk)
    client.publish("a", b"x" * 30_000)
    client.call(TxCommit(), TxCommitOk)
    assert client.count("a") == 1


def test_acks_of_a_queue_that_is_gone_stand_against_nothing(cluster: Joined) -> None:
    fill(cluster, "a", b"job")
    client = transactional(cluster, "s1")
    client.consume("a")
    client.publish("b", b"x")
    client.ack(1)
    cluster.client("p1").call(QueueDelete(queue="a"), QueueDeleteOk)
    client.call(TxCommit(), TxCommitOk)
    assert client.count("b") == 1 and client.broker.memory_accounts.held_bytes == 0


# -- the root changes


def test_what_the_root_had_done_and_not_told_is_not_done_again_by_the_next(cluster: Joined) -> None:
    client = transactional(cluster, "s1")
    publish_both(client)
    cluster.hold("p1", "s1")
    client.send(TxCommit())
    cluster.kill("p1")
    assert cluster.await_root() == "p2"
    client.reply(1, TxCommitOk)
    assert waiting(cluster) == BOTH


def test_what_the_root_had_not_done_is_done_by_the_next(cluster: Joined) -> None:
    client = transactional(cluster, "s1")
    publish_both(client)
    cluster.hold("s1", "p1")
    client.send(TxCommit())
    cluster.kill("p1")
    cluster.await_root()
    client.reply(1, TxCommitOk)
    assert waiting(cluster) == BOTH


def test_what_only_the_root_had_is_done_by_the_next(cluster: Joined) -> None:
    client = transactional(cluster, "s1")
    publish_both(client)
    for other in ("p2", "p3"):
        cluster.hold("p1", other)
    client.send(TxCommit())
    assert waiting(cluster) == BOTH and waiting(cluster, "p2") == NEITHER
    assert not client.replies.get(1), "nobody but the root has it"
    cluster.kill("p1")
    cluster.await_root()
    client.reply(1, TxCommitOk)
    assert waiting(cluster) == BOTH


def test_a_broker_that_becomes_root_itself_does_what_it_had_asked_for(cluster: Joined) -> None:
    client = transactional(cluster, "p2")
    publish_both(client)
    cluster.hold("p2", "p1")
    client.send(TxCommit())
    cluster.kill("p1")
    assert cluster.await_root() == "p2"
    client.reply(1, TxCommitOk)
    assert waiting(cluster) == BOTH and waiting(cluster, "p3") == BOTH


def test_a_root_that_resigns_learns_from_the_next_that_its_own_clients_commit_stays(cluster: Joined) -> None:
    fill(cluster, "a", b"job")
    client = transactional(cluster, "p1")
    client.get("a", no_ack=False)
    publish_both(client)
    client.ack(1)
    for follower in ("p2", "p3"):
        cluster.hold(follower, "p1")
    client.send(TxCommit())
    assert not client.replies.get(1)
    cluster.step_down("p1")
    for follower in ("p2", "p3"):
        cluster.let_go(follower, "p1")
    assert cluster.await_root() == "p2"
    client.reply(1, TxCommitOk)
    assert waiting(cluster) == BOTH


def test_a_question_repeated_to_the_same_root_is_done_once(cluster: Joined) -> None:
    fill(cluster, "a", b"job")
    client = transactional(cluster, "s1")
    client.get("a", no_ack=False)
    publish_both(client)
    client.ack(1)
    cluster.hold("p1", "s1")
    client.send(TxCommit())
    # Its answer is lost with the link.
    cluster.redial("p1", "s1")
    cluster.redial("s1", "p1")
    client.reply(1, TxCommitOk)
    assert waiting(cluster) == BOTH and cluster.root == "p1"
    client.lose()
    assert waiting(cluster) == BOTH


def test_transient_messages_are_not_doubled_by_the_same_root_either(cluster: Joined) -> None:
    cluster.client("p1").queue("c")
    client = transactional(cluster, "s1")
    client.publish("c", b"x")
    cluster.hold("p1", "s1")
    client.send(TxCommit())
    cluster.redial("p1", "s1")
    cluster.redial("s1", "p1")
    client.reply(1, TxCommitOk)
    assert client.count("c") == 1


@every_role
def test_what_was_acknowledged_is_not_delivered_again_by_the_next_root(cluster: Joined, at: str) -> None:
    fill(cluster, "a", b"1", b"2")
    client = transactional(cluster, at)
    client.get("a", no_ack=False)
    client.ack(1)
    client.call(TxCommit(), TxCommitOk)
    if at == "p1":
        client.lose()
    cluster.kill("p1")
    cluster.await_root()
    assert waiting(cluster)["a"] == [b"2"]


@pytest.mark.parametrize("at", ["p2", "s1"])
def test_acks_of_deliveries_that_went_back_fail_the_commit(cluster: Joined, at: str) -> None:
    fill(cluster, "a", b"job")
    client = transactional(cluster, at)
    client.get("a", no_ack=False)
    publish_both(client)
    client.ack(1)
    cluster.kill("p1")
    cluster.await_root()
    closed = client.error(TxCommit())
    assert (closed.code, closed.by) == (406, (90, 20)) and "take them again" in closed.text
    assert waiting(cluster) == {"a": [b"job"], "b": []}
    client.call(TxSelect(), TxSelectOk)
    got = client.get("a", no_ack=False)
    assert got is not None and got.redelivered
    publish_both(client)
    client.ack(got.tag)
    client.call(TxCommit(), TxCommitOk)
    assert waiting(cluster) == BOTH


@pytest.mark.parametrize("at", ["p2", "s1"])
@pytest.mark.parametrize("is_fetched", [True, False])
def test_acks_that_no_root_has_heard_fail_the_commit(cluster: Joined, at: str, is_fetched: bool) -> None:
    fill(cluster, "a", b"job")
    client = transactional(cluster, at)
    if is_fetched:
        client.get("a", no_ack=False)
    else:
        client.consume("a")
    publish_both(client)
    client.ack(1)
    cluster.hold(at, "p1")
    client.send(TxCommit())
    cluster.kill("p1")
    cluster.await_root()
    assert client.channel_error().code == 406
    assert waiting(cluster) == {"a": [b"job"], "b": []}


def test_acks_that_the_root_had_done_and_not_told_hold_at_the_next(cluster: Joined) -> None:
    fill(cluster, "a", b"job")
    client = transactional(cluster, "s1")
    client.get("a", no_ack=False)
    publish_both(client)
    client.ack(1)
    cluster.hold("p1", "s1")
    client.send(TxCommit())
    cluster.kill("p1")
    cluster.await_root()
    client.reply(1, TxCommitOk)
    assert waiting(cluster) == BOTH


def test_numbers_of_another_root_are_not_taken_for_its_own(cluster: Joined) -> None:
    """basic.get's are counted from 1 by every root."""
    fill(cluster, "a", b"job")
    client = transactional(cluster, "p3")
    client.get("a", no_ack=False)
    client.publish("b", b"x")
    client.ack(1)
    cluster.hold("p3", "p1")
    other = cluster.client("p3")
    # This is asked first.
    other.send(BasicGet(queue="a"))
    client.send(TxCommit())
    cluster.kill("p1")
    cluster.await_root()
    assert client.channel_error().code == 406
    assert other.bodies() == [b"job"]
    other.lose()
    assert waiting(cluster) == {"a": [b"job"], "b": []}


def test_what_the_same_root_has_not_heard_before_the_deliveries_went_back_fails(cluster: Joined) -> None:
    fill(cluster, "a", b"job")
    client = transactional(cluster, "s1")
    client.get("a", no_ack=False)
    publish_both(client)
    client.ack(1)
    cluster.hold("s1", "p1")
    client.send(TxCommit())
    cluster.redial("s1", "p1")
    assert client.channel_error().code == 406
    assert waiting(cluster) == {"a": [b"job"], "b": []}


def test_a_root_that_knows_the_log_by_a_snapshot_knows_what_was_done(cluster: Joined) -> None:
    client = transactional(cluster, "s1")
    publish_both(client)
    cluster.hold("p1", "s1")
    client.send(TxCommit())
    cluster["p1"].replica.log.restart(cluster["p1"].replica.log.last)
    cluster.kill("p2")
    cluster.start("p2")
    cluster.tick(1_000)
    assert cluster["p2"].replica.position == cluster["p1"].replica.position
    last = cluster["p2"].replica.log.last
    assert len(cluster["p2"].commit_registry.names(last)) == 1
    cluster.kill("p1")
    cluster.await_root()
    client.reply(1, TxCommitOk)


def test_a_transaction_that_is_undone_leaves_nothing_of_it_behind(cluster: Joined) -> None:
    """Its root takes no message of it to the next one, where the commit fails."""
    fill(cluster, "a", b"job")
    client = transactional(cluster, "s1")
    client.get("a", no_ack=False)
    publish_both(client)
    client.ack(1)
    for other in ("p2", "p3"):
        cluster.hold("p1", other)
    client.send(TxCommit())
    cluster.client("p1").publish("b", b"of its own", delivery_mode=2)
    assert waiting(cluster) == {"a": [b"x"], "b": [b"x", b"of its own"]}
    for other in ("p2", "p3"):
        cluster.cut("p1", other)
    cluster.cut("p1", "s1")
    cluster.tick(3_000)
    assert cluster.root == "p2" and client.channel_error().code == 406
    assert waiting(cluster) == {"a": [b"job"], "b": []}
    for other in ("p2", "p3", "s1"):
        cluster.mend("p1", other)
    cluster.tick(3_000)
    cluster.redial("p1", "p2")
    assert waiting(cluster) == {"a": [b"job"], "b": [b"of its own"]}
    assert waiting(cluster, "p1") == waiting(cluster, "p3") == waiting(cluster)


def test_a_dead_letter_of_a_transaction_that_is_undone_is_not_left_behind(cluster: Joined) -> None:
    """It died behind the cut, before the root knew that it was none any more, and nothing of it was sure."""
    client = transactional(cluster, "s1")
    client.queue("short", durable=True, x_dead_letter_exchange="", x_dead_letter_routing_key="b", x_message_ttl=20)
    publish_both(client)
    client.publish("short", b"dies", delivery_mode=2)
    cluster.hold("p1", "p2")
    cluster.hold("p1", "p3")
    client.send(TxCommit())
    cluster.tick(40)
    assert waiting(cluster, "p1") == {"a": [b"x"], "b": [b"x", b"dies"]}
    cluster.kill("s1")
    for other in ("p2", "p3"):
        cluster.held.pop(("p1", other), None)
        cluster.cut("p1", other)
    cluster.tick(3_000)
    for other in ("p2", "p3"):
        cluster.mend("p1", other)
    cluster.tick(3_000)
    assert cluster.root == "p2"
    assert all(waiting(cluster, name) == NEITHER for name in ("p1", "p2", "p3"))


def test_a_transaction_that_is_undone_and_asked_for_again_is_done_once(cluster: Joined) -> None:
    client = transactional(cluster, "s1")
    publish_both(client)
    for other in ("p2", "p3"):
        cluster.hold("p1", other)
    client.send(TxCommit())
    for other in ("p2", "p3", "s1"):
        cluster.cut("p1", other)
    cluster.tick(3_000)
    client.reply(1, TxCommitOk)
    for other in ("p2", "p3", "s1"):
        cluster.mend("p1", other)
    cluster.tick(3_000)
    assert waiting(cluster) == waiting(cluster, "p1") == BOTH


def test_a_transaction_that_is_undone_is_never_taken_for_done() -> None:
    """Not even when the log has dropped what came in its place: who asks for it would be told that it has happened."""
    cluster = Joined("p1", "p2", "p3", secondaries=("s1",), bounds=Bounds(log_entries_max=5))
    for name in ("a", "b"):
        cluster.client("p1").queue(name, durable=True)
    client = transactional(cluster, "s1")
    publish_both(client)
    for other in ("p2", "p3"):
        cluster.hold("p1", other)
    client.send(TxCommit())
    cluster.kill("s1")
    done_before = cluster["p1"].commit_registry
    assert len(done_before.names(cluster["p1"].replica.position)) == 1
    for other in ("p2", "p3"):
        cluster.cut("p1", other)
    cluster.tick(3_000)
    sent = cluster.tap("p2")
    for other in ("p2", "p3"):
        cluster.mend("p1", other)
    cluster.tick(3_000)
    assert cluster.root == "p2" and not said(sent, "p1", Snapshot)
    fill(cluster, "a", *[b"%d" % number for number in range(8)])
    assert done_before.names(cluster["p1"].replica.position) == []


# -- without a root


def without_root(cluster: Joined) -> None:
    cluster.kill("p2")
    cluster.kill("p3")
    cluster.tick(2_000)
    assert not cluster.root


def test_a_transaction_without_shared_queues_needs_no_root(cluster: Joined) -> None:
    client = transactional(cluster, "s1")
    client.queue("mine", exclusive=True)
    without_root(cluster)
    client.publish("mine", b"x")
    client.publish("nobody", b"y", mandatory=True)
    client.call(TxCommit(), TxCommitOk)
    got = client.get("mine", no_ack=False)
    assert got is not None and got.body == b"x" and len(client.returns) == 1
    client.ack(got.tag)
    client.call(TxCommit(), TxCommitOk)
    assert client.broker.memory_accounts.held_bytes == 0


def test_without_a_root_a_commit_waits_for_one(cluster: Joined) -> None:
    client = transactional(cluster, "s1")
    without_root(cluster)
    publish_both(client)
    client.send(TxCommit())
    assert not client.replies.get(1) and client.connection.hold == "cluster"
    cluster.start("p2")
    cluster.await_root()
    client.reply(1, TxCommitOk)
    assert waiting(cluster) == BOTH


def test_a_commit_that_waited_too_long_is_given_up_with_506(cluster: Joined) -> None:
    client = transactional(cluster, "s1")
    without_root(cluster)
    publish_both(client)
    client.send(TxCommit())
    cluster.tick(31_000)
    assert client.channel_error().code == 506
    assert client.broker.memory_accounts.held_bytes == 0


def test_a_client_that_leaves_while_it_waits_leaves_nothing_behind(cluster: Joined) -> None:
    client = transactional(cluster, "s1")
    cluster.hold("s1", "p1")
    publish_both(client)
    client.send(TxCommit())
    broker = client.broker
    client.lose()
    assert broker.memory_accounts.held_bytes > 0, "what it was to publish is still on its way"
    cluster.let_go("s1", "p1")
    assert broker.memory_accounts.held_bytes == 0 and waiting(cluster) == BOTH


# -- what was done before


def test_what_is_answered_is_forgotten_with_the_next(cluster: Joined) -> None:
    client = transactional(cluster, "s1")
    for _ in range(5):
        publish_both(client)
        client.call(TxCommit(), TxCommitOk)
    for name in ("p1", "p2", "p3"):
        last = cluster[name].replica.log.last
        known = Counter(run for run, _, _ in cluster[name].commit_registry.names(last))
        assert list(known.values()) == [1], name


def test_what_is_cut_from_the_log_was_not_done(cluster: Joined) -> None:
    log = cluster["p2"].replica.log
    done_before = cluster["p2"].commit_registry
    last = log.last
    done_before.heard(last, [(b"run", 1, 1)])
    done_before.heard(Position(last.epoch, last.sequence + 1), [(b"run", 2, 1)])
    done_before.heard(Position(last.epoch + 1, last.sequence + 2), [(b"run", 3, 1)])
    done_before.cut(last)
    # Also when the log has long forgotten what it had in their places.
    log.restart(Position(last.epoch + 2, last.sequence + 9))
    assert [done_before.find(b"run", number) is not None for number in (1, 2, 3)] == [True, False, False]
    done_before.begin_anew(last, [(b"other", 7, 7)])
    assert done_before.find(b"run", 1) is None and done_before.find(b"other", 7) is not None


def test_what_a_root_did_and_had_not_sealed_is_lost_with_its_office(cluster: Joined) -> None:
    done_before = CommitRegistry(cluster["p1"].leadership, cluster["p1"].commit_index)
    epoch = cluster["p1"].epoch
    done_before.did((b"run", 1, 1), DoneTransaction(epoch), is_open=True)
    assert done_before.find(b"run", 1) is not None
    cluster.step_down("p1")
    cluster.await_root()
    assert done_before.find(b"run", 1) is None
    done_before.sealed(cluster["p1"].replica.log.last)
    assert done_before.find(b"run", 1) is None, "that was another time"


def test_runs_that_are_longest_idle_are_forgotten(cluster: Joined, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openclust.cluster.transactions.commit_registry.RUNS_MAX", 2)
    monkeypatch.setattr("openclust.cluster.transactions.commit_registry.NUMBERS_MAX", 2)
    done_before = CommitRegistry(cluster["p1"].leadership, cluster["p1"].commit_index)
    last = cluster["p1"].replica.log.last
    for run in (b"1", b"2", b"1", b"3"):
        done_before.heard(last, [(run, 1, 1)])
    assert [done_before.find(run, 1) is not None for run in (b"1", b"2", b"3")] == [True, False, True]
    done_before.heard(last, [(b"3", number, 1) for number in (2, 3)])
    assert [done_before.find(b"3", number) is not None for number in (1, 2, 3)] == [False, True, True]
