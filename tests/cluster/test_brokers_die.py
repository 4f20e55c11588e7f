"""Brokers are killed and come back: what waited goes on, what needs no root never waited, who joins knows all."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from tests.support.clients.deadline import eventually
from tests.support.clients.pika_client import Received, bodies, channel_closed, consume, depth, publish, unique
from tests.support.cluster.running_cluster import Primary
from tests.support.cluster.whole_cluster import (
    FAULT,
    Running,
    WholeCluster,
    letters,
    pump,
    settle,
    wait_until_wanted,
    whole_cluster,
)

pytestmark = pytest.mark.sockets

ROOT_WAIT_MS = 1_500
NEW_ROOT_WITHIN_S = 5.0


@pytest.fixture(scope="module")
def patient_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WholeCluster]:
    with whole_cluster(tmp_path_factory.mktemp("patient")) as running:
        yield running


@pytest.fixture(scope="module")
def impatient_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WholeCluster]:
    with whole_cluster(tmp_path_factory.mktemp("impatient"), f"cluster.root_wait_ms={ROOT_WAIT_MS}") as running:
        yield running


@pytest.fixture
def whole(patient_cluster: WholeCluster) -> Iterator[WholeCluster]:
    """All its brokers run when a test begins."""
    patient_cluster.restart()
    yield patient_cluster
    patient_cluster.restart()
    patient_cluster.forget_channels()
    patient_cluster.check_definitions()
    patient_cluster.check_logs(FAULT)


@pytest.fixture
def impatient(impatient_cluster: WholeCluster) -> Iterator[WholeCluster]:
    """One in which shared work waits for a root only a little."""
    impatient_cluster.restart()
    yield impatient_cluster
    impatient_cluster.restart()
    impatient_cluster.forget_channels()
    impatient_cluster.check_definitions()
    impatient_cluster.check_logs(FAULT)


def subscribe(
    cluster: WholeCluster, brokers: Iterable[Primary], exchange: str
) -> dict[BlockingChannel, list[Received]]:
    """A private queue at each of the brokers, and its inbox."""
    inboxes: dict[BlockingChannel, list[Received]] = {}
    for broker in brokers:
        channel = cluster.channel(broker)
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.queue_bind(queue, exchange, "#")
        inboxes[channel] = consume(channel, queue, auto_ack=True)
    return inboxes


def assert_all_reach_all(cluster: WholeCluster, brokers: list[Primary], exchange: str) -> None:
    """What is published at each of the brokers comes once to a subscriber at each."""
    inboxes = subscribe(cluster, brokers, exchange)
    for broker in brokers:
        channel = cluster.channel(broker)
        wait_until_wanted(channel, exchange, "key", inboxes)
        for inbox in inboxes.values():
            inbox.clear()
        publish(channel, "key", broker.name, exchange)
        pump(list(inboxes), lambda: all(letters(inbox) for inbox in inboxes.values()))
        settle(list(inboxes))
        assert [letters(inbox) for inbox in inboxes.values()] == [[broker.name.encode()]] * len(brokers)
        for inbox in inboxes.values():
            inbox.clear()


# -- who joins


def change_definitions(channel: BlockingChannel, names: dict[str, str]) -> None:
    """What the one that is away must learn: new things, and that an old one is gone."""
    channel.exchange_declare(names["exchange"], "topic", durable=True)
    channel.queue_declare(names["queue"], durable=True, arguments={"x-max-length": 3})
    channel.queue_bind(names["queue"], names["exchange"], "a.#")
    channel.queue_delete(names["old"])


def assert_knows(cluster: WholeCluster, joiner: Primary, names: dict[str, str]) -> None:
    channel = cluster.channel(joiner)
    channel.exchange_declare(names["exchange"], "topic", durable=True, passive=True)
    channel.queue_declare(names["queue"], durable=True, arguments={"x-max-length": 3})
    listed = {each["name"] for each in cluster.api(joiner, "GET", "queues")}
    assert names["queue"] in listed
    assert names["old"] not in listed
    with channel_closed(404, names["old"]):
        channel.queue_declare(names["old"], passive=True)
    channel = cluster.channel(joiner)
    channel.confirm_delivery()
    publish(channel, "a.b", "by the new binding", names["exchange"])
    assert depth(cluster.channel(cluster.root()), names["queue"]) == 1
    channel.queue_purge(names["queue"])


def names_of_test(cluster: WholeCluster) -> dict[str, str]:
    names = {kind: unique(kind) for kind in ("exchange", "queue", "old")}
    cluster.channel(cluster.root()).queue_declare(names["old"])
    return names


def test_a_secondary_that_comes_later_knows_all_and_its_subscribers_get_all(whole: WholeCluster) -> None:
    names = names_of_test(whole)
    joiner, other = whole.secondaries.values()
    joiner.stop()
    change_definitions(whole.channel(other), names)
    whole.api(other, "PUT", "policies/%2F/later", {"pattern": "^later", "definition": {"max-length": 1}})
    whole.restart()
    assert_knows(whole, joiner, names)
    assert "later" in {each["name"] for each in whole.api(joiner, "GET", "policies")}
    assert_all_reach_all(whole, whole.running(), names["exchange"])


@pytest.mark.parametrize("role", ["root", "backup"])
def test_a_primary_that_was_killed_and_comes_back_knows_all_and_its_subscribers_get_all(
    whole: WholeCluster, role: str
) -> None:
    names = names_of_test(whole)
    killed = whole.root() if role == "root" else whole.backups()[0]
    killed.kill()
    change_definitions(whole.channel(next(iter(whole.secondaries.values()))), names)
    whole.restart()
    assert whole.root() is not killed
    assert_knows(whole, killed, names)
    assert_all_reach_all(whole, whole.running(), names["exchange"])


def test_a_secondary_that_is_killed_takes_its_subscriptions_with_it(whole: WholeCluster) -> None:
    exchange = unique("fanout")
    killed = next(iter(whole.secondaries.values()))
    publisher = whole.channel(whole.root())
    publisher.exchange_declare(exchange, "fanout")
    inboxes = subscribe(whole, [killed], exchange)
    wait_until_wanted(publisher, exchange, "", inboxes)
    killed.kill()
    returned: list[bytes] = []
    for broker in whole.running():
        channel = whole.channel(broker)
        channel.add_on_return_callback(lambda _, method, properties, body: returned.append(body))
        returned.clear()

        def is_withdrawn(channel: BlockingChannel = channel) -> bool:
            channel.basic_publish(exchange, "", b"mandatory", mandatory=True)
            return bool(returned)

        pump([channel], is_withdrawn)


# -- the root dies


def test_declares_and_publishes_that_wait_for_a_new_root_are_done(whole: WholeCluster) -> None:
    followers = whole.followers()
    channels = [whole.channel(each) for each in followers]
    queues = [unique("after") for _ in followers]
    kept = unique("kept")
    whole.channel(whole.root()).queue_declare(kept)
    for channel in channels:
        channel.confirm_delivery()
    whole.root().kill()

    def work(number: int) -> None:
        channels[number].queue_declare(queues[number])
        publish(channels[number], queues[number], "waited")
        publish(channels[number], kept, "waited too")

    for each in [Running(work, number) for number in range(len(followers))]:
        each.end()
    for number, channel in enumerate(channels):
        assert [depth(channel, queue) for queue in queues] == [1] * len(queues), number
        assert depth(channel, kept) == len(followers)


def test_every_confirmed_publish_is_answered_though_the_root_dies_in_between(whole: WholeCluster) -> None:
    queue = unique("busy")
    whole.channel(whole.root()).queue_declare(queue)
    followers = whole.followers()
    enough = 2_000
    is_half = threading.Event()

    def stream(broker: Primary) -> set[int]:
        """Publish without waiting; the numbers that were answered."""
        connection = whole.connect(broker)
        channel = connection.channel()
        answered: set[int] = set()
        highest = 0

        def told(frame: Any) -> None:
            nonlocal highest
            tag = frame.method.delivery_tag
            answered.update(range(highest + 1, tag + 1) if frame.method.multiple else [tag])
            highest = tag if frame.method.multiple else highest

        channel._impl.confirm_delivery(told)
        for number in range(enough):
            channel._impl.basic_publish("", queue, b"x" * 100)
            if not number % 20:
                connection.process_data_events(0.001)
            if number == enough // 2:
                is_half.set()
        pump([channel], lambda: answered >= set(range(1, enough + 1)))
        return answered

    streams = [Running(stream, each) for each in followers]
    assert is_half.wait(10)
    whole.root().kill()
    for each in streams:
        assert len(each.end(20)) == enough


def test_consumers_of_other_brokers_are_served_by_the_new_root(whole: WholeCluster) -> None:
    queue = unique("shared")
    whole.channel(whole.root()).queue_declare(queue)
    channels = [whole.channel(each) for each in whole.followers()]
    for channel in channels:
        channel.basic_qos(prefetch_count=1)
    inboxes = [consume(channel, queue) for channel in channels]
    publisher = channels[0]
    eventually(lambda: publisher.queue_declare(queue, passive=True).method.consumer_count == 4)
    for number in range(4):
        publish(publisher, queue, str(number))
    pump(channels, lambda: all(inboxes))
    whole.root().kill()
    # Each may still ack what it had of the old root, and then gets what the new root has.
    for channel, inbox in zip(channels, inboxes, strict=True):
        channel.basic_ack(inbox[0].method.delivery_tag)
    eventually(lambda: publisher.queue_declare(queue, passive=True).method.consumer_count == 4)
    for number in range(4, 8):
        publish(publisher, queue, str(number))
    pump(channels, lambda: all(len(inbox) == 2 for inbox in inboxes))
    assert sorted(inbox[1].body for inbox in inboxes) == [b"4", b"5", b"6", b"7"]
    for channel, inbox in zip(channels, inboxes, strict=True):
        channel.basic_ack(inbox[1].method.delivery_tag)
    assert all(channel.is_open for channel in channels)


def test_private_messages_go_on_between_those_who_live_while_the_root_is_replaced(whole: WholeCluster) -> None:
    exchange = unique("fanout")
    followers = whole.followers()
    root = whole.root()
    whole.channel(root).exchange_declare(exchange, "fanout")
    # Primaries have links to each other; secondaries speak through one of them, which may be the one that dies.
    primaries = [each for each in followers if each.name in whole.primaries]
    inboxes = subscribe(whole, followers, exchange)
    publishers = [whole.channel(each) for each in primaries]
    for publisher in publishers:
        wait_until_wanted(publisher, exchange, "", inboxes)
    sent = []
    killed_at = None
    for number in range(200):
        for publisher in publishers:
            body = b"%d" % len(sent)
            publisher.basic_publish(exchange, "", body)
            sent.append(body)
        if number == 20:
            root.kill()
            killed_at = time.monotonic()
        time.sleep(0.002)
    assert killed_at is not None
    pump(list(inboxes), lambda: all(len(letters(inbox)) >= len(sent) for inbox in inboxes.values()))
    settle(list(inboxes))
    for inbox in inboxes.values():
        assert sorted(map(int, letters(inbox))) == list(range(len(sent)))


# -- no root


def test_publishers_are_told_that_they_wait_and_go_on_when_there_is_a_root_again(whole: WholeCluster) -> None:
    queue = unique("shared")
    whole.channel(whole.root()).queue_declare(queue)
    left = whole.without_root()
    events: dict[str, list[str]] = {each.name: [] for each in left}

    def work(broker: Primary) -> None:
        connection = whole.connect(broker)
        told = events[broker.name]
        connection.add_on_connection_blocked_callback(lambda _, method: told.append(method.method.reason))
        connection.add_on_connection_unblocked_callback(lambda _, method: told.append("unblocked"))
        channel = connection.channel()
        channel.confirm_delivery()
        publish(channel, queue, "waits")
        pump([channel], lambda: len(told) == 2)

    workers = [Running(work, each) for each in left]
    declares = [Running(whole.connect(each).channel().queue_declare, unique("waits")) for each in left]
    eventually(lambda: all((seen := each.ask()) and all(seen["waiting_for_root"].values()) for each in left))
    assert all(each.is_alive() for each in [*workers, *declares]), "nothing of this can be done without a root"
    whole.restart()
    for each in [*workers, *declares]:
        each.end()
    assert list(events.values()) == [["the cluster has no root", "unblocked"]] * 3
    assert depth(whole.channel(whole.root()), queue) == 3


def test_private_messages_go_on_without_a_root(whole: WholeCluster) -> None:
    exchange = unique("topic")
    whole.channel(whole.root()).exchange_declare(exchange, "topic")
    left = whole.without_root()
    assert len(left) == 3
    assert_all_reach_all(whole, left, exchange)


def test_shared_work_waits_for_a_root_only_so_long_and_private_work_goes_on(impatient: WholeCluster) -> None:
    queue, exchange = unique("shared"), unique("topic")
    channel = impatient.channel(impatient.root())
    channel.queue_declare(queue)
    channel.exchange_declare(exchange, "topic")
    left = impatient.without_root()

    def refused(act: Any, broker: Primary) -> float:
        channel = impatient.connect(broker).channel()
        began = time.monotonic()
        with pytest.raises(ChannelClosedByBroker) as closed:
            act(channel)
        assert closed.value.reply_code == 506
        assert "no root" in closed.value.reply_text
        assert str(ROOT_WAIT_MS) in closed.value.reply_text
        return time.monotonic() - began

    def publishes(channel: BlockingChannel) -> None:
        channel.confirm_delivery()
        publish(channel, queue, "in vain")

    def declares(channel: BlockingChannel) -> None:
        channel.queue_declare(unique("in.vain"))

    def binds(channel: BlockingChannel) -> None:
        channel.queue_bind(queue, exchange, "#")

    def asks(channel: BlockingChannel) -> None:
        channel.queue_declare(queue, passive=True)

    def gets(channel: BlockingChannel) -> None:
        channel.basic_get(queue)

    acts = (publishes, declares, binds, asks, gets)
    for each in [Running(refused, act, broker) for act in acts for broker in left]:
        assert ROOT_WAIT_MS / 1_000 * 0.9 < each.end() < ROOT_WAIT_MS / 1_000 + 1
    assert_all_reach_all(impatient, left, exchange)
    # Nothing of it is done afterwards.
    impatient.restart()
    assert depth(impatient.channel(impatient.root()), queue) == 0


def test_a_root_that_stood_still_confirms_nothing_of_what_it_had_not_given_on(whole: WholeCluster) -> None:
    queue = unique("shared")
    root = whole.root()
    client = whole.connect(root).channel()
    client.queue_declare(queue)
    client.confirm_delivery()
    root.send(signal.SIGSTOP)
    try:
        whole.wait_for_root_among(whole.others(root), time.monotonic(), NEW_ROOT_WITHIN_S)
        waiting = Running(publish, client, queue, "to a root of old")
        time.sleep(0.1)
    finally:
        root.send(signal.SIGCONT)
    try:
        waiting.end()
    except pika.exceptions.NackError:
        return  # its publisher may try again
    # It was confirmed: then the new root has it.
    assert depth(whole.channel(whole.wait_until_whole()), queue) == 1


def test_what_is_confirmed_after_the_killed_come_back_is_there_for_all(whole: WholeCluster) -> None:
    """Three times in turn, as a rolling restart by force."""
    queue = unique("durable")
    whole.channel(whole.root()).queue_declare(queue, durable=True)
    for name in list(whole.primaries):
        whole.brokers[name].kill()
        whole.restart()
        for broker in whole.running():
            channel = whole.channel(broker)
            channel.confirm_delivery()
            channel.queue_purge(queue)
            publish(channel, queue, "one")
            inbox = consume(channel, queue, auto_ack=True)
            pump([channel], lambda inbox=inbox: inbox)
            assert bodies(inbox) == [b"one"]
            channel.close()
