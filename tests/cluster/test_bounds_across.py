"""Where a cluster stops: definitions that fill it, a root without memory, messages that wait for no root."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pika
import pytest
from pika.exceptions import ChannelClosedByBroker

from tests.support.clients.deadline import eventually
from tests.support.clients.pika_client import channel_closed, consume, depth, publish, unique
from tests.support.cluster.running_cluster import Primary
from tests.support.cluster.whole_cluster import FAULT, ROLES, Running, WholeCluster, one_of, pump, whole_cluster

pytestmark = pytest.mark.sockets

MEGABYTE = 1_048_576
MEMORY_BYTES = 72 * MEGABYTE
"""A broker needs some 45 MB for itself; what is left is for messages."""
SETTINGS = (
    "cluster.state_max_mb=1",
    "cluster.waiting_mb_max=1",
    f"limits.memory_high_watermark={MEMORY_BYTES}",
)

every_role = pytest.mark.parametrize("role", ROLES)


@pytest.fixture(scope="module")
def narrow_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WholeCluster]:
    with whole_cluster(tmp_path_factory.mktemp("narrow"), *SETTINGS) as running:
        yield running


@pytest.fixture
def whole(narrow_cluster: WholeCluster) -> Iterator[WholeCluster]:
    narrow_cluster.restart()
    yield narrow_cluster
    narrow_cluster.restart()
    narrow_cluster.forget_channels()
    narrow_cluster.check_definitions()
    narrow_cluster.check_logs(FAULT)


@every_role
def test_a_declare_too_many_is_refused_and_nothing_else_suffers(whole: WholeCluster, role: str) -> None:
    channel = whole.channel(one_of(whole, role))
    declared: list[str] = []
    with channel_closed(506, "definitions", "1 MB", "state_max_mb"):
        for _ in range(30):
            name = unique("large")
            channel.queue_declare(name, arguments={"x-note": "x" * 60_000})
            declared.append(name)
    assert len(declared) > 10
    for broker in whole.brokers.values():
        other = whole.channel(broker)
        assert other.queue_declare(declared[0], passive=True)
        private = other.queue_declare("", exclusive=True).method.queue
        other.queue_bind(private, "amq.topic", "a.#")
        other.confirm_delivery()
        publish(other, declared[0], "still served")
        # Deleting what is there is always allowed.
        with channel_closed(506, "definitions"):
            other.queue_declare(unique("one.more"))
    channel = whole.channel(one_of(whole, role))
    assert depth(channel, declared[0]) == 5
    for name in declared:
        channel.queue_delete(name)
    name = unique("room.again")
    channel.queue_declare(name)
    channel.queue_delete(name)


@every_role
def test_publishers_wait_while_the_root_is_short_of_memory_and_nothing_is_lost(whole: WholeCluster, role: str) -> None:
    queue = unique("flood")
    body, count = b"x" * 100_000, 600
    consumer = whole.channel(one_of(whole, "secondary"))
    consumer.queue_declare(queue)

    def flood(broker: Primary) -> None:
        channel = whole.connect(broker).channel()
        for _ in range(count):
            channel.basic_publish("", queue, body)
        # The connection is read to its end before this is answered.
        channel.queue_declare(queue, passive=True)

    flooding = Running(flood, one_of(whole, role))

    def it_grows_no_more() -> bool:
        before = depth(consumer, queue)
        time.sleep(0.3)
        return 0 < before == depth(consumer, queue)

    eventually(it_grows_no_more)
    assert flooding.is_alive(), "its publisher was not made to wait"
    # Others do not wait, as long as they do not publish.
    assert depth(whole.channel(one_of(whole, "backup")), queue) < count
    inbox = consume(consumer, queue, auto_ack=True)
    pump([consumer], lambda: len(inbox) == count, within_s=30)
    flooding.end()
    consumer.queue_delete(queue)


def test_what_waits_for_a_root_has_a_limit_and_the_rest_waits_on(whole: WholeCluster) -> None:
    queue = unique("shared")
    whole.channel(whole.root()).queue_declare(queue)
    left = whole.without_root()
    body = b"x" * 400_000

    def work(broker: Primary) -> int:
        connection = whole.connect(broker)
        channel = connection.channel()
        channel.confirm_delivery()
        try:
            channel.basic_publish("", queue, body)
        except ChannelClosedByBroker as error:
            assert "waiting_mb_max" in error.reply_text
            return error.reply_code
        return 0

    for broker in left:
        publishing = [Running(work, broker) for _ in range(4)]
        eventually(lambda publishing=publishing: sum(not each.is_alive() for each in publishing) == 2)
        assert [each.end() for each in publishing if not each.is_alive()] == [506, 506]
        with pytest.raises(ChannelClosedByBroker):
            whole.connect(broker).channel().basic_get(unique("none"))
    whole.restart()
    channel = whole.channel(whole.root())
    eventually(lambda: depth(channel, queue) == 2 * len(left))
    channel.queue_delete(queue)


def test_a_client_that_leaves_while_its_declare_waits_harms_nobody(whole: WholeCluster) -> None:
    left = whole.without_root()
    names = [unique("left") for _ in left]
    for broker, name in zip(left, names, strict=True):
        connection = whole.connect(broker)
        channel = connection.channel()
        waiting = Running(channel.queue_declare, name)
        eventually(lambda: (seen := broker.ask()) and seen["waiting_for_root"]["requests"])  # noqa: B023
        connection._impl._transport._sock.shutdown(socket.SHUT_RDWR)
        with pytest.raises(pika.exceptions.AMQPError):
            waiting.end()
    root = whole.restart()
    # Asked for is asked for: it may be there, and then it is there for all.
    whole.check_definitions()
    channel = whole.channel(root)
    for name in names:
        channel.queue_delete(name)
