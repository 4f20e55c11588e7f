"""All primaries are killed at once, and started again: real processes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.cluster.test_full_disk import Publisher, received
from tests.support.cluster.running_cluster import running_cluster

pytestmark = pytest.mark.sockets

COUNT = 200


async def publish(url: str) -> set[int]:
    async with Publisher(url) as publisher:
        publisher.publish(COUNT)
        await publisher.until_confirmed(COUNT)
        return set(publisher.confirmed)


def test_what_the_disks_have_outlives_all_primaries(tmp_path: Path) -> None:
    with running_cluster(tmp_path) as cluster:
        primaries = list(cluster.primaries.values())
        confirmed = asyncio.run(publish(cluster.others(cluster.root())[0].place.amqp_url))
        for each in primaries:
            each.kill()
        for each in primaries:
            each.start()
        cluster.wait_until_settled()
        found = asyncio.run(received(primaries[0].place.amqp_url))
    assert confirmed <= found, f"lost: {sorted(confirmed - found)}"
