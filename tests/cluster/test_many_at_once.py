"""Many aio-pika clients at all brokers at the same time: nothing is lost, nothing comes twice that was acked."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import AsyncIterator

import aio_pika
import pytest
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage

from tests.support.clients.pika_client import depth, unique
from tests.support.cluster.running_cluster import Primary
from tests.support.cluster.whole_cluster import WholeCluster

pytestmark = pytest.mark.sockets

MESSAGES = 300
WAIT_S = 30.0


@contextlib.asynccontextmanager
async def clients(whole: WholeCluster, each: int = 1) -> AsyncIterator[list[AbstractChannel]]:
    """Channels on connections of their own, so many at each broker."""
    async with contextlib.AsyncExitStack() as stack:
        channels = []
        for broker in whole.brokers.values():
            for _ in range(each):
                connection = await stack.enter_async_context(await aio_pika.connect(broker.place.amqp_url))
                channels.append(await connection.channel())
        yield channels


async def publish_all(channel: AbstractChannel, queue: str, name: str) -> None:
    """Many confirms in flight at a time."""
    exchange = channel.default_exchange
    assert exchange is not None
    for start in range(0, MESSAGES, 50):
        numbers = range(start, min(start + 50, MESSAGES))
        await asyncio.gather(
            *(exchange.publish(aio_pika.Message(f"{name}.{number}".encode()), queue) for number in numbers)
        )


def expected(whole: WholeCluster) -> set[str]:
    return {f"{name}.{number}" for name in whole.brokers for number in range(MESSAGES)}


@pytest.mark.parametrize("prefetch", [1, 20, 0])
def test_what_all_publish_is_consumed_once_by_one_of_all(whole: WholeCluster, prefetch: int) -> None:
    queue = unique("busy")
    whole.channel(whole.root()).queue_declare(queue)
    seen: Counter[str] = Counter()
    by_consumer: Counter[int] = Counter()

    async def run() -> None:
        done = asyncio.Event()
        async with clients(whole) as publishers, clients(whole) as consumers:
            for number, channel in enumerate(consumers):
                await channel.set_qos(prefetch_count=prefetch)

                async def take(message: AbstractIncomingMessage, number: int = number) -> None:
                    assert not message.redelivered
                    seen[message.body.decode()] += 1
                    by_consumer[number] += 1
                    await message.ack()
                    if len(seen) == len(expected(whole)):
                        done.set()

                await (await channel.get_queue(queue)).consume(take)
            names = list(whole.brokers)
            await asyncio.gather(
                *(publish_all(each, queue, name) for each, name in zip(publishers, names, strict=True))
            )
            await asyncio.wait_for(done.wait(), WAIT_S)
            await asyncio.sleep(0.05)

    asyncio.run(run())
    assert set(seen) == expected(whole)
    assert set(seen.values()) == {1}
    assert len(by_consumer) == 5, "every broker's consumer had its share"
    channel = whole.channel(whole.root())
    assert depth(channel, queue) == 0
    channel.queue_delete(queue)


def test_consumers_that_come_and_go_and_refuse_lose_nothing(whole: WholeCluster) -> None:
    queue = unique("restless")
    whole.channel(whole.root()).queue_declare(queue)
    acked: Counter[str] = Counter()
    chance = random.Random(4711)

    async def consume_for_a_while(broker: Primary, ended: asyncio.Event) -> None:
        """Take some, ack some, nack some, and leave with the rest."""
        while not ended.is_set():
            connection = await aio_pika.connect(broker.place.amqp_url)
            channel = await connection.channel()
            await channel.set_qos(prefetch_count=7)
            left = asyncio.Event()
            acks: list[asyncio.Future[None]] = []
            patience = chance.randrange(20, 120)

            async def take(
                message: AbstractIncomingMessage,
                left: asyncio.Event = left,
                acks: list[asyncio.Future[None]] = acks,
            ) -> None:
                nonlocal patience
                patience -= 1
                if left.is_set():
                    return
                what = chance.random()
                if what < 0.1:
                    await message.nack(requeue=True)
                elif what < 0.2:
                    await message.reject(requeue=True)
                elif what < 0.95:
                    acked[message.body.decode()] += 1
                    acks.append(asyncio.ensure_future(message.ack()))
                    if len(acked) == len(expected(whole)):
                        ended.set()
                if patience <= 0:
                    left.set()

            await (await channel.get_queue(queue)).consume(take)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(left.wait(), 0.3)
            left.set()
            # The client drops what it has not written yet when it closes a connection.
            await asyncio.gather(*acks)
            if chance.random() < 0.5:
                await channel.close()
            await connection.close()

    async def run() -> None:
        ended = asyncio.Event()
        async with clients(whole) as publishers, asyncio.timeout(WAIT_S):
            names = list(whole.brokers)
            await asyncio.gather(
                *(consume_for_a_while(broker, ended) for broker in whole.brokers.values()),
                *(publish_all(each, queue, name) for each, name in zip(publishers, names, strict=True)),
            )

    asyncio.run(run())
    assert set(acked) == expected(whole)
    # An ack just before a connection is closed counts: nothing that was acked comes again.
    assert set(acked.values()) == {1}
    channel = whole.channel(whole.root())
    assert depth(channel, queue) == 0
    channel.queue_delete(queue)


def test_gets_at_all_brokers_share_a_queue(whole: WholeCluster) -> None:
    queue = unique("fetched")
    whole.channel(whole.root()).queue_declare(queue)
    fetched: Counter[str] = Counter()

    async def fetch(channel: AbstractChannel) -> None:
        found = await channel.get_queue(queue)
        while (message := await found.get(fail=False)) is not None:
            fetched[message.body.decode()] += 1
            await message.ack()

    async def run() -> None:
        async with clients(whole) as channels:
            names = list(whole.brokers)
            await asyncio.gather(*(publish_all(each, queue, name) for each, name in zip(channels, names, strict=True)))
            await asyncio.gather(*map(fetch, channels))

    asyncio.run(run())
    assert set(fetched) == expected(whole)
    assert set(fetched.values()) == {1}
    channel = whole.channel(whole.root())
    assert depth(channel, queue) == 0
    channel.queue_delete(queue)


def test_subscribers_that_come_and_go_leave_no_meta_bindings(whole: WholeCluster) -> None:
    exchange = unique("topic")
    whole.channel(whole.root()).exchange_declare(exchange, "topic")

    async def visit(broker: Primary, number: int) -> None:
        connection = await aio_pika.connect(broker.place.amqp_url)
        channel = await connection.channel()
        queue = await channel.declare_queue(exclusive=True)
        for key in ("a.#", f"b.{number}", "c.*.d"):
            await queue.bind(exchange, key)
        if number % 3:
            await queue.unbind(exchange, "a.#")
        if number % 2:
            await queue.delete(if_unused=False, if_empty=False)
        await connection.close()

    async def run() -> None:
        await asyncio.gather(*(visit(broker, number) for broker in whole.brokers.values() for number in range(10)))

    asyncio.run(run())
    for broker in whole.brokers.values():
        channel = whole.channel(broker)
        returned: list[str] = []
        channel.add_on_return_callback(
            lambda _, method, properties, body, returned=returned: returned.append(method.routing_key)
        )
        keys = {"a.b", "b.3", "c.x.d"}
        for _ in range(100):
            for key in keys:
                channel.basic_publish(exchange, key, b"", mandatory=True)
            channel.connection.process_data_events(0.02)
            if set(returned) == keys:
                break
        assert set(returned) == keys, f"{broker.name} still knows somebody who wants {keys - set(returned)}"
