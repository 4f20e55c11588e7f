"""Runs across brokers: what comes together goes together, from the publisher's broker by the root to the consumer's."""

from __future__ import annotations

from typing import Any

import pytest

from openclust.broker.amqp.channel import Channel
from openclust.broker.delivery.consumer import Consumer
from openclust.broker.queues.queue import Queue
from openclust.cluster.shared_queues.consumer_proxy import AHEAD_MAX, ConsumerProxy
from openclust.wire.methods import BasicCancel, BasicCancelOk
from tests.support.client import publish_frames
from tests.support.cluster.joined import FRAME_MAX, Application, Joined

BODIES = [b"%04d" % number for number in range(500)]
VARIED = [b"x" * (1 + number * 37 % 400) for number in range(500)]


@pytest.fixture
def cluster() -> Joined:
    return Joined("p1", "p2", "p3", secondaries=("s1",))


@pytest.fixture
def long_way(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What did not go with others."""
    found: list[bytes] = []
    publish = Queue.publish

    def watched(queue: Queue, message: Any) -> bool:
        found.append(message.body)
        return publish(queue, message)

    monkeypatch.setattr(Queue, "publish", watched)
    return found


def feed(client: Application, bodies: list[bytes], **properties: Any) -> None:
    client.feed(b"".join(publish_frames("q", body, **properties) for body in bodies))


def taker(cluster: Joined, name: str, **arguments: Any) -> Application:
    client = cluster.client(name, **arguments)
    client.queue("q")
    client.consume("q", "tag", no_ack=True)
    return client


def root_queue(cluster: Joined) -> Queue:
    return cluster.broker(cluster.root).vhosts["/"].queues["q"]


def the_proxy(cluster: Joined) -> ConsumerProxy:
    (proxy,) = cluster[cluster.root].consumer_proxies
    return proxy


@pytest.mark.parametrize("bodies", [BODIES, VARIED], ids=["one size", "any size"])
@pytest.mark.parametrize("publishing", ["p1", "p2", "s1"])
@pytest.mark.parametrize("consuming", ["p1", "p3", "s1"])
def test_a_run_reaches_a_consumer_anywhere_in_order_and_once(
    cluster: Joined, long_way: list[bytes], publishing: str, consuming: str, bodies: list[bytes]
) -> None:
    client, publisher = taker(cluster, consuming), cluster.client(publishing)
    # Both the publisher's broker and the root know the way of such messages from then on.
    feed(publisher, [b"first"])
    feed(publisher, [b"second"])
    long_way.clear()
    feed(publisher, bodies)
    assert client.bodies() == [b"first", b"second", *bodies]
    assert long_way == []
    assert len(root_queue(cluster)) == root_queue(cluster).unacked == 0
    assert all(cluster.broker(name).memory_accounts.held_bytes == 0 for name in cluster.members)


def test_properties_cross_with_a_run(cluster: Joined) -> None:
    client, publisher = taker(cluster, "p2"), cluster.client("p3")
    for _ in range(2):
        feed(publisher, BODIES, content_type="text/plain", message_id="m")
    deliveries = client.deliveries()
    assert [each.body for each in deliveries] == BODIES * 2
    assert {(each.properties.content_type, each.properties.message_id) for each in deliveries} == {("text/plain", "m")}
    assert [each.tag for each in deliveries] == list(range(1, 1_001))


@pytest.mark.parametrize("bodies", [BODIES, VARIED], ids=["one size", "any size"])
def test_a_consumer_that_reads_nothing_is_sent_no_more_than_the_window(bodies: list[bytes]) -> None:
    cluster = Joined("p1", "p2", "p3", outbox_bytes_max=4_000)
    client, publisher = taker(cluster, "p2"), cluster.client("p3")
    client.stop_reading()
    for _ in range(8):
        feed(publisher, bodies)
    proxy = the_proxy(cluster)
    assert proxy.room == 0 or proxy.ahead_bytes > 0
    assert 8 * len(bodies) - len(root_queue(cluster)) < AHEAD_MAX + 700
    client.is_reading = True
    client.read_on()
    assert client.bodies() == bodies * 8
    # What it had taken when it was asked last is told; the rest is told with what comes.
    assert proxy.ahead_bytes >= 0 and sum(proxy._ahead) == proxy.ahead_bytes
    assert proxy.room + len(proxy._ahead) == AHEAD_MAX


def test_the_window_opens_again_as_runs_are_taken(cluster: Joined) -> None:
    client, publisher = taker(cluster, "p2"), cluster.client("p3")
    for _ in range(40):
        feed(publisher, BODIES)
    assert client.bodies() == BODIES * 40
    assert the_proxy(cluster).number == 20_000


def test_a_run_larger_than_the_room_leaves_its_rest_in_the_queue(cluster: Joined) -> None:
    client, publisher = taker(cluster, "p2"), cluster.client("p3")
    feed(publisher, [b"first"])
    the_proxy(cluster).room = 100
    feed(publisher, BODIES)
    assert client.bodies() == [b"first", *BODIES[:100]]
    assert [each.message.body for each in root_queue(cluster).backlog] == BODIES[100:]


def test_a_run_into_a_full_outbox_stays_in_the_queue(cluster: Joined) -> None:
    client, publisher = taker(cluster, "p2"), cluster.client("p3")
    feed(publisher, [b"first"])
    outbox = cluster["p1"].links.outboxes["p2"]
    outbox.bytes_max, before = -1, outbox.bytes_max
    feed(publisher, BODIES)
    assert client.bodies() == [b"first"] and len(root_queue(cluster)) == 500
    outbox.bytes_max = before
    cluster.tick()
    assert client.bodies() == BODIES


def test_the_publisher_of_a_run_waits_when_the_link_to_the_root_is_full(cluster: Joined) -> None:
    taker(cluster, "p2")
    publisher = cluster.client("p3")
    feed(publisher, [b"first"])
    feed(publisher, [b"second"])
    outbox = cluster["p3"].links.outboxes["p1"]
    outbox.bytes_max, before = 1_000, outbox.bytes_max
    publisher.connection.receive(b"".join(publish_frames("q", body) for body in BODIES))
    assert publisher.connection.hold == "cluster"
    outbox.bytes_max = before
    cluster.tick()
    assert publisher.connection.hold == ""


def test_messages_larger_than_a_frame_of_the_link_go_one_by_one(cluster: Joined) -> None:
    client, publisher = taker(cluster, "p2", frame_max=4_096), cluster.client("p3")
    bodies = [bytes([number]) * (FRAME_MAX - 7) for number in range(3)]
    for _ in range(2):
        for body in bodies:
            publisher.publish("q", body, pieces=100_000)
    assert client.bodies() == bodies * 2


def test_what_is_on_its_way_when_a_consumer_cancels_is_still_given_to_it(cluster: Joined) -> None:
    client, publisher = taker(cluster, "p2"), cluster.client("p3")
    feed(publisher, [b"first"])
    cluster.hold("p1", "p2")
    feed(publisher, BODIES)
    cluster.let_go("p1", "p2")
    client.send(BasicCancel(consumer_tag="tag"))
    client.reply(1, BasicCancelOk)
    assert client.bodies() == [b"first", *BODIES]


def test_a_run_goes_to_the_next_root_after_the_root_was_killed(cluster: Joined) -> None:
    client, publisher = taker(cluster, "p2"), cluster.client("s1")
    feed(publisher, BODIES)
    cluster.kill("p1")
    cluster.await_root()
    feed(publisher, BODIES)
    feed(publisher, BODIES)
    assert client.bodies() == BODIES * 3


def test_whoever_publishes_or_delivers_in_a_way_of_its_own_says_so_for_runs_too() -> None:
    """Else what is done for each message would be left out for those that come together."""

    def kinds(of: type) -> list[type]:
        return [each for kind in of.__subclasses__() for each in (kind, *kinds(kind))]

    for kind in kinds(Channel):
        assert "publish" not in vars(kind) or "publish_run" in vars(kind), kind.__name__
    for kind in kinds(Consumer):
        takes_none = kind.pass_run is Consumer.pass_run  # type: ignore[attr-defined]
        assert takes_none or "deliver" not in vars(kind) or "pass_run" in vars(kind), kind.__name__
