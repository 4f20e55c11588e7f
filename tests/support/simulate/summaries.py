"""Made-up summaries: of the shape that a simulation writes, with numbers that look like those of one."""

from __future__ import annotations

import math
from collections.abc import Sequence

from topology.simulate.input.layout import DESIGNS
from topology.simulate.results.summary import (
    Bottleneck,
    BrokerSummary,
    Cheapest,
    FaultSummary,
    Latency,
    LinkSummary,
    Point,
    QueueSummary,
    ResultsSummary,
    RunSummary,
    StageTime,
    Sweep,
    Totals,
)

DURATION_S = 60
WORKLOAD = {
    "name": "match day",
    "duration_s": DURATION_S,
    "bin_ms": 100,
    "seed": 7,
    "topics": {"scores": {"count": 500}},
    "subscribers": [{"name": "fans", "count": 100_000, "topics": "scores", "each": 3, "popularity": "zipf"}],
    "publishers": [{"name": "stadiums", "count": 40, "topics": "scores", "rate": 5.0, "brokers": ["p1", "p2"]}],
    "faults": ["kill p2 at 30s"],
}
CALIBRATION = {
    "measured": "2026-11-18",
    "machine": "2 cores of a laptop, Python 3.11",
    "version": "0.1.0",
    "turn_us": 15.0,
}


def names_of(primaries: int, secondaries: int) -> list[str]:
    return [f"p{n}" for n in range(1, primaries + 1)] + [f"s{n}" for n in range(1, secondaries + 1)]


def latency(p50_ms: float = 1.2, spread: float = 0.35) -> Latency:
    """A bell on a logarithmic axis, twenty buckets for a factor of ten, from 1 us to 100 s."""
    edges = [10 ** (n / 20) for n in range(161)]
    center = math.log10(p50_ms * 1_000)
    bell = [math.exp(-(((n + 0.5) / 20 - center) ** 2) / (2 * spread**2)) for n in range(160)]
    counts = [int(1_000_000 * each / sum(bell)) for each in bell]
    return Latency(
        p50_ms=p50_ms,
        p90_ms=p50_ms * 10 ** (1.28 * spread),
        p99_ms=p50_ms * 10 ** (2.33 * spread),
        p999_ms=p50_ms * 10 ** (3.09 * spread),
        max_ms=p50_ms * 10 ** (4.5 * spread),
        mean_ms=p50_ms * 1.3,
        edges_us=edges,
        counts=counts,
    )


def timeline(names: Sequence[str], subscribers: int, span_s: float = 0.5, killed: str = "") -> list[Point]:
    """All join within 10 s; one broker, if any, is killed after 30."""
    each = subscribers // max(len(names), 1)
    points = []
    for number in range(int(DURATION_S / span_s)):
        at_s = number * span_s
        there = [name for name in names if name != killed or at_s < 30]
        for place, name in enumerate(there):
            clients = each * min(at_s / 10, 1.0)
            if killed and at_s >= 30:
                clients += each / len(there) * min((at_s - 30) / 4, 1.0)
            storm = bool(killed) and 30 <= at_s < 34
            cpu = 0.05 + clients / 90_000 + 0.03 * math.sin(number / 4 + place) ** 2 + (0.3 if storm else 0)
            points.append(
                Point(
                    broker=name,
                    at_s=at_s,
                    cpu=cpu,
                    clients=int(clients),
                    attaches=int(each / 10 * span_s) if at_s < 10 or storm else 0,
                    deliveries=int(clients * 2 * span_s),
                    copies_in=200,
                    copies_out=1_400 if not place else 200,
                    out_mbit=cpu * 80,
                    backlog_ms=40.0 if storm and place == 1 else 0.3 + cpu,
                    missed=int(300 * (34 - at_s)) if storm and not place else 0,
                )
            )
    return points


