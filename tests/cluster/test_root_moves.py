"""The root steps down or stands still while clients work: what is confirmed is kept, and goes to the next root."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TypeAlias

import aio_pika
import pytest
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.clients.deadline import eventually
from tests.support.clients.pika_client import bodies, consume, depth, publish, unique
from tests.support.cluster.running_cluster import Primary
from tests.support.cluster.whole_cluster import FAULT, WholeCluster, pump, settle, whole_cluster

pytestmark = pytest.mark.sockets

MOVES = 3
WAIT_S = 30.0
PAUSE_S = 0.4

Move: TypeAlias = Callable[[WholeCluster], Primary]


@pytest.fixture(scope="module")
def moving_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WholeCluster]:
    with whole_cluster(tmp_path_factory.mktemp("moving")) as running:
        yield running


@pytest.fixture
def whole(moving_cluster: WholeCluster) -> Iterator[WholeCluster]:
    moving_cluster.wait_until_whole()
    yield moving_cluster
    moving_cluster.forget_channels()
    moving_cluster.check_definitions()
    moving_cluster.check_logs(FAULT)


def step_down(whole: WholeCluster) -> Primary:
    """Move the root; the next one."""
    old = whole.root()
    whole.api(old, "POST", "cluster/step-down", {"reason": "a test"})
    root = whole.wait_until_whole()
    assert root is not old
    return root


def stand_still(whole: WholeCluster) -> Primary:
    """Stop the root's process until there is another root, and let it go on; the other one."""
    old = whole.root()
    old.send(signal.SIGSTOP)
    try:
        whole.wait_for_root_among(whole.others(old), time.monotonic(), 5.0)
    finally:
        old.send(signal.SIGCONT)
    root = whole.wait_until_whole()
    assert root is not old
    return root


def wait_for_depth(channel: BlockingChannel, queue: str, expected: int) -> None:
    """What moves is told by the root only when it has it."""
    eventually(lambda: depth(channel, queue) == expected)


@pytest.mark.parametrize("move", [step_down, stand_still])
def test_messages_move_with_the_root_and_keep_their_order(whole: WholeCluster, move: Move) -> None:
    queue = unique("moving")
    channel = whole.channel(next(iter(whole.secondaries.values())))
    channel.queue_declare(queue, arguments={"x-max-priority": 3})
    channel.confirm_delivery()
    expected = []
    for number in range(60):
        publish(channel, queue, str(number), priority=number % 3)
        expected.append((-(number % 3), number))
    for _ in range(MOVES):
        move(whole)
        wait_for_depth(channel, queue, 60)
    inbox = consume(channel, queue, auto_ack=True)
    pump([channel], lambda: len(inbox) == 60)
    assert [int(body) for body in bodies(inbox)] == [number for _, number in sorted(expected)]
    channel.queue_delete(queue)


def test_what_was_delivered_and_not_acked_comes_again_from_the_next_root(whole: WholeCluster) -> None:
    queue = unique("moving")
    channels = [whole.channel(each) for each in whole.running()]
    channels[0].queue_declare(queue)
    channels[0].confirm_delivery()
    for channel in channels:
        channel.basic_qos(prefetch_count=1)
    inboxes = [consume(channel, queue) for channel in channels]
    for number in range(5):
        publish(channels[0], queue, str(number))
    pump(channels, lambda: all(inboxes))
    step_down(whole)
    settle(channels)
    for channel, inbox in zip(channels, inboxes, strict=True):
        # Of the old root, and late: the next one has given it out again.
        channel.basic_ack(inbox[0].method.delivery_tag)
    pump(channels, lambda: sum(map(len, inboxes)) == 10)
    again = [inbox[1] for inbox in inboxes]
    assert sorted(each.body for each in again) == [b"0", b"1", b"2", b"3", b"4"]
    assert all(each.method.redelivered for each in again)
    for channel, delivery in zip(channels, again, strict=True):
        channel.basic_ack(delivery.method.delivery_tag)
    wait_for_depth(channels[0], queue, 0)
    settle(channels)
    assert sum(map(len, inboxes)) == 10
    channels[0].queue_delete(queue)


@pytest.mark.parametrize("move", [step_down, stand_still])
def test_all_that_is_confirmed_while_the_root_moves_is_consumed(whole: WholeCluster, move: Move) -> None:
    queue = unique("moving")
    whole.channel(whole.root()).queue_declare(queue)
    confirmed: set[str] = set()
    seen: Counter[str] = Counter()

    async def publish_on(channel: AbstractChannel, name: str, ended: asyncio.Event) -> None:
        exchange = channel.default_exchange
        assert exchange is not None
        number = 0
        while not ended.is_set():
            number += 1
            body = f"{name}.{number}"
            with contextlib.suppress(aio_pika.exceptions.DeliveryError):
                await exchange.publish(aio_pika.Message(body.encode()), queue)
                confirmed.add(body)
            await asyncio.sleep(0.001)

    async def take(message: AbstractIncomingMessage) -> None:
        seen[message.body.decode()] += 1
        await message.ack()

    async def run() -> None:
        ended = asyncio.Event()
        async with contextlib.AsyncExitStack() as stack, asyncio.timeout(WAIT_S):
            channels = []
            for broker in whole.brokers.values():
                connection = await stack.enter_async_context(await aio_pika.connect(broker.place.amqp_url))
                channels.append(await connection.channel())
                consumer = await connection.channel()
                await consumer.set_qos(prefetch_count=5)
                await (await consumer.get_queue(queue)).consume(take)
            names = list(whole.brokers)
            publishers = [
                asyncio.create_task(publish_on(each, name, ended)) for each, name in zip(channels, names, strict=True)
            ]
            for _ in range(MOVES):
                await asyncio.sleep(PAUSE_S)
                await asyncio.to_thread(move, whole)
            ended.set()
            await asyncio.gather(*publishers)
            while not confirmed <= set(seen):
                await asyncio.sleep(0.05)

    try:
        asyncio.run(run())
    except TimeoutError:
        lost = confirmed - set(seen)
        raise AssertionError(
            f"{len(lost)} of {len(confirmed)} confirmed messages were never consumed, such as {sorted(lost)[:10]}"
        ) from None
    assert len(confirmed) > 100
    channel = whole.channel(whole.root())
    wait_for_depth(channel, queue, 0)
    channel.queue_delete(queue)
