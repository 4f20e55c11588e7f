"""Makes the summary of each run from the tallies of all runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from topology.simulate.input.calibration import Calibration
from topology.simulate.input.fault import Kill, parse_fault
from topology.simulate.input.layout import GridCell
from topology.simulate.input.timeline import Timeline
from topology.simulate.input.workload import Workload
from topology.simulate.queueing import buckets
from topology.simulate.queueing.audience import on_their_ways, ways_of
from topology.simulate.results.summary import (
    Bottleneck,
    BrokerSummary,
    FaultSummary,
    Latency,
    LinkSummary,
    Point,
    QueueSummary,
    RunSummary,
    Totals,
)
from topology.simulate.results.tally import Tallies
from topology.simulate.traffic.shared_queues import queues_of

_MBIT = 8 / 1_000_000
_MB = 1_000_000
BUSY_S = 1.0
"""The highest load of a broker is that of a whole second, or of a span if spans are longer."""


class Summarizing:
    """The rows of one run, and the parts of its summary that are computed from them."""

    def __init__(
        self, run: GridCell, workload: Workload, calibration: Calibration, timeline: Timeline, tallies: Tallies
    ) -> None:
        self._run = run
        self._workload = workload
        self._costs = calibration
        self._timeline = timeline
        self._span_s = tallies.span_ms / 1000
        self._spans = tallies.spans
        self._names = run.layout.names
        own = {
            name: frame[frame["run"] == run.number]
            for name, frame in tallies._asdict().items()
            if isinstance(frame, pd.DataFrame)
        }
        self._published, self._wanted, self._traffic = own["published"], own["wanted"], own["traffic"]
        self._latencies, self._gaps, self._queue_rows = own["latencies"], own["gaps"], own.get("queues")
        count = len(self._names)
        self._busy = self._grid(own["load"], "busy_us", count) / (tallies.span_ms * 1000)
        # These include the work that is done after the end of the run.
        self._work_s = np.zeros(count)
        np.add.at(self._work_s, own["load"]["broker"].to_numpy(int), own["load"]["busy_us"].to_numpy(float) / 1e6)
        self._backlog = self._grid(own["load"], "backlog_us", count, at_most=True) / 1000
        self._clients = self._grid(own["presence"], "clients", count)
        self._is_up = np.zeros((count, self._spans), dtype=bool)
        self._is_up[own["presence"]["broker"].to_numpy(int), own["presence"]["span"].to_numpy(int)] = True
        self._attaches = self._grid(own["presence"], "attaches", count)
        self._sums = {
            name: self._grid(self._traffic, name, count)
            for name in ("deliveries", "delivered", "copies", "in_bytes", "out_bytes", "messages")
        }
        copied = self._traffic[(self._traffic["source"] >= 0) & (self._traffic["source"] != self._traffic["broker"])]
        self._copied = copied
        self._copies_in = self._grid(copied, "messages", count)
        self._missed = self._missed_by_span()

    def _grid(self, frame: pd.DataFrame, column: str, brokers: int, *, at_most: bool = False) -> np.ndarray[Any, Any]:
        """Values by broker and span, without the work that a broker does on its backlog after the end of the run."""
        frame = frame[frame["span"] < self._spans]
        grid = np.zeros((brokers, self._spans))
        place = frame["broker"].to_numpy(int), frame["span"].to_numpy(int)
        (np.maximum if at_most else np.add).at(grid, place, frame[column].to_numpy(float))
        return grid

    def _missed_by_span(self) -> np.ndarray[Any, Any]:
        expected = np.zeros(self._spans)
        np.add.at(expected, self._wanted["span"].to_numpy(int), self._wanted["expected"].to_numpy(float))
        missed: np.ndarray[Any, Any] = expected - self._sums["delivered"].sum(axis=0)
        return missed

    def summary(self) -> RunSummary:
        layout = self._run.layout
        return RunSummary(
            run=self._run.number,
            design=layout.design,
            subscribers=self._run.subscribers,
            rate=self._run.rate,
            primaries=len(layout.primaries),
            secondaries=len(layout.sites) - len(layout.primaries),
            totals=self._totals(),
            brokers=(brokers := [self._broker(number) for number in range(len(self._names))]),
            links=self._links(),
            latency=self._latency(),
            faults=[self._fault(text) for text in self._workload.faults if self._applies(text)],
            queues=self._queues(),
            bottleneck=self._bottleneck(brokers),
            span_s=self._span_s,
            timeline=self._points(),
        )

    def _totals(self) -> Totals:
        sizes = self._copied["in_bytes"].sum()
        expected = int(self._wanted["expected"].sum())
        delivered = int(self._sums["delivered"].sum())
        return Totals(
            publications=int(self._published["publications"].sum()),
            unsent=int(self._published["unsent"].sum()),
            expected=expected,
            delivered=delivered,
            missed=expected - delivered,
            copies=int(self._copied["messages"].sum()),
            copies_bytes=int(sizes),
            delivered_bytes=int(self._sums["out_bytes"].sum() - sizes),
            cpu_s=float(self._work_s.sum()),
        )

    def _broker(self, number: int) -> BrokerSummary:
        site, first_root = self._run.layout.sites[number], self._timeline.root_at(0)
        seconds = self._workload.duration_s
        copies_in = int(self._copies_in[number].sum())
        clients = int(self._clients[number].max(initial=0))
        return BrokerSummary(
            name=site.name,
            role="root" if number == first_root else "primary" if site.is_primary else "secondary",
            clients_max=clients,
            publications=int(
                self._traffic[(self._traffic["broker"] == number) & (self._traffic["source"] < 0)]["messages"].sum()
            ),
            deliveries=int(self._sums["deliveries"][number].sum()),
            copies_in=copies_in,
            copies_out=int(self._sums["copies"][number].sum()),
            cpu_mean=float(self._busy[number].sum() * self._span_s / seconds),
            cpu_max=self._most(self._busy[number]),
            in_mbit_max=self._most(self._sums["in_bytes"][number]) / self._span_s * _MBIT,
            out_mbit_max=self._most(self._sums["out_bytes"][number]) / self._span_s * _MBIT,
            memory_mb=self._memory_mb(clients),
            backlog_ms_max=float(self._backlog[number].max(initial=0)),
        )

    def _most(self, spans: np.ndarray[Any, Any]) -> float:
        """The highest value of all spans, as the mean over the busiest second."""
        width = max(1, round(BUSY_S / self._span_s))
        width = min(width, len(spans))
        return float(np.convolve(spans, np.full(width, 1 / width), "valid").max(initial=0))

    def _memory_mb(self, clients: int) -> float:
        costs, others = self._costs, len(self._names) - 1
        each = sum(group.each * group.count for group in self._workload.subscribers)
        known = min(self._workload.topic_count, each) * others
        return (costs.broker_bytes + clients * costs.connection_bytes + known * costs.topic_bytes) / _MB

    def _links(self) -> list[LinkSummary]:
        found = []
        for key, rows in self._copied.groupby(["source", "broker"]):
            source, broker = key
            spans = np.zeros(self._spans)
            np.add.at(spans, np.minimum(rows["span"].to_numpy(int), self._spans - 1), rows["in_bytes"].to_numpy(float))
            found.append(
                LinkSummary(
                    from_=self._names[int(source)],
                    to=self._names[int(broker)],
                    copies=int(rows["messages"].sum()),
                    mbit_mean=float(spans.sum() / self._workload.duration_s * _MBIT),
                    mbit_max=self._most(spans) / self._span_s * _MBIT,
                )
            )
        return found

    def _latency(self) -> Latency:
        rows = self._latencies
        keys = zip(rows["audience"].astype(int), rows["bucket"].astype(int), strict=True)
        counts = dict(zip(keys, rows["deliveries"].astype(int), strict=True))
        return latency_of(on_their_ways(counts, ways_of(self._workload)))

    # -- what went wrong

    def _applies(self, text: str) -> bool:
        return parse_fault(text) not in self._timeline.skipped

    def _fault(self, text: str) -> FaultSummary:
        fault = parse_fault(text)
        at_ms, duration_ms = fault.at_ms, self._workload.duration_ms
        later = [each.at_ms for each in map(parse_fault, self._workload.faults) if each.at_ms > at_ms]
        until_ms = min([*later, duration_ms])
        gone = [to - begin for begin, to, root in self._timeline.roots if root < 0 and at_ms <= begin < until_ms]
        lost = self._gaps[self._gaps["from_ms"] == at_ms] if isinstance(fault, Kill) else self._gaps.iloc[:0]
        back = lost.assign(gone_ms=lost["to_ms"] - at_ms).sort_values("gone_ms")
        is_back = back[back["to_ms"] < duration_ms]
        count = int(lost["clients"].sum())
        came = int(is_back["clients"].sum())
        first, last = (int(each / 1000 / self._span_s) for each in (at_ms, until_ms))
        window = slice(first, max(first + 1, last))
        half = is_back[is_back["clients"].cumsum() * 2 >= count]["gone_ms"]
        return FaultSummary(
            fault=text,
            at_s=at_ms / 1000,
            no_root_ms=float(sum(gone)) if gone else None,
            lost_clients=count,
            back_p50_ms=float(half.iloc[0]) if count and len(half) else None,
            back_all_ms=float(is_back["gone_ms"].max()) if count and came == count else None,
            missed=int(self._missed[window].sum()),
            attaches_per_s_max=self._most(self._attaches.sum(axis=0)[window]) / self._span_s,
        )

    # -- shared queues

    def _queues(self) -> list[QueueSummary]:
        rows = self._queue_rows
        if rows is None:
            return []
        queues, found = queues_of(self._workload), []
        for kind in self._workload.queues:
            numbers = [each.number for each in queues if each.kind is kind]
            own = rows[rows["queue"].isin(numbers)]
            done = own[own["bucket"] >= 0].groupby("bucket")["messages"].sum()
            counts = {int(number): int(count) for number, count in done.items()}
            consumed = sum(counts.values())
            able_ms = kind.consumers * kind.count * self._workload.duration_ms
            found.append(
                QueueSummary(
                    name=kind.name,
                    published=int(own["messages"].sum()),
                    consumed=consumed,
                    wait_p50_ms=buckets.percentile(counts, 0.5) / 1000,
                    wait_p99_ms=buckets.percentile(counts, 0.99) / 1000,
                    backlog_max=int(own["waiting"].max()) if len(own) else 0,
                    consumers_busy=min(1.0, consumed * kind.work_ms / able_ms) if able_ms else 0.0,
                )
            )
        return found

    # -- limits

    def _bottleneck(self, brokers: Sequence[BrokerSummary]) -> Bottleneck | None:
        """The broker nearest to a limit: that of its CPU, or another one that the topology names.

        An overloaded broker works on after the end of the run. So its use is the work that it was given, not the work
        that it did in time.
        """
        uses = []
        for site, each, work_s in zip(self._run.layout.sites, brokers, self._work_s, strict=True):
            uses.append((max(each.cpu_max, float(work_s) / self._workload.duration_s), each.name, "cpu"))
            if site.memory_mb:
                uses.append((each.memory_mb / site.memory_mb, each.name, "memory"))
            if site.bandwidth_mbit:
                uses.append((each.out_mbit_max / site.bandwidth_mbit, each.name, "out"))
        used, name, what = max(uses, key=lambda each: each[0])
        return Bottleneck(broker=name, what=what, used=used, room=1 / used) if used > 0 else None

    def _points(self) -> list[Point]:
        per_mbit = _MBIT / self._span_s
        return [
            Point(
                broker=name,
                at_s=round(span * self._span_s, 3),
                cpu=round(float(self._busy[number, span]), 4),
                clients=int(self._clients[number, span]),
                attaches=int(self._attaches[number, span]),
                deliveries=int(self._sums["deliveries"][number, span]),
                copies_in=int(self._copies_in[number, span]),
                copies_out=int(self._sums["copies"][number, span]),
                out_mbit=round(float(self._sums["out_bytes"][number, span]) * per_mbit, 3),
                backlog_ms=round(float(self._backlog[number, span]), 3),
                # Clients that are connected nowhere belong to no broker: the first broker counts them, once.
                missed=int(self._missed[span]) if number == 0 else 0,
            )
            for span in range(self._spans)
            for number, name in enumerate(self._names)
            # Values of clients that are connected nowhere are in the first broker's row, even if that broker is down.
            if self._is_up[number, span] or (number == 0 and self._missed[span])
        ]


def latency_of(counts: Mapping[int, int]) -> Latency:
    """The latency figures of deliveries that are counted by bucket."""
    ends = range(min(counts), max(counts) + 2) if counts else range(0)
    return Latency(
        p50_ms=buckets.percentile(counts, 0.5) / 1000,
        p90_ms=buckets.percentile(counts, 0.9) / 1000,
        p99_ms=buckets.percentile(counts, 0.99) / 1000,
        p999_ms=buckets.percentile(counts, 0.999) / 1000,
        max_ms=buckets.longest(counts) / 1000,
        mean_ms=buckets.mean(counts) / 1000,
        edges_us=[buckets.edge(each) for each in ends],
        counts=[counts.get(each, 0) for each in ends[:-1]],
    )
