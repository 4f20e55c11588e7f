"""Messages for shared queues on their way to the root: what becomes of them, and who waits for it."""

from __future__ import annotations

import pytest

from openclust.broker.model.changes import DeclareQueue, DeleteVhost, PutPermission, PutVhost
from openclust.cluster.protocol.bounds import Bounds
from openclust.cluster.protocol.messages import Pressure, Settled
from openclust.cluster.shared_queues.forwarding import TRIES_MAX
from openclust.wire.methods import (
    BasicAck,
    BasicNack,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionBlocked,
    ConnectionUnblocked,
    QueueDelete,
    QueueDeleteOk,
    TxCommit,
    TxCommitOk,
    TxSelect,
    TxSelectOk,
)
from tests.cluster.relay.test_meta_bindings import define, subscribe
from tests.support.client import EVERYTHING
from tests.support.cluster.joined import HEARTBEAT_MS, Application, Joined


@pytest.fixture
def cluster() -> Joined:
    joined = Joined("p1", "p2", "p3", secondaries=("s1",))
    joined.client("p1").queue("work")
    return joined


def confirming(cluster: Joined, at: str) -> Application:
    client = cluster.client(at)
    client.call(ConfirmSelect(), ConfirmSelectOk)
    return client


def verdicts(client: Application) -> list[tuple[str, int]]:
    """The confirms since the last call."""
    found = [
        ("ack" if isinstance(each, BasicAck) else "nack", each.delivery_tag)
        for each in client.confirms
        if isinstance(each, BasicAck | BasicNack)
    ]
    client.confirms.clear()
    return found


def bodies(cluster: Joined, queue: str = "work") -> list[bytes]:
    """What waits in a queue, at the root."""
    return [entry.message.body for entry in cluster.broker(cluster.root).vhosts["/"].queues[queue].backlog]


def blocked(client: Application) -> list[str]:
    """What it was told of being blocked, since the last call."""
    told = ["blocked" if isinstance(each, ConnectionBlocked) else "unblocked" for each in client.blocked]
    assert all(isinstance(each, ConnectionBlocked | ConnectionUnblocked) for each in client.blocked)
    client.blocked.clear()
    return told


def rests(cluster: Joined) -> None:
    """Nothing waits anywhere, and no memory is charged for it."""
    for name in cluster.members:
        forwarding = cluster[name].forwarding
        assert forwarding.waiting == 0
        assert forwarding._sent_bytes == 0 and not any(forwarding._sent.values())


# -- to the root, and back


@pytest.mark.parametrize("at", ["p1", "p2", "s1"])
def test_a_message_for_a_shared_queue_is_at_the_root_alone(cluster: Joined, at: str) -> None:
    cluster.client(at).publish("work", b"x")
    assert bodies(cluster) == [b"x"]
    for name in ("p2", "p3", "s1"):
        assert len(cluster.broker(name).vhosts["/"].queues["work"]) == 0


@pytest.mark.parametrize("at", ["p2", "s1"])
def test_a_publish_is_confirmed_when_the_root_has_confirmed_it(cluster: Joined, at: str) -> None:
    client = confirming(cluster, at)
    cluster.hold("p1", at)
    for number in range(3):
        client.publish("work", b"%d" % number)
    assert bodies(cluster) == [b"0", b"1", b"2"] and not client.confirms
    cluster.let_go("p1", at)
    assert client.confirms[-1] == BasicAck(delivery_tag=3, multiple=True)
    rests(cluster)


def test_what_a_queue_at_the_root_refuses_is_refused_to_its_publisher(cluster: Joined) -> None:
    client = confirming(cluster, "s1")
    client.queue("small", x_max_length=1, x_overflow="reject-publish")
    client.publish("small", b"first")
    client.publish("small", b"second")
    assert verdicts(client) == [("ack", 1), ("nack", 2)]
    assert bodies(cluster, "small") == [b"first"]


def test_a_mandatory_message_for_a_shared_queue_is_not_returned(cluster: Joined) -> None:
    client = confirming(cluster, "s1")
    client.publish("work", b"x", mandatory=True)
    assert verdicts(client) == [("ack", 1)] and not client.returns


