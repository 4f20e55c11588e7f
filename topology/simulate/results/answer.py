"""The results of a simulation in a few sentences: the first lines of a report, and of the output in a terminal."""

from __future__ import annotations

from topology.model.words import few
from topology.simulate.input import units
from topology.simulate.results.choosing import busiest_cpu, compared_designs, label_of, spelled_layout
from topology.simulate.results.summary import Bottleneck, Cheapest, FaultSummary, ResultsSummary, RunSummary

_WHAT = {
    "cpu": "CPU in the busiest second",
    "out": "outgoing bandwidth",
    "memory": "memory",
    "attach": "clients that attach in a second",
}
_FAULTS_MAX = 5


def answer_of(summary: ResultsSummary) -> list[str]:
    """A few sentences. Names in them are not escaped: the caller escapes the text before it shows it."""
    if not summary.runs:
        return ["There is nothing to tell: no run is in this summary."]
    if len(summary.runs) == 1:
        return one_run(summary.runs[0])
    lines = [_cheapest_line(each, summary) for each in (summary.sweep.cheapest if summary.sweep else [])]
    if compared := compared_designs(summary):
        loads = {(each.subscribers, each.rate) for each in summary.runs}
        at = f"{_load(compared[0].subscribers, compared[0].rate)}, " if len(loads) > 1 else ""
        lines += [_design_line(each, compared, at) for each in compared]
    return lines or _range_lines(summary.runs)


def one_run(run: RunSummary) -> list[str]:
    """Deliveries, latency, the broker nearest to a limit, and the effects of each fault."""
    lines = [_deliveries(run)]
    if run.totals.delivered:
        latency = run.latency
        lines.append(
            f"Half of them arrived within {units.ms(latency.p50_ms)}, 99 % within {units.ms(latency.p99_ms)}, "
            f"the slowest after {units.ms(latency.max_ms)}."
        )
    lines.append(bottleneck_line(run.bottleneck))
    lines += [fault_line(each) for each in run.faults[:_FAULTS_MAX]]
    if len(run.faults) > _FAULTS_MAX:
        lines.append(f"There were {len(run.faults) - _FAULTS_MAX} more faults.")
    return lines


def bottleneck_line(bottleneck: Bottleneck | None) -> str:
    if bottleneck is None:
        return "No broker has a limit that is known."
    what = _WHAT.get(bottleneck.what, bottleneck.what)
    told = f"{bottleneck.broker} is nearest to its limit: {units.share(bottleneck.used)} of its {what}"
    if bottleneck.used > 1 or bottleneck.room < 1:
        return f"{told}. That is more than it has: the load must shrink to {units.share(bottleneck.room)} of this."
    return f"{told}; the load could be {units.times(bottleneck.room)} as large until it is there."


def fault_line(fault: FaultSummary) -> str:
    """One line about a fault and its effects: `kill p2 at 30s: ...`."""
    parts = []
    if fault.no_root_ms is not None:
        parts.append(f"no root for {units.ms(fault.no_root_ms)}")
    if fault.lost_clients:
        lost = f"{units.plural(fault.lost_clients, 'client')} lost their broker"
        back = [
            f"{word} back after {units.ms(time)}"
            for word, time in (("half were", fault.back_p50_ms), ("all were", fault.back_all_ms))
            if time is not None
        ]
        parts.append(", ".join([lost, *(back if fault.back_all_ms is not None else [*back, "not all came back"])]))
    parts.append(f"{units.plural(fault.missed, 'delivery')} missed".replace("deliverys", "deliveries"))
    return f"{fault.fault}: {'; '.join(parts)}."


def _deliveries(run: RunSummary) -> str:
    totals = run.totals
    who = f"{units.plural(run.subscribers, 'subscriber')} on {spelled_layout(run)}"
    if not totals.expected:
        return f"{who} were to get nothing: {units.plural(totals.publications, 'publication')}, no delivery."
    if not totals.missed:
        return f"{who} got all of their {totals.expected:,} deliveries."
    return (
        f"{who} got {totals.delivered:,} of {totals.expected:,} deliveries "
        f"({units.share(totals.delivered / totals.expected)}); {totals.missed:,} were missed."
    )


def _cheapest_line(cheapest: Cheapest, summary: ResultsSummary) -> str:
    load = f"For {_load(cheapest.subscribers, cheapest.rate)}"
    run = next((each for each in summary.runs if each.run == cheapest.run), None)
    if run is None:
        return f"{load} no layout of the grid meets the goal: {cheapest.why.rstrip('.')}."
    design = "" if len({each.design for each in summary.runs}) == 1 else f" ({run.design})"
    return (
        f"{load} {spelled_layout(run)}{design} suffice: 99 % arrive within {units.ms(run.latency.p99_ms)}, the busiest "
        f"broker uses {units.share(busiest_cpu(run))} of a core."
    )


def _design_line(run: RunSummary, among: list[RunSummary], at: str) -> str:
    totals = run.totals
    limit = run.bottleneck
    room = f" ({limit.broker} could take {units.times(limit.room)} the load)" if limit else ""
    return (
        f"{at}{label_of(run, among)}: {units.count(totals.delivered)} deliveries with {units.count(totals.copies)} "
        f"copies between brokers, half within {units.ms(run.latency.p50_ms)} and 99 % within "
        f"{units.ms(run.latency.p99_ms)}; busiest broker {units.share(busiest_cpu(run))} of a core{room}, "
        f"{units.count(totals.missed)} missed."
    )


def _load(subscribers: int, rate: float) -> str:
    told = units.plural(subscribers, "subscriber")
    return told if rate == 1 else f"{told} at {rate:g} times the rate"


def _range_lines(runs: list[RunSummary]) -> list[str]:
    fastest = min(runs, key=lambda each: (each.latency.p99_ms, each.run))
    slowest = max(runs, key=lambda each: (each.latency.p99_ms, -each.run))
    designs = few(dict.fromkeys(each.design for each in runs))
    return [
        f"{len(runs)} layouts ({designs}): 99 % of the deliveries arrive within {units.ms(fastest.latency.p99_ms)} "
        f"({label_of(fastest, runs)}) to {units.ms(slowest.latency.p99_ms)} ({label_of(slowest, runs)})."
    ]
