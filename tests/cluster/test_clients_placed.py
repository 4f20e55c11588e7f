"""Real clients of a real cluster: where they come to be, and what a drain does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pika
import pytest

from openclust import client
from tests.support.clients.deadline import eventually
from tests.support.cluster.running_cluster import Primary, RunningCluster, run_command, running_cluster

pytestmark = pytest.mark.sockets

WAIT_S = 30.0


@pytest.fixture
def balanced(tmp_path: Path) -> Iterator[RunningCluster]:
    with running_cluster(tmp_path) as cluster:
        eventually(lambda: all(_knows_all(each) for each in cluster.primaries.values()), within_s=20)
        yield cluster


@pytest.fixture
def passive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningCluster]:
    """A cluster in which everybody is served by the root."""
    monkeypatch.setenv("OPENCLUST_REDIRECT_MODE", "active-passive")
    monkeypatch.setenv("OPENCLUST_REDIRECT_FALLBACK", "proxy")
    with running_cluster(tmp_path) as cluster:
        eventually(lambda: all(_knows_all(each) for each in cluster.primaries.values()))
        yield cluster


def _knows_all(primary: Primary) -> bool:
    """Whether its roster has all three: it tells nobody of brokers that it does not know."""
    connection = pika.BlockingConnection(_parameters(primary))
    known = str(connection._impl.known_hosts)
    connection.close()
    return known.count(",") == 2


def _parameters(primary: Primary) -> pika.ConnectionParameters:
    return pika.ConnectionParameters("127.0.0.1", primary.place.client_port)


def counts(cluster: RunningCluster) -> dict[str, int]:
    return {name: seen["connections"] for name, each in cluster.primaries.items() if (seen := each.ask())}


def url(primary: Primary) -> str:
    return f"amqp://guest:guest@127.0.0.1:{primary.place.client_port}/"


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(WAIT_S):
            await test()

    asyncio.run(bounded())


async def until(condition: Callable[[], bool]) -> None:
    while not await asyncio.to_thread(condition):
        await asyncio.sleep(0.05)


def test_24_clients_of_one_address_are_8_at_each_broker_and_a_drain_leaves_none(balanced: RunningCluster) -> None:
    p1, p2, p3 = balanced.primaries.values()

    async def test() -> None:
        connections = [await client.connect_robust(url(p1)) for _ in range(24)]
        await until(lambda: counts(balanced) == {"p1": 8, "p2": 8, "p3": 8})
        drained = await asyncio.to_thread(run_command, "drain", "p2", "--url", p1.place.http_url)
        assert (drained.returncode, drained.stderr) == (0, "")
        assert drained.stdout.startswith("p2 sends its 8 clients away, at most 100 a second.")
        await until(lambda: counts(balanced)["p2"] == 0 and sum(counts(balanced).values()) == 24)
        refused = await asyncio.to_thread(run_command, "drain", "p3", "--url", p1.place.http_url)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert "1 of 3 primaries (p1), too few to elect a root; --force" in refused.stderr
        newcomer = await client.connect(url(p2))
        await until(lambda: counts(balanced)["p2"] == 0)
        for each in [*connections, newcomer]:
            await each.close()

    run(test)
    assert p3.is_running


def test_active_passive_serves_all_by_the_root(passive: RunningCluster) -> None:
    root = passive.root()
    backup = passive.others(root)[0]
    stock = pika.BlockingConnection(_parameters(backup))
    channel = stock.channel()
    channel.queue_declare("q")
    channel.basic_publish("", "q", b"through")
    assert counts(passive)[backup.name] == 0, "its bytes go through, and that is all"

    async def test() -> None:
        async with await client.connect(url(backup)) as connection:
            assert counts(passive)[root.name] == 2
            message = await (await connection.channel()).get_queue("q")
            assert (await message.get(no_ack=True)).body == b"through"

    run(test)
    stock.close()
