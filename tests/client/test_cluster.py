"""Our client and a cluster of real processes: it is spread, finds the root, and goes on when the root is killed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import aio_pika
import pytest

from openclust.client import NoBroker, connect, connect_robust
from tests.support.cluster.running_cluster import Primary, RunningCluster, run_command, running_cluster

pytestmark = pytest.mark.sockets

DEADLINE_S = 20.0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RunningCluster]:
    with running_cluster(tmp_path) as started:
        yield started


def url_of(primary: Primary, vhost: str = "") -> str:
    return f"amqp://guest:guest@127.0.0.1:{primary.place.client_port}/{vhost}"


async def knows_all(first: Primary) -> None:
    """Wait until a broker tells of all three: how the others are reached, it hears within a second."""
    while True:
        async with await connect(url_of(first)) as connection:
            if len(connection.known_hosts) == 3:
                return
        await asyncio.sleep(0.05)


def test_clients_of_one_url_are_spread_over_all_brokers(cluster: RunningCluster) -> None:
    first, *_ = cluster.primaries.values()

    async def scene() -> None:
        async with asyncio.timeout(DEADLINE_S):
            await knows_all(first)
            connections = [await connect(url_of(first)) for _ in range(9)]
            ports = Counter(each.url.port for each in connections)
            for each in connections:
                await each.close()
            assert set(ports) == {each.place.client_port for each in cluster.primaries.values()}
            assert max(ports.values()) - min(ports.values()) <= 1
            with pytest.raises(NoBroker, match=r"closed with 402, .*cluster key 'other' is wrong"):
                await connect(url_of(first), cluster_key="other")
            for url, key in [(url_of(first), "test"), (url_of(first, "test"), "")]:
                await (await connect(url, cluster_key=key)).close()

    asyncio.run(scene())


def test_who_asks_for_the_root_is_there_again_after_the_root_was_killed(cluster: RunningCluster) -> None:
    root = cluster.root()
    other = cluster.others(root)[0]

    async def scene() -> None:
        arrived: asyncio.Queue[bytes] = asyncio.Queue()

        async def take(message: aio_pika.abc.AbstractIncomingMessage) -> None:
            arrived.put_nowait(message.body)

        async with asyncio.timeout(DEADLINE_S):
            await knows_all(other)
            async with await connect_robust(url_of(other), root=True, reconnect_interval=0.01) as connection:
                assert connection.url.port == root.place.client_port
                channel = await connection.channel()
                exchange = await channel.declare_exchange("news", "fanout", durable=True)
                queue = await channel.declare_queue(exclusive=True)
                await queue.bind(exchange)
                await queue.consume(take, no_ack=True)

                back = asyncio.Event()
                connection.reconnect_callbacks.add(lambda *_: back.set())
                root.kill()
                await back.wait()
                assert connection.url.port != root.place.client_port
                await exchange.publish(aio_pika.Message(b"hello"), "")
                assert await arrived.get() == b"hello"

    asyncio.run(scene())
    asyncio.run(asked_for_again(cluster, other))


async def asked_for_again(cluster: RunningCluster, way: Primary) -> None:
    """Who asks when brokers have heard of the new root gets there."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            async with await connect(url_of(way), root=True) as connection:
                if [connection.url.port] == [cluster.primaries[name].place.client_port for name in cluster.roots()]:
                    return
            await asyncio.sleep(0.05)


def test_a_broker_that_is_drained_sends_its_clients_on(cluster: RunningCluster) -> None:
    drained, *others = cluster.primaries.values()

    async def scene() -> None:
        async with asyncio.timeout(DEADLINE_S):
            await knows_all(drained)
            async with await connect_robust(url_of(drained), reconnect_interval=0.01) as connection:
                channel = await connection.channel()
                queue = await channel.declare_queue(exclusive=True)
                assert connection.url.port == drained.place.client_port
                back = asyncio.Event()
                connection.reconnect_callbacks.add(lambda *_: back.set())
                command = ("drain", drained.name, "--url", drained.place.http_url)
                done = await asyncio.to_thread(run_command, *command)
                assert done.returncode == 0, done.stderr
                await back.wait()
                assert connection.url.port in [each.place.client_port for each in others]
                await channel.default_exchange.publish(aio_pika.Message(b"hello"), queue.name)
                message = await queue.get()
                assert message.body == b"hello"

    asyncio.run(scene())
