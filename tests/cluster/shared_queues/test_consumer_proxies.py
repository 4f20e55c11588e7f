"""Consumers of other brokers, as the root sees them: how far it goes ahead of them, and whose turn it is."""

from __future__ import annotations

import pytest

from openclust.broker.queues.queue import Queue
from openclust.cluster.protocol.messages import Cancel, Consume, Prefetch, Settle, Taken
from openclust.cluster.protocol.outbox import SOURCE_LANE_MIN
from openclust.cluster.shared_queues.consumer_proxy import AHEAD_BYTES_MAX, AHEAD_MAX, ConsumerProxy
from openclust.wire.errors import ChannelError
from openclust.wire.methods import BasicCancel, BasicCancelOk, BasicConsume, BasicQos, BasicQosOk
from tests.support.client import publish_frames
from tests.support.cluster.joined import Application, Joined

SMALL_OUTBOX_BYTES = 4_000


@pytest.fixture
def cluster() -> Joined:
    return Joined("p1", "p2", "p3", outbox_bytes_max=SMALL_OUTBOX_BYTES)


def at_root(cluster: Joined) -> Queue:
    return cluster.broker(cluster.root).vhosts["/"].queues["q"]


def proxies(cluster: Joined) -> list[ConsumerProxy]:
    return list(cluster[cluster.root].consumer_proxies)


def publish_many(client: Application, count: int, body: bytes = b"body") -> None:
    client.feed(publish_frames("q", body) * count)


def read_all(client: Application) -> list[bytes]:
    bodies = client.bodies()
    while client.unread:
        client.read_once()
        bodies += client.bodies()
    return bodies


# -- how far ahead


@pytest.mark.parametrize("no_ack", [True, False])
def test_a_client_that_does_not_read_is_sent_no_more_than_the_window(cluster: Joined, no_ack: bool) -> None:
    client = cluster.client("p2")
    client.queue("q")
    client.consume("q", no_ack=no_ack)
    client.stop_reading()
    publish_many(cluster.client("p3"), 5_000)
    (proxy,) = proxies(cluster)
    assert proxy.room == 0
    sent = 5_000 - len(at_root(cluster))
    assert AHEAD_MAX <= sent < AHEAD_MAX + 500, "the window, and what the client's own outbox took"
    assert len(client.unread) < 10 * SMALL_OUTBOX_BYTES
    client.is_reading = True
    client.read_on()
    assert len(client.bodies()) == 5_000 and len(at_root(cluster)) == 0


def test_large_messages_are_bounded_by_their_bytes(cluster: Joined) -> None:
    client = cluster.client("p2")
    client.queue("q")
    client.consume("q", no_ack=True)
    client.stop_reading()
    publish_many(cluster.client("p3"), 40, bytes(100_000))
    (proxy,) = proxies(cluster)
    assert AHEAD_BYTES_MAX <= proxy.ahead_bytes < AHEAD_BYTES_MAX + 101_000
    assert len(at_root(cluster)) >= 28
    assert len(read_all(client)) == 40


def test_a_message_larger_than_the_window_is_sent_when_nothing_is_before_it(cluster: Joined) -> None:
    client = cluster.client("p2")
    client.queue("q")
    client.consume("q")
    for _ in range(3):
        client.publish("q", bytes(AHEAD_BYTES_MAX + 1), pieces=130_000)
    assert [len(body) for body in client.bodies()] == [AHEAD_BYTES_MAX + 1] * 3


def test_a_client_that_reads_slowly_gets_all_in_order(cluster: Joined) -> None:
    client = cluster.client("p2")
    client.queue("q")
    client.consume("q", no_ack=True)
    client.stop_reading()
    publisher = cluster.client("p3")
    for number in range(3_000):
        publisher.publish("q", b"%d" % number)
    assert read_all(client) == [b"%d" % number for number in range(3_000)]


def test_what_was_taken_is_told_seldom(cluster: Joined) -> None:
    client = cluster.client("p2")
    client.queue("q")
    client.consume("q", no_ack=True)
    outbox = cluster["p2"].links.outboxes["p1"]
    before = outbox.sent
    publisher = cluster.client("p1")
    for _ in range(1_000):
        publish_many(publisher, 1)
    assert len(client.bodies()) == 1_000
    assert outbox.sent - before <= 1_000 // 250


def test_nothing_is_sent_into_a_full_outbox(cluster: Joined) -> None:
    client = cluster.client("p2")
    client.queue("q")
    client.consume("q")
    outbox = cluster["p1"].links.outboxes["p2"]
    outbox.bytes_max, before = -1, outbox.bytes_max
    publish_many(cluster.client("p3"), 3)
    assert client.bodies() == [] and len(at_root(cluster)) == 3
    outbox.bytes_max = before
    cluster.tick()
    assert len(client.bodies()) == 3


def test_what_is_cancelled_without_acks_is_still_given_to_the_client(cluster: Joined) -> None:
    """The root has forgotten what was on its way: so much must not depend on how fast a client reads."""
    client = cluster.client("p2")
    client.queue("q")
    client.consume("q", "tag", no_ack=True)
    client.stop_reading()
    publish_many(cluster.client("p3"), 500)
    client.send(BasicCancel(consumer_tag="tag"))
    client.is_reading = True
    client.read_on()
    client.reply(1, BasicCancelOk)
    assert len(client.bodies()) == 500


# -- whose turn


