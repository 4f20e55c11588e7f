"""The costs in company: while other brokers work on the same cores, as in a cluster on one machine.

Such a broker finds its caches cold, wakes processes on other cores, and waits for a core itself. It is measured with
single messages to a few of some hundred subscribers, different ones each time, while three other brokers have a light
stream of such messages each.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from contextlib import ExitStack, closing

from openclust.bench.brokers.bench_cluster import BenchCluster, MakeCluster, url
from openclust.bench.calibration.bursts import PAUSE_SECONDS, Bursts, BurstSubscribers, apart, cpu_each
from openclust.bench.calibration.fit import CostSample
from openclust.bench.calibration.parts import (
    SMALL,
    Effort,
    Rows,
    after_pauses,
    exchange_at,
    fanout_row,
    pids_of,
    relay_rows,
    start_and_connect,
)
from openclust.bench.client.bench_connection import BenchConnection
from openclust.bench.client.spread import wait_until_known
from openclust.bench.load.background_load import BackgroundLoad, Streams
from openclust.bench.report.progress_bar import Quiet

BROKERS = 4
"""One is measured, and the three others are its company."""
LISTENING = 300
"""So many subscribers, of which each message reaches a few. With always the same few, nothing would be cold."""
APART = ("turn_us", "wait_us_per_ms", "write_us", "link_us")
"""The costs that are computed here. All others are taken to be those of a broker alone."""


def company(effort: Effort, make: MakeCluster, watcher: Quiet) -> Rows:
    """Rows for `company_turn_us` and the like; all other costs must be known. `hop_us` needs `company_remote_us`."""
    rows: list[CostSample] = []
    with make(BROKERS, 0) as brokers, ExitStack() as stack:
        idle, connections = start_and_connect(brokers, stack, effort.rest_s)
        first, second, *others = brokers.names
        with closing(BackgroundLoad(_streams(brokers, [second, *others]))):
            with apart(brokers.pid(first)):
                found, stack_us = _fanouts(effort, connections[first], {"": brokers.pid(first)}, idle[first], watcher)
            rows += found
            watcher.doing("in company: a message to another broker")
            remote_us = _to_another(effort, connections)
        with closing(BackgroundLoad(_streams(brokers, others))):
            pids = {name: pid for name, pid in pids_of(brokers).items() if name in (first, second)}
            for name in (first, second):
                with apart(brokers.pid(name)):
                    found = _relays(effort, connections[first], connections[second], pids, idle, watcher)
                # The second broker may be on any core, that of this process too.
                rows += found[name == second :: 2]
    return Rows(rows=rows, figures={"company_stack_us": stack_us, "company_remote_us": remote_us})


def _streams(brokers: BenchCluster, names: list[str]) -> Streams:
    return Streams(brokers=[url(brokers, name) for name in names])


def _fanouts(
    effort: Effort, at: BenchConnection, pid: Mapping[str, int], idle: float, watcher: Quiet
) -> tuple[list[CostSample], float]:
    rows, stack_us = [], 0.0
    for subscribers in effort.few:
        exchange, keys = exchange_at(at, "direct"), _keys(subscribers)
        with closing(BurstSubscribers(at, exchange, subscribers, keys)) as listening:
            for burst in effort.bursts[:2]:
                watcher.doing(f"in company: fan-out of {burst} to {subscribers}")
                with closing(Bursts(at, exchange, listening.sockets, SMALL, burst, keys)) as load:
                    spent = cpu_each(load, pid, effort.times(60), effort.rounds, {"": idle})[""]
                    rows.append(row_in_company(fanout_row(subscribers, SMALL, burst, load.delivery_bytes, spent)))
                    if (subscribers, burst) == (1, 1):
                        stack_us = max(0.0, statistics.median(load.latencies_ns) / 1000 - spent.us)
            if subscribers == 1:
                rows += map(row_in_company, after_pauses(effort, at, exchange, listening, pid, {"": idle}, keys))
    return rows, stack_us


def _relays(
    effort: Effort,
    publisher: BenchConnection,
    there: BenchConnection,
    pids: Mapping[str, int],
    idle: Mapping[str, float],
    watcher: Quiet,
) -> list[CostSample]:
    rows: list[CostSample] = []
    first, second = pids
    for subscribers in effort.few:
        exchange, keys = exchange_at(publisher, "direct"), _keys(subscribers)
        with closing(BurstSubscribers(there, exchange, subscribers, keys)) as listening:
            wait_until_known(publisher, [there])
            for burst in effort.bursts[:2]:
                watcher.doing(f"in company: relaying {burst} to {subscribers}")
                with closing(Bursts(publisher, exchange, listening.sockets, SMALL, burst, keys)) as load:
                    spent = cpu_each(load, pids, effort.times(120), effort.rounds, idle)
                    found = relay_rows(subscribers, SMALL, burst, load.delivery_bytes, spent[first], spent[second])
                    rows += map(row_in_company, found)
    return rows


def _to_another(effort: Effort, connections: Mapping[str, BenchConnection]) -> float:
    """The mean time from one broker to a subscriber at another, which is a different one each time.

    It depends on the cores that the scheduler has given them, and may be ten times as long for one pair as for another.
    The longest and the shortest tenth are left out.
    """
    publisher, *others = connections.values()
    exchange, keys = exchange_at(publisher, "direct"), _keys(1)
    each = len(keys) // len(others)
    with ExitStack() as stack:
        sockets = []
        for number, there in enumerate(others):
            theirs = keys[number * each : (number + 1) * each]
            sockets += stack.enter_context(closing(BurstSubscribers(there, exchange, 1, theirs))).sockets
        wait_until_known(publisher, others)
        with closing(Bursts(publisher, exchange, sockets, SMALL, 1, keys[: len(sockets)])) as load:
            load.run(max(3, effort.times(300) // 10))
            load.each_ns.clear()
            load.run(effort.rounds * effort.times(300))
            ascending = sorted(load.each_ns)
            tenth = len(ascending) // 10
            return statistics.mean(ascending[tenth : len(ascending) - tenth]) / 1000


def _keys(subscribers: int) -> list[str]:
    """Routing keys of equal length, as many as there are groups of subscribers."""
    return [f"k{number:03}" for number in range(LISTENING // subscribers)]


def hop_us(costs: Mapping[str, float]) -> float:
    """The time from one broker to the next: `company_remote_us` without the CPU that both brokers use for it."""
    kb = SMALL / 1000
    wait_us = costs["company_wait_us_per_ms"] * PAUSE_SECONDS * 1000
    sent_on = (
        costs["company_turn_us"]
        + wait_us
        + costs["publish_us"]
        + costs["company_link_us"]
        + costs["relay_out_us"]
        + kb * costs["relay_kb_us"]
    )
    delivered = (
        costs["company_turn_us"]
        # Each of the other brokers waits for a core, too.
        + (BROKERS - 1) * wait_us
        + costs["relay_in_us"]
        + kb * costs["relay_kb_us"]
        + costs["delivery_us"]
        + costs["company_write_us"]
    )
    return max(0.0, costs["company_remote_us"] - costs["company_stack_us"] - sent_on - delivered)


def row_in_company(row: CostSample) -> CostSample:
    counts = {f"company_{name}" if name in APART else name: count for name, count in row.counts.items()}
    return CostSample(name=f"in company: {row.name}", counts=counts, us=row.us)
