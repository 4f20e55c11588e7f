"""Thousands of queues in a cluster of processes: the root stays one while it tells them to who has none."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import aiormq
import pytest

from tests.support.clients.deadline import eventually
from tests.support.cluster.running_cluster import Primary, RunningCluster, running_cluster

pytestmark = pytest.mark.sockets

QUEUES = 5_000
AT_A_TIME = 10
"""Few: what waits at a broker is the client's, not a queue of work that heartbeats stand in."""
WITHIN_S = 30.0


async def _declare(port: int, count: int) -> None:
    connection = await aiormq.connect(f"amqp://guest:guest@127.0.0.1:{port}/")
    names = iter(range(count))

    async def one_after_another() -> None:
        channel = await connection.channel()
        for number in names:
            await channel.queue_declare(f"queue-{number}", durable=True)

    await asyncio.gather(*(one_after_another() for _ in range(AT_A_TIME)))
    await connection.close()


def queues_at(broker: Primary) -> int | None:
    seen = broker.ask()
    return (
        None if seen is None else int(next(each["queues"] for each in seen["brokers"] if each["name"] == broker.name))
    )


def restart_among_many(cluster: RunningCluster, count: int) -> str:
    """Declare so many queues, kill a backup and start it again; what took how long."""
    began = time.monotonic()
    asyncio.run(_declare(cluster.root().place.client_port, count))
    declared_s = time.monotonic() - began
    # What an overloaded machine did to the cluster until here is not what is asked.
    root = cluster.wait_until_settled()
    epoch = cluster.epoch()
    back = cluster.others(root)[0]
    eventually(lambda: queues_at(back) == count, WITHIN_S)
    back.kill()
    began = time.monotonic()
    back.start()
    eventually(lambda: queues_at(back) == count, WITHIN_S)
    told_s = time.monotonic() - began
    cluster.wait_until_settled()
    assert cluster.roots() == [root.name] and cluster.epoch() == epoch, cluster.logs()
    assert "root" not in root.log.read_text().partition(f"root of epoch {epoch}")[2], "it was never in doubt"
    return f"{count} queues: declared in {declared_s:.1f} s, all at a broker {told_s:.1f} s after it was started"


def test_a_root_stays_while_it_tells_a_restarted_backup_of_thousands_of_queues(tmp_path: Path) -> None:
    with running_cluster(tmp_path) as cluster:
        print(restart_among_many(cluster, QUEUES))