def test_a_mandatory_message_that_nobody_wants_is_returned_at_once(cluster: Joined) -> None:
    client = confirming(cluster, "s1")
    cluster.hold("p1", "s1")
    client.publish("nowhere", b"x", mandatory=True)
    assert [each.body for each in client.returns] == [b"x"] and verdicts(client) == [("ack", 1)]


def test_a_mandatory_message_whose_queue_the_root_no_longer_has_is_returned(cluster: Joined) -> None:
    client = confirming(cluster, "p2")
    cluster.hold("p1", "p2")
    cluster.client("p1").send(QueueDelete(queue="work"))
    client.publish("work", b"x", mandatory=True)
    assert not client.returns
    cluster.let_go("p1", "p2")
    assert [each.body for each in client.returns] == [b"x"] and verdicts(client) == [("ack", 1)]


def test_a_mandatory_message_for_private_queues_of_the_root_alone_is_not_returned(cluster: Joined) -> None:
    inbox = cluster.client("p1")
    subscribe(inbox, "amq.fanout")
    client = confirming(cluster, "s1")
    client.publish("", b"x", exchange="amq.fanout", mandatory=True)
    assert inbox.bodies() == [b"x"] and not client.returns and verdicts(client) == [("ack", 1)]


def test_one_copy_serves_the_roots_shared_and_private_queues(cluster: Joined) -> None:
    inbox = cluster.client("p1")
    subscribe(inbox, "amq.fanout")
    inbox.bind("work", "amq.fanout")
    before = cluster["p2"].links.outboxes["p1"].relayed
    cluster.client("p2").publish("", b"x", exchange="amq.fanout")
    assert cluster["p2"].links.outboxes["p1"].relayed == before + 1
    assert inbox.bodies() == [b"x"] and bodies(cluster) == [b"x"]


def test_a_transaction_is_committed_when_the_root_has_its_messages(cluster: Joined) -> None:
    client = cluster.client("s1")
    client.call(TxSelect(), TxSelectOk)
    client.publish("work", b"one")
    client.publish("work", b"two")
    assert bodies(cluster) == []
    cluster.hold("p1", "s1")
    client.send(TxCommit())
    assert bodies(cluster) == [b"one", b"two"] and not client.replies.get(1)
    cluster.let_go("p1", "s1")
    client.reply(1, TxCommitOk)


def test_a_dead_letter_of_a_private_queue_finds_its_shared_queue(cluster: Joined) -> None:
    client = cluster.client("s1")
    client.queue("mine", exclusive=True, x_dead_letter_exchange="", x_dead_letter_routing_key="work")
    client.publish("mine", b"x")
    delivery = client.get("mine", no_ack=False)
    assert delivery is not None
    client.nack(delivery.tag, requeue=False)
    assert bodies(cluster) == [b"x"]


def test_blind_copies_for_a_shared_queue_are_not_shown_to_its_consumers(cluster: Joined) -> None:
    cluster.client("s1").publish("nowhere", b"x", headers={"BCC": ["work"], "kept": 1})
    delivery = cluster.client("p1").get("work")
    assert delivery is not None and delivery.headers == {"kept": 1}


def test_who_publishes_from_a_virtual_host_that_the_root_no_longer_has_is_told(cluster: Joined) -> None:
    define(
        cluster,
        PutVhost(vhost="team"),
        PutPermission(vhost="team", user="guest", permission=EVERYTHING),
        DeclareQueue(vhost="team", name="work"),
    )
    client = cluster.client("s1", vhost="team")
    client.call(ConfirmSelect(), ConfirmSelectOk)
    cluster.hold("p1", "s1")
    cluster["p1"].define(DeleteVhost(vhost="team"), lambda _: None)
    cluster.settle()
    client.publish("work", b"x", mandatory=True)
    cluster.let_go("p1", "s1")
    assert client.closed is not None and client.closed.code == 320
    rests(cluster)


