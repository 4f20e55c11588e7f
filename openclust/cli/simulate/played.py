"""Turns a drawn workload into plans for real clients, which play it against a local cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from openclust.shell.config.schema import ConfigError
from topology.simulate.input.layout import Layout
from topology.simulate.input.workload import Workload

if TYPE_CHECKING:
    from openclust.bench.live.cost import LiveFound
    from openclust.bench.live.live_plan import LivePlan
    from openclust.bench.live.run import PlayedStage
    from topology.simulate.traffic.drawn import Drawn

SAMPLED_OF = 20
"""One of so many subscribers measures the latency of its messages, in another process than all the others."""


def played(layout: Layout, workload: Workload, plan: Drawn, stage: PlayedStage, data_in: Path | None) -> LiveFound:
    from openclust.bench.brokers.disk import folder_on_disk
    from openclust.bench.client.bench_errors import BenchError
    from openclust.bench.live.run import LiveQueue, play
    from openclust.cli.bench.local_bench_cluster import LocalBenchCluster

    primaries = len(layout.primaries)
    try:
        with LocalBenchCluster(primaries, len(layout.sites) - primaries, folder_on_disk(data_in)) as brokers:
            brokers.start()
            root = brokers.wait_until_serving()
            # The first broker of the layout begins as root.
            real = [root, *(name for name in brokers.primaries if name != root), *brokers.names[primaries:]]
            names = dict(zip(layout.names, real, strict=True))
            addresses = {name: brokers.address(each) for name, each in names.items()}
            queues = [
                LiveQueue(name=name, replicate=kind.replicate)
                for kind in workload.queues
                for name in queue_names(workload)[kind.name]
            ]
            return play(brokers, names, list(plans(layout, workload, plan, addresses)), queues, stage)
    except BenchError as error:
        raise ConfigError(f"--validate: {error}") from None


def queue_names(workload: Workload) -> dict[str, list[str]]:
    """The names of the queues of each kind, in the order of the simulation's numbers."""
    return {kind.name: [f"live.{kind.name}.{number}" for number in range(kind.count)] for kind in workload.queues}


def plans(layout: Layout, workload: Workload, plan: Drawn, addresses: dict[str, tuple[str, int]]) -> Iterator[LivePlan]:
    """The plans of two processes: one has most subscribers, the other the measuring ones and all other clients."""
    from openclust.bench.live.live_plan import LiveClient, LiveMessage, LivePlan

    kinds = {kind.name: kind for kind in workload.queues}
    names = queue_names(workload)
    every = [name for kind in workload.queues for name in names[kind.name]]
    persistent = [kind.persistent for kind in workload.queues for _ in range(kind.count)]
    numbers: dict[tuple[int, int], int] = {}
    clients: list[LiveClient] = []
    for number, each in enumerate(plan.clients):
        group = each.group
        numbers[group.number, each.client] = number
        is_of_queue = group.kind in ("producers", "consumers")
        clients.append(
            LiveClient(
                number=number,
                kind=group.kind,
                joins_ms=each.joins_ms,
                contact=layout.names[each.contact],
                keys=[f"t{topic}" for topic in each.topics],
                queue=names[group.name][each.client % kinds[group.name].count] if is_of_queue else "",
                work_us=round(kinds[group.name].work_ms * 1000) if group.kind == "consumers" else 0,
                follows=group.follows,
            )
        )
    messages = [
        LiveMessage(
            at_us=each.at_us,
            client=numbers[each.group, each.client],
            key=f"t{each.topic}" if each.topic >= 0 else every[-1 - each.topic],
            size=each.size,
            is_queued=each.topic < 0,
            is_persistent=each.topic < 0 and persistent[-1 - each.topic],
        )
        for each in plan.messages
    ]
    is_here = [each.kind != "subscribers" or each.number % SAMPLED_OF == 0 for each in clients]
    for is_sampling in (False, True):
        yield LivePlan(
            brokers=addresses,
            exchange="amq.direct",
            duration_ms=workload.duration_ms,
            clients=[each for each, here in zip(clients, is_here, strict=True) if here is is_sampling],
            messages=messages if is_sampling else [],
            is_sampling=is_sampling,
        )
