"""The choice of runs that are shown one by one, and of runs that are compared: a sweep may have hundreds."""

from __future__ import annotations

from collections.abc import Sequence

from topology.simulate.results.summary import ResultsSummary, RunSummary

CHOSEN_MAX = 4
COMPARED_MAX = 6


def chosen_runs(summary: ResultsSummary) -> list[RunSummary]:
    """Runs to show: all if they are few, else the cheapest that meet the goal, or the least and the greatest load."""
    runs = summary.runs
    if len(runs) <= CHOSEN_MAX:
        return list(runs)
    cheapest = summary.sweep.cheapest if summary.sweep else []
    wanted = {each.run for each in cheapest if each.run is not None}
    by_load = sorted((each for each in runs if each.run in wanted), key=_load)
    return _spread(by_load, CHOSEN_MAX) if by_load else [min(runs, key=_load), max(runs, key=_load)]


def compared_designs(summary: ResultsSummary) -> list[RunSummary]:
    """One run for each design, at the same load (the largest at which most designs ran); none if there is only one.

    Of several layouts of a design it is the one with most brokers.
    """
    by_load: dict[tuple[int, float], dict[str, RunSummary]] = {}
    for run in sorted(summary.runs, key=lambda each: (brokers_of(each), each.run)):
        by_load.setdefault((run.subscribers, run.rate), {})[run.design] = run
    if not by_load:
        return []
    load = max(by_load, key=lambda each: (len(by_load[each]), each))
    found = by_load[load]
    first_seen = list(dict.fromkeys(each.design for each in summary.runs))
    return [found[design] for design in first_seen if design in found][:COMPARED_MAX] if len(found) > 1 else []


def brokers_of(run: RunSummary) -> int:
    return run.primaries + run.secondaries


def label_of(run: RunSummary, among: Sequence[RunSummary]) -> str:
    """The values that distinguish this run from the others; its design if there are none."""
    parts = []
    if len({each.design for each in among}) > 1:
        parts.append(run.design)
    if len({(each.primaries, each.secondaries) for each in among}) > 1:
        parts.append(layout_of(run))
    if len({each.subscribers for each in among}) > 1:
        parts.append(f"{run.subscribers:,} subscribers")
    if len({each.rate for each in among}) > 1:
        parts.append(f"rate x {run.rate:g}")
    alike = sum(_key(each) == _key(run) for each in among) > 1
    if alike:
        parts.append(f"run {run.run}")
    return ", ".join(parts) or run.design


def _key(run: RunSummary) -> tuple[str, int, int, int, float]:
    return run.design, run.primaries, run.secondaries, run.subscribers, run.rate


def layout_of(run: RunSummary) -> str:
    """`3 + 2 brokers`: primaries and secondaries."""
    if not run.secondaries:
        return f"{run.primaries} broker{'' if run.primaries == 1 else 's'}"
    return f"{run.primaries} + {run.secondaries} brokers"


def spelled_layout(run: RunSummary) -> str:
    """`8 brokers (3 of them primaries)`: the form for readers who do not know `3 + 5 brokers` yet."""
    count = brokers_of(run)
    told = f"{count} broker{'' if count == 1 else 's'}"
    return f"{told} ({run.primaries} of them primaries)" if run.secondaries else told


def busiest_cpu(run: RunSummary) -> float:
    return max((each.cpu_max for each in run.brokers), default=0.0)


def recovery_ms(run: RunSummary) -> float | None:
    """The longest time that a fault's clients took to come back, all of them."""
    return max((each.back_all_ms for each in run.faults if each.back_all_ms is not None), default=None)


def _load(run: RunSummary) -> tuple[int, float, int]:
    return run.subscribers, run.rate, run.run


def _spread(runs: list[RunSummary], most: int) -> list[RunSummary]:
    """At most `most` of the runs, at even distances, with the first and the last."""
    if len(runs) <= most:
        return runs
    last = len(runs) - 1
    return [runs[round(number * last / (most - 1))] for number in range(most)]