def test_what_is_published_before_the_root_has_spoken_on_its_new_link_goes_behind_what_has_waited(
    cluster: Joined,
) -> None:
    client = confirming(cluster, "p2")
    cluster.hold("p2", "p1")
    client.publish("work", b"first")
    cluster.hold("p1", "p2")
    cluster.replace_link("p1", "p2")
    cluster.redial("p2", "p1")
    client.publish("work", b"second")
    assert bodies(cluster) == []
    cluster.let_go("p1", "p2")
    assert bodies(cluster) == [b"first", b"second"]
    assert [number for _, number in verdicts(client)][-1] == 2
    rests(cluster)


# -- verdicts that do not fit


def test_a_verdict_of_anybody_but_the_root_counts_for_nothing(cluster: Joined) -> None:
    client = confirming(cluster, "p2")
    cluster.hold("p2", "p1")
    client.publish("work", b"x")
    forwarding = cluster["p2"].forwarding
    (lane,) = forwarding._sent
    stray = Settled(lane=lane, run=forwarding._run, verdicts=[(1, 1, True)])
    forwarding.settled("p3", stray)
    forwarding.settled("p1", Settled(lane=lane + 1, run=forwarding._run, verdicts=[(1, 1, True)]))
    forwarding.settled("p1", Settled(lane=lane, run=forwarding._run, verdicts=[(2, 9, True)]))
    cluster.settle()
    assert not client.confirms
    forwarding.settled("p1", stray)
    forwarding.settled("p1", stray)
    cluster.settle()
    assert verdicts(client) == [("ack", 1)]


def test_numbers_begin_anew_with_each_run_and_old_verdicts_count_for_nothing(cluster: Joined) -> None:
    client = confirming(cluster, "s1")
    cluster.hold("p1", "s1")
    client.publish("work", b"first")
    forwarding = cluster["s1"].forwarding
    before = forwarding._run
    cluster.hold("s1", "p1")
    cluster.redial("p1", "s1")
    cluster.tick()
    assert forwarding._run > before
    (lane,) = forwarding._sent
    assert list(forwarding._sent[lane]) == [1], "it goes again, under a number of the new run"
    forwarding.settled("p1", Settled(lane=lane, run=before, verdicts=[(1, 1, False)]))
    cluster.settle()
    assert not client.confirms, "that was of another run"
    cluster.let_go("s1", "p1")
    cluster.await_root()
    assert verdicts(client) == [("ack", 1)]
    assert bodies(cluster) == [b"first", b"first"], "its confirm was lost: it came twice, and was confirmed once"
    client.publish("work", b"second")
    assert verdicts(client) == [("ack", 2)]
    rests(cluster)


# -- the next root


def test_what_was_not_confirmed_goes_to_the_next_root(cluster: Joined) -> None:
    client = confirming(cluster, "s1")
    cluster.hold("p1", "s1")
    client.publish("work", b"x")
    cluster.kill("p1")
    assert cluster.await_root() == "p2"
    assert bodies(cluster) == [b"x"] and verdicts(client) == [("ack", 1)]
    rests(cluster)


def test_what_was_not_to_be_confirmed_may_go_with_a_root(cluster: Joined) -> None:
    client = cluster.client("s1")
    cluster.hold("s1", "p1")
    client.publish("work", b"x")
    cluster.kill("p1")
    assert cluster.await_root() == "p2"
    assert bodies(cluster) == []
    client.publish("work", b"y")
    assert bodies(cluster) == [b"y"]


def test_what_goes_again_reaches_private_queues_once(cluster: Joined) -> None:
    inbox = cluster.client("p3")
    subscribe(inbox, "amq.fanout")
    inbox.bind("work", "amq.fanout")
    client = confirming(cluster, "s1")
    cluster.hold("p1", "s1")
    client.publish("", b"x", exchange="amq.fanout")
    assert inbox.bodies() == [b"x"]
    cluster.kill("p1")
    cluster.await_root()
    assert verdicts(client) == [("ack", 1)] and bodies(cluster) == [b"x"]
    assert inbox.bodies() == []


def test_a_broker_that_becomes_root_keeps_what_it_was_to_forward(cluster: Joined) -> None:
    client = confirming(cluster, "p2")
    cluster.hold("p2", "p1")
    client.publish("work", b"x")
    cluster.kill("p1")
    assert cluster.await_root() == "p2"
    assert bodies(cluster) == [b"x"] and verdicts(client) == [("ack", 1)]
    rests(cluster)