def test_priorities_hold_across_brokers(cluster: Joined) -> None:
    low, high = cluster.client("p1"), cluster.client("p2")
    low.queue("q")
    low.consume("q")
    high.call(BasicQos(prefetch_count=1), BasicQosOk)
    high.consume("q", x_priority=5)
    publish_many(low, 2)
    assert (len(high.bodies()), len(low.bodies())) == (1, 1)


def test_consumers_at_all_brokers_take_turns(cluster: Joined) -> None:
    clients = [cluster.client(name) for name in ("p1", "p2", "p3")]
    clients[0].queue("q")
    for client in clients:
        client.consume("q")
    publish_many(clients[0], 9)
    assert [len(client.bodies()) for client in clients] == [3, 3, 3]


def test_of_a_single_active_consumer_there_is_one_in_the_cluster(cluster: Joined) -> None:
    clients = [cluster.client(name) for name in ("p2", "p3", "p1")]
    clients[0].queue("q", x_single_active_consumer=True)
    for client in clients:
        client.consume("q", "tag")
    publish_many(clients[0], 2)
    assert [len(client.bodies()) for client in clients] == [2, 0, 0]
    clients[0].lose()
    assert [len(client.bodies()) for client in clients[1:]] == [2, 0]


# -- brokers go


def test_what_a_lost_broker_held_goes_to_others(cluster: Joined) -> None:
    lost, other = cluster.client("p2"), cluster.client("p3")
    lost.queue("q")
    lost.consume("q")
    publish_many(other, 3)
    assert lost.get("q") is None
    other.consume("q")
    cluster.kill("p2")
    assert [(each.body, each.redelivered) for each in other.deliveries()] == [(b"body", True)] * 3


def test_what_one_consumer_of_a_lost_broker_held_does_not_go_to_another_of_it(cluster: Joined) -> None:
    lost = cluster.client("p2")
    lost.queue("q")
    lost.consume("q")
    lost.consume("q")
    publish_many(lost, 4)
    cluster.kill("p2")
    assert (len(at_root(cluster)), at_root(cluster).unacked) == (4, 0)


def test_what_a_lost_broker_had_fetched_goes_back(cluster: Joined) -> None:
    lost = cluster.client("p2")
    lost.queue("q")
    publish_many(lost, 2)
    lost.get("q", no_ack=False)
    cluster.kill("p2")
    assert (len(at_root(cluster)), at_root(cluster).unacked) == (2, 0)


def test_an_auto_delete_queue_goes_with_a_lost_broker(cluster: Joined) -> None:
    client = cluster.client("p2")
    client.queue("q", auto_delete=True)
    client.consume("q")
    cluster.kill("p2")
    assert "q" not in cluster.broker("p3").vhosts["/"].queues


def test_a_broker_that_comes_back_has_nothing_of_its_former_life(cluster: Joined) -> None:
    client = cluster.client("p2")
    client.queue("q")
    client.consume("q")
    publish_many(client, 1)
    cluster.kill("p2")
    cluster.start("p2")
    cluster.tick(1_000)
    again = cluster.client("p2")
    again.consume("q")
    assert [(each.body, each.redelivered) for each in again.deliveries()] == [(b"body", True)]
    assert len(proxies(cluster)) == 1


# -- lanes, and words that make no sense


def test_a_lane_is_used_again_when_its_consumer_is_gone(cluster: Joined) -> None:
    client = cluster.client("p2")
    client.queue("q")
    for tag in ("a", "b", "c"):
        client.consume("q", tag)
        client.call(BasicCancel(consumer_tag=tag), BasicCancelOk)
    client.consume("q", "d")
    client.consume("q", "e")
    assert sorted(proxy.lane for proxy in proxies(cluster)) == [SOURCE_LANE_MIN, SOURCE_LANE_MIN + 1]
    publish_many(client, 2)
    assert [each.method.consumer_tag for each in client.deliveries()] == ["d", "e"]


def test_when_all_lanes_are_taken_the_next_consumer_is_refused(
    cluster: Joined, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openclust.cluster.shared_queues.consumer_proxies.LANE_MAX", SOURCE_LANE_MIN)
    client = cluster.client("p2")
    client.queue("q")
    client.consume("q")
    with pytest.raises(ChannelError) as refused:
        question = Consume(
            vhost=b"/",
            queue=b"q",
            source=99,
            consumer_tag=b"t",
            no_ack=True,
            exclusive=False,
            priority=0,
            prefetch=0,
            arguments=b"",
        )
        cluster["p1"].consumer_proxies.ask("p2", question, 1)
    assert refused.value.code == 506


def test_words_about_what_is_not_there_change_nothing(cluster: Joined) -> None:
    client = cluster.client("p2")
    client.queue("q")
    client.consume("q")
    publish_many(client, 2)
    root = cluster["p1"].consumer_proxies
    for source in (proxies(cluster)[0].source, 0, 77):
        root.settle("p2", Settle(source=source, acked=[5, 2**62], returned=[9], rejected=[-1]))
        root.taken("p2", Taken(source, 2**62))
        root.prefetch("nobody", Prefetch(source, 1))
        root.cancel("p3", Cancel(source))
    assert at_root(cluster).unacked == 2
    publish_many(client, 1)
    assert len(client.bodies()) == 3


def test_a_question_asked_twice_makes_one_consumer(cluster: Joined) -> None:
    client = cluster.client("p2")
    client.queue("q")
    cluster.hold("p1", "p2")
    client.send(BasicConsume(queue="q"))
    cluster["p2"].root_requests.ask_again()
    cluster.settle()
    assert len(proxies(cluster)) == len(at_root(cluster).consumers) == 1
    cluster.let_go("p1", "p2")
    publish_many(client, 1)
    assert client.bodies() == [b"body"]