def run(
    number: int = 1,
    *,
    design: str = "openclust",
    primaries: int = 3,
    secondaries: int = 5,
    subscribers: int = 100_000,
    rate: float = 1.0,
    names: Sequence[str] | None = None,
    has_fault: bool = True,
    has_queues: bool = True,
    p50_ms: float = 1.2,
    span_s: float = 0.5,
    missed: int = 8_400,
) -> RunSummary:
    names = list(names or names_of(primaries, secondaries))
    killed = names[1] if has_fault and len(names) > 1 else ""
    expected = round(subscribers * 120 * rate)
    missed = missed if killed else 0
    brokers = [
        BrokerSummary(
            name=name,
            role="root" if not place else "primary" if place < primaries else "secondary",
            clients_max=subscribers // len(names),
            publications=12_000,
            deliveries=(expected - missed) // len(names),
            copies_in=12_000,
            copies_out=84_000 if not place else 12_000,
            cpu_mean=0.21,
            cpu_max=min(1.0, subscribers * rate / len(names) / 28_000 + 0.1) - 0.02 * place / len(names),
            in_mbit_max=4.2,
            out_mbit_max=61.5,
            memory_mb=60 + 0.007 * subscribers / len(names),
            backlog_ms_max=40.0,
        )
        for place, name in enumerate(names)
    ]
    links = [
        LinkSummary(from_=a, to=b, copies=84_000 if not i else 12_000 // (j + 1), mbit_mean=1.1, mbit_max=3.4)
        for i, a in enumerate(names)
        for j, b in enumerate(names)
        if a != b and (i < primaries or not j)
    ]
    faults = [
        FaultSummary(
            fault=f"kill {killed} at 30s",
            at_s=30.0,
            no_root_ms=240.0,
            lost_clients=subscribers // len(names),
            back_p50_ms=1_900.0,
            back_all_ms=4_000.0,
            missed=missed,
            attaches_per_s_max=6_800,
        )
    ]
    queue = QueueSummary(
        name="orders",
        published=24_000,
        consumed=23_990,
        wait_p50_ms=3.1,
        wait_p99_ms=18.4,
        backlog_max=210,
        consumers_busy=0.63,
    )
    return RunSummary(
        run=number,
        design=design,
        subscribers=subscribers,
        rate=rate,
        primaries=primaries,
        secondaries=secondaries,
        totals=Totals(
            publications=12_000,
            unsent=14 if killed else 0,
            expected=expected,
            delivered=expected - missed,
            missed=missed,
            copies=168_000,
            copies_bytes=16_800_000,
            delivered_bytes=1_200_000_000,
            cpu_s=101.0,
        ),
        brokers=brokers,
        links=links,
        latency=latency(p50_ms),
        faults=faults if killed else [],
        queues=[queue] if has_queues else [],
        bottleneck=Bottleneck(broker=names[0], what="cpu", used=0.62, room=1.6),
        span_s=span_s,
        timeline=timeline(names, subscribers, span_s, killed),
    )


def summary(runs: Sequence[RunSummary], *, sweep: Sweep | None = None, kind: str = "simulation") -> ResultsSummary:
    return ResultsSummary(
        kind=kind,
        openclust="0.1.0",
        created="2026-11-18 18:40 UTC",
        title="match day on eight brokers",
        topology="conf/topologies/eight.toml",
        workload=WORKLOAD,
        calibration=CALIBRATION,
        spark={"version": "4.3.0", "master": "local[2]"},
        took_s=41.2,
        stages=[StageTime(name="population", took_s=3.1), StageTime(name="queueing", took_s=22.0)],
        runs=list(runs),
        sweep=sweep,
        notes=["Clients that joined late are not counted as missed."],
    )


def one_run() -> ResultsSummary:
    return summary([run()])


def four_designs() -> ResultsSummary:
    p50 = {"openclust": 1.2, "single": 180.0, "active-passive": 95.0, "virtual-synchrony": 6.5}
    return summary(
        [
            run(
                number,
                design=design,
                primaries=1 if design == "single" else 3 if design == "openclust" else 8,
                secondaries=5 if design == "openclust" else 0,
                p50_ms=p50[design],
                has_queues=design == "openclust",
            )
            for number, design in enumerate(DESIGNS)
        ]
    )


def sweep_of_24() -> ResultsSummary:
    """Eight layouts by three numbers of subscribers; the largest meets no goal."""
    counts, loads = (1, 2, 3, 4, 6, 8, 12, 16), (10_000, 100_000, 1_000_000)
    runs = [
        run(
            n * len(counts) + m,
            primaries=min(brokers, 3),
            secondaries=max(brokers - 3, 0),
            subscribers=load,
            p50_ms=0.8 + load / brokers / 20_000,
            has_queues=False,
        )
        for n, load in enumerate(loads)
        for m, brokers in enumerate(counts)
    ]
    found = Sweep(
        grid={"subscribers": ["10k", "100k", "1M"], "brokers": [str(each) for each in counts]},
        goal="p99<50ms, survive=1",
        cheapest=[
            Cheapest(subscribers=10_000, rate=1.0, run=2, why="1 broker does not survive one"),
            Cheapest(subscribers=100_000, rate=1.0, run=12, why="3 brokers have a p99 of 61 ms"),
            Cheapest(
                subscribers=1_000_000,
                rate=1.0,
                run=None,
                why="16 brokers have a p99 of 112 ms, not below 50",
            ),
        ],
    )
    return summary(runs, sweep=found)


def empty() -> ResultsSummary:
    """Nothing was measured, nothing happened."""
    return ResultsSummary(
        openclust="0.1.0",
        created="2026-11-18",
        title="",
        topology="",
        workload={},
        calibration={},
        spark={},
        took_s=0.0,
        stages=[],
        runs=[],
    )


def idle_run() -> RunSummary:
    """A run without publications, faults, queues, brokers or a timeline."""
    nothing = Latency(p50_ms=0, p90_ms=0, p99_ms=0, p999_ms=0, max_ms=0, mean_ms=0, edges_us=[], counts=[])
    totals = Totals(
        publications=0,
        unsent=0,
        expected=0,
        delivered=0,
        missed=0,
        copies=0,
        copies_bytes=0,
        delivered_bytes=0,
        cpu_s=0,
    )
    return RunSummary(
        run=0,
        design="openclust",
        subscribers=0,
        rate=1.0,
        primaries=0,
        secondaries=0,
        totals=totals,
        brokers=[],
        links=[],
        latency=nothing,
        faults=[],
        queues=[],
        bottleneck=None,
        span_s=1.0,
        timeline=[],
    )