@pytest.mark.parametrize("earlier", [[], [b"0"]], ids=["a new lane", "the lane of its former reign"])
def test_who_was_out_of_office_for_a_message_takes_none_behind_it_before_it_comes_again(earlier: list[bytes]) -> None:
    """p1 is not root when the first one comes, and root again when the next does. s1 has heard nothing of that."""
    cluster = Joined("p1", "p2", secondaries=("s1",))
    inbox = cluster.client("p1")
    inbox.queue("work", durable=True)
    inbox.bind("work", "amq.fanout")
    subscribe(inbox, "amq.fanout")
    client = confirming(cluster, "s1")
    for body in earlier:
        client.publish("", body, exchange="amq.fanout")
    cluster.kill("p2")
    cluster.hold("p1", "s1")
    cluster.step_down("p1")
    client.publish("", b"1", exchange="amq.fanout")
    assert cluster.root == ""
    # It is younger than p1's new seniority.
    cluster.start("p2")
    cluster.tick(2 * HEARTBEAT_MS)
    assert (cluster.root, cluster["p1"].epoch, cluster["s1"].epoch) == ("p1", 2, 1)
    client.publish("", b"2", exchange="amq.fanout")
    assert bodies(cluster) == earlier
    cluster.let_go("p1", "s1")
    assert bodies(cluster) == [*earlier, b"1", b"2"]
    assert inbox.bodies() == [*earlier, b"1", b"2"], "once each, and when they came first"
    assert [number for verdict, number in verdicts(client) if verdict == "ack"][-1] == len(earlier) + 2
    rests(cluster)


# -- without a root


def test_without_a_root_messages_for_shared_queues_wait_and_keep_their_order(cluster: Joined) -> None:
    client = confirming(cluster, "s1")
    cluster.kill("p1")
    for number in range(3):
        client.publish("work", b"%d" % number)
    assert blocked(client) == ["blocked"] and not client.confirms
    cluster.await_root()
    assert blocked(client) == ["unblocked"]
    assert bodies(cluster) == [b"0", b"1", b"2"]
    assert [kind for kind, _ in verdicts(client)][-1] == "ack"
    rests(cluster)


def test_without_a_root_other_connections_go_on(cluster: Joined) -> None:
    inbox, publisher, other = cluster.client("p2"), cluster.client("s1"), cluster.client("s1")
    subscribe(inbox, "amq.fanout")
    cluster.kill("p1")
    publisher.publish("work", b"waits")
    other.publish("", b"goes on", exchange="amq.fanout")
    assert inbox.bodies() == [b"goes on"]
    assert blocked(publisher) == ["blocked"] and not blocked(other)


def test_who_publishes_to_private_queues_only_is_not_held(cluster: Joined) -> None:
    inbox, publisher = cluster.client("p2"), cluster.client("s1")
    subscribe(inbox, "amq.fanout")
    cluster.kill("p1")
    for _ in range(3):
        publisher.publish("", b"x", exchange="amq.fanout")
    assert len(inbox.bodies()) == 3 and not blocked(publisher)


def test_what_waited_too_long_for_a_root_fails_with_506() -> None:
    cluster = Joined("p1", "p2", "p3", bounds=Bounds(root_wait_ms=2_000))
    cluster.client("p1").queue("work")
    client = confirming(cluster, "p3")
    cluster.kill("p1")
    cluster.kill("p2")
    client.publish("work", b"x")
    cluster.tick(1_900)
    assert cluster["p3"].forwarding.waiting == 1
    cluster.tick(100)
    closed = client.channel_error()
    assert closed.code == 506 and "no root for 2000 ms" in closed.text
    assert cluster["p3"].forwarding.refused == 1 and cluster.broker("p3").memory_accounts.held_bytes == 0
    rests(cluster)


def test_who_was_blocked_is_told_when_it_may_go_on_though_there_is_no_root() -> None:
    cluster = Joined("p1", "p2", "p3", bounds=Bounds(root_wait_ms=2_000))
    cluster.client("p1").queue("work")
    client = cluster.client("p3")
    cluster.kill("p1")
    cluster.kill("p2")
    client.publish("work", b"x")
    cluster.tick(2_000)
    assert blocked(client) == ["blocked", "unblocked"]
    client.channel_error()
    client.publish("work", b"y")
    assert blocked(client) == ["blocked"]


