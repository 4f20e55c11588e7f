"""Other primaries than before, by the steps that docs/operating.md tells: real processes, and nothing is lost."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest

from openclust.cli.cluster.local_cluster import LocalCluster, plan_cluster
from tests.cluster.test_all_primaries_die import publish
from tests.cluster.test_full_disk import received
from tests.support.clients.deadline import eventually
from tests.support.cluster.running_cluster import START_WAIT_S, RunningCluster

pytestmark = pytest.mark.sockets


@contextlib.contextmanager
def with_list(plan: LocalCluster, names: Sequence[str]) -> Iterator[RunningCluster]:
    """Brokers that have a file with these primaries; whoever runs in the end is stopped."""
    listed = msgspec.structs.replace(plan, primaries=tuple(each for each in plan.primaries if each.name in names))
    listed.write()
    cluster = RunningCluster(listed)
    try:
        yield cluster
    finally:
        for each in cluster.primaries.values():
            each.stop()


def is_level(cluster: RunningCluster) -> bool:
    """Whether all that the root has is on all disks, as `openclust status` shows it."""
    running = [each for each in cluster.primaries.values() if each.is_running]
    seen = [one for each in running if (one := each.ask()) is not None]
    places = {(one["store"]["on_disk"]["epoch"], one["store"]["on_disk"]["sequence"]) for one in seen}
    return len(seen) == len(running) and len(places) == 1 and {one["root"] for one in seen} != {None}


def test_primaries_come_and_go_and_what_was_confirmed_stays(tmp_path: Path) -> None:
    plan = plan_cluster("test", tmp_path, 5)
    with with_list(plan, ("p1", "p2", "p3")) as cluster:
        for each in cluster.primaries.values():
            each.start()
        confirmed = asyncio.run(publish(cluster.wait_until_settled().place.amqp_url))
    with with_list(plan, ("p1", "p2", "p3", "p4", "p5")) as cluster:
        old, new = [list(cluster.primaries.values())[part] for part in (slice(0, 3), slice(3, 5))]
        for each in old:
            each.start()
        eventually(cluster.roots, START_WAIT_S)
        assert "the primaries were p1, p2, p3, and are p1, p2, p3, p4, p5 now" in old[0].log.read_text()
        for each in new:
            each.start()
        cluster.wait_until_settled()
        for each in old[:2]:
            each.stop()
        cluster.wait_until_settled()
        eventually(lambda: is_level(cluster), START_WAIT_S)
    with with_list(plan, ("p3", "p4", "p5")) as cluster:
        for each in cluster.primaries.values():
            each.start()
        cluster.wait_until_settled()
        found = asyncio.run(received(plan.primaries[4].amqp_url))
    assert confirmed and confirmed <= found, f"lost: {sorted(confirmed - found)}"
