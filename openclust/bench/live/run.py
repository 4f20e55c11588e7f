"""Plays a workload with real clients against a real cluster on this machine, and measures it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, closing

import msgspec
import psutil

from openclust.bench.brokers.bench_cluster import BenchCluster, url
from openclust.bench.calibration.bursts import cpu_ns
from openclust.bench.client import frames
from openclust.bench.client.bench_connection import BenchConnection
from openclust.bench.client.bench_errors import BenchError
from openclust.bench.client.url import BrokerUrl
from openclust.bench.live.cost import LiveFound
from openclust.bench.live.live_plan import LivePlan, Played
from openclust.bench.live.player_process import PlayProcess
from openclust.bench.report.statistics import percentile

LEAD_SECONDS = 1.0
ROOT_POLL_SECONDS = 0.01
ROOT_SECONDS = 20.0


class LiveQueue(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    replicate: str


class PlayedStage(msgspec.Struct, frozen=True, kw_only=True):
    """When to measure, and which broker to kill: in milliseconds since the run began, by the names of the plan."""

    from_ms: int
    to_ms: int
    kills: tuple[tuple[str, int], ...]


def play(
    brokers: BenchCluster,
    names: Mapping[str, str],
    plans: Sequence[LivePlan],
    queues: Sequence[LiveQueue],
    stage: PlayedStage,
) -> LiveFound:
    """`names` are the real names of the plan's brokers, which serve already. Queues are declared at the first."""
    _declare(url(brokers, next(iter(names.values()))), queues)
    with ExitStack() as stack:
        processes = [stack.enter_context(closing(PlayProcess(plan))) for plan in plans]
        for process in processes:
            process.wait_until_ready()
        start_ns = time.perf_counter_ns() + int(LEAD_SECONDS * 1e9)
        for process in processes:
            process.begin(start_ns)
        others = next(process for process, plan in zip(processes, plans, strict=True) if not plan.is_sampling)
        window = _Window(brokers, names, others.pid, start_ns, stage)
        no_root_ms = _kill(brokers, names, start_ns, stage)
        found = [process.found() for process in processes]
    return _summed(found, window, no_root_ms, stage)


class _Window:
    """The CPU that the brokers use between two moments. Returns after the second."""

    def __init__(
        self, brokers: BenchCluster, names: Mapping[str, str], others_pid: int, start_ns: int, stage: PlayedStage
    ) -> None:
        _sleep_until(start_ns, stage.from_ms)
        relayed = {name: brokers.relayed(real) for name, real in names.items()}
        psutil.cpu_percent()
        cpu, begun = {name: cpu_ns(brokers.pid(real)) for name, real in names.items()}, time.perf_counter_ns()
        others_ns = cpu_ns(others_pid)
        _sleep_until(start_ns, stage.to_ms)
        took = time.perf_counter_ns() - begun
        self.cpu = {name: (cpu_ns(brokers.pid(real)) - cpu[name]) / took for name, real in names.items()}
        self.others_cpu = (cpu_ns(others_pid) - others_ns) / took
        self.machine_busy = psutil.cpu_percent() / 100
        self.relayed = {name: (brokers.relayed(real) - relayed[name]) / took * 1e9 for name, real in names.items()}


def _kill(brokers: BenchCluster, names: Mapping[str, str], start_ns: int, stage: PlayedStage) -> float | None:
    """Kill the brokers of the stage; returns for how long there was no root, if the root was among them."""
    no_root_ms = None
    alive = dict(names)
    for name, at_ms in stage.kills:
        _sleep_until(start_ns, at_ms)
        real = alive.pop(name)
        was_root = any(brokers.root(other) == real for other in list(alive.values())[:1])
        begun = time.perf_counter()
        brokers.kill(real)
        if was_root:
            others = [other for other in alive.values() if other in brokers.primaries]
            no_root_ms = _until_a_root(brokers, others, begun)
    return no_root_ms


def _until_a_root(brokers: BenchCluster, others: Sequence[str], begun: float) -> float:
    while time.perf_counter() < begun + ROOT_SECONDS:
        for name in others:
            if brokers.root(name) == name:
                return (time.perf_counter() - begun) * 1000
        time.sleep(ROOT_POLL_SECONDS)
    raise BenchError(f"nobody is root {ROOT_SECONDS:.0f} s after the root was killed")


def _declare(at: BrokerUrl, queues: Sequence[LiveQueue]) -> None:
    with closing(BenchConnection(at)) as connection:
        for queue in queues:
            declared = frames.queue_declare(1, queue.name, durable=True, arguments={"x-replicate": queue.replicate})
            connection.call(declared, frames.QUEUE_DECLARE_OK)


def _summed(found: Sequence[Played], window: _Window, no_root_ms: float | None, stage: PlayedStage) -> LiveFound:
    for each in found:
        if each.failed:
            raise BenchError(f"a client was refused: {each.failed}")
    first, last = -(-stage.from_ms // 1000), stage.to_ms // 1000
    seconds = max(1, last - first)
    killed_at_ms = min((at_ms for _, at_ms in stage.kills), default=None)
    back = sorted(each - (killed_at_ms or 0) for played in found for each in played.back)
    lost = sum(len(each.lost) for each in found)
    notes = [] if len(back) == lost else [f"{lost - len(back)} clients that lost their broker were not back in the end"]
    return LiveFound(
        window_s=(stage.to_ms - stage.from_ms) / 1000,
        deliveries_per_s=sum(sum(each.deliveries[first:last]) for each in found) / seconds,
        consumed_per_s=sum(sum(each.consumed[first:last]) for each in found) / seconds,
        relayed=window.relayed,
        cpu=window.cpu,
        latency_ms=_percentiles(each for played in found for each in played.latencies if each[0] < stage.to_ms),
        worked_ms=_percentiles(each for played in found for each in played.worked if each[0] < stage.to_ms),
        no_root_ms=no_root_ms,
        killed_at_ms=killed_at_ms,
        lost=lost,
        back_p50_ms=percentile(back, 50) if back else None,
        back_all_ms=back[-1] if back else None,
        machine_busy=window.machine_busy,
        client_us=_client_us(found),
        others_cpu=window.others_cpu,
        generators_cpu=sum(each.cpu_s for each in found) / (len(found[0].deliveries) - 1 or 1),
        late_ms=max(each.late_us for each in found) / 1000,
        published=sum(each.published for each in found),
        unsent=sum(each.unsent for each in found),
        attached=sum(each.attached for each in found),
        redirected=sum(each.redirected for each in found),
        moved=sum(each.moved for each in found),
        at_brokers=_added(each.at_brokers for each in found),
        notes=notes,
    )


def _percentiles(samples: Iterable[tuple[int, int]]) -> dict[str, float]:
    ascending = sorted(us for _, us in samples)
    return {f"p{percent}": percentile(ascending, percent) / 1000 for percent in (50, 99)} if ascending else {}


def _client_us(found: Sequence[Played]) -> float:
    timed = [each for each in found if each.is_sampling]
    messages = sum(each.published + sum(each.deliveries) + sum(each.consumed) for each in timed)
    return sum(each.cpu_s for each in timed) / messages * 1e6 if messages else 0.0


def _added(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for each in counts:
        for name, count in each.items():
            total[name] = total.get(name, 0) + count
    return dict(sorted(total.items()))


def _sleep_until(start_ns: int, at_ms: int) -> None:
    left_s = (start_ns + at_ms * 1_000_000 - time.perf_counter_ns()) / 1e9
    if left_s > 0:
        time.sleep(left_s)