def test_past_their_bound_messages_that_wait_are_refused_with_506() -> None:
    cluster = Joined("p1", "p2", "p3", bounds=Bounds(waiting_bytes_max=2_000_000))
    cluster.client("p1").queue("work")
    cluster.kill("p1")
    first, second = cluster.client("p3"), cluster.client("p3")
    first.publish("work", b"x" * 1_500_000, pieces=100_000)
    second.publish("work", b"y" * 1_500_000, pieces=100_000)
    closed = second.channel_error()
    assert closed.code == 506 and "cluster.waiting_mb_max" in closed.text
    assert cluster["p3"].forwarding.waiting == 1
    cluster.await_root()
    assert [len(each) for each in bodies(cluster)] == [1_500_000]


def test_a_message_whose_publisher_is_gone_still_finds_its_root(cluster: Joined) -> None:
    client = cluster.client("s1")
    cluster.kill("p1")
    client.publish("work", b"x")
    client.lose()
    cluster.await_root()
    assert bodies(cluster) == [b"x"]
    rests(cluster)


# -- back-pressure


def test_who_publishes_faster_than_the_link_takes_waits_and_nothing_is_dropped(cluster: Joined) -> None:
    client = confirming(cluster, "s1")
    outbox = cluster["s1"].links.outboxes["p1"]
    outbox.bytes_max = -1
    for number in range(3):
        client.publish("work", b"%d" % number)
    assert bodies(cluster) == [b"0"], "it is not read any more"
    assert not blocked(client), "it is not for long"
    outbox.bytes_max = 1_000_000
    cluster.tick()
    assert bodies(cluster) == [b"0", b"1", b"2"] and outbox.dropped == 0
    rests(cluster)


def test_who_publishes_more_than_the_root_confirms_waits() -> None:
    cluster = Joined("p1", "p2", "p3", bounds=Bounds(waiting_bytes_max=1_000))
    cluster.client("p1").queue("work")
    client = confirming(cluster, "p3")
    cluster.hold("p1", "p3")
    for number in range(5):
        client.publish("work", b"%d" % number)
    assert len(bodies(cluster)) == 2, "each counts 500 bytes and some"
    cluster.let_go("p1", "p3")
    assert len(bodies(cluster)) == 5
    rests(cluster)


def test_who_publishes_to_a_root_short_of_memory_waits(cluster: Joined) -> None:
    client = cluster.client("s1")
    cluster["p1"].links.send("s1", Pressure(True))
    cluster.settle()
    client.publish("work", b"1")
    client.publish("work", b"2")
    assert bodies(cluster) == [b"1"] and blocked(client) == ["blocked"]
    cluster["p1"].links.send("s1", Pressure(False))
    cluster.tick(HEARTBEAT_MS)
    assert bodies(cluster) == [b"1", b"2"] and blocked(client) == ["unblocked"]


def test_a_connection_that_ends_while_it_waits_is_forgotten(cluster: Joined) -> None:
    client = cluster.client("s1")
    cluster.kill("p1")
    client.publish("work", b"x")
    assert client.connection in cluster["s1"].forwarding._held_publishers
    client.lose()
    assert not cluster["s1"].forwarding._held_publishers
    cluster.await_root()


def test_deleting_a_queue_from_afar_forgets_its_messages(cluster: Joined) -> None:
    client = cluster.client("s1")
    client.publish("work", b"x")
    assert client.call(QueueDelete(queue="work"), QueueDeleteOk).message_count == 1


def test_a_message_that_links_break_under_again_and_again_is_refused_in_the_end(cluster: Joined) -> None:
    client = confirming(cluster, "p2")
    cluster.hold("p1", "p2")
    client.publish("work", b"poison")
    for _ in range(TRIES_MAX - 1):
        cluster.redial("p2", "p1")
        assert verdicts(client) == []
    cluster.redial("p2", "p1")
    assert verdicts(client) == [("nack", 1)]
