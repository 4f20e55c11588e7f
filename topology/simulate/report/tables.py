"""Tables of the report: what was asked, runs, brokers, faults, queues, stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from topology.simulate.input import units
from topology.simulate.report.html import Content, Html, details, element, html, nothing, table
from topology.simulate.results.choosing import busiest_cpu, label_of, layout_of, recovery_ms
from topology.simulate.results.summary import FaultSummary, RunSummary, Stage, Sweep
from topology.words import few

ROWS_MAX = 400
BROKERS_MAX = 100
ITEMS_MAX = 40
DEPTH_MAX = 6
_TEXT_MAX = 20_000


def runs_table(runs: Sequence[RunSummary], cheapest: set[int]) -> Html:
    """All runs, a line each."""
    headers = ("run", "design", "brokers", "subscribers", "rate", "deliveries", "missed", "copies", "p50", "p99")
    rows: list[Sequence[Content]] = []
    for run in runs[:ROWS_MAX]:
        number: Content = str(run.run)
        if run.run in cheapest:
            number = element("span", f"{run.run} ✓", class_="best", title="the cheapest that meets the goal")
        told = run.totals, run.latency
        rows.append(
            (
                number,
                run.design,
                f"{run.primaries} + {run.secondaries}" if run.secondaries else str(run.primaries),
                f"{run.subscribers:,}",
                f"x {run.rate:g}",
                units.count(told[0].delivered),
                _bad(units.count(told[0].missed), told[0].missed > 0),
                units.count(told[0].copies),
                units.ms(told[1].p50_ms),
                units.ms(told[1].p99_ms),
                _bad(units.share(busiest_cpu(run)), busiest_cpu(run) >= 1),
                units.ms(recovery_ms(run)),
                f"{run.bottleneck.broker}: {run.bottleneck.what}" if run.bottleneck else units.NOTHING,
                f"x {units.three(run.bottleneck.room)}" if run.bottleneck else units.NOTHING,
            )
        )
    told_runs = (
        "All runs" if len(runs) <= ROWS_MAX else f"The first {ROWS_MAX} of {len(runs)} runs (summary.json has all)"
    )
    caption = f"{told_runs}. Brokers are primaries + secondaries."
    return table((*headers, "busiest CPU", "all back", "limit", "room"), rows, words=3, caption=caption)


def cheapest_table(sweep: Sweep, runs: Sequence[RunSummary]) -> Html:
    """What the sweep answers."""
    by_number = {each.run: each for each in runs}
    rows: list[Sequence[Content]] = []
    for each in sweep.cheapest[:ROWS_MAX]:
        run = by_number.get(each.run) if each.run is not None else None
        found = (
            element("span", f"{layout_of(run)}, {run.design}", class_="best") if run else _bad("none of the grid", True)
        )
        p99 = units.ms(run.latency.p99_ms) if run else units.NOTHING
        cpu = units.share(busiest_cpu(run)) if run else units.NOTHING
        rows.append((found, each.why, f"{each.subscribers:,}", f"x {each.rate:g}", p99, cpu))
    headers = ("cheapest", "why", "subscribers", "rate", "p99", "busiest CPU")
    return table(headers, rows, words=2, caption=f"The fewest brokers that meet: {sweep.goal or 'no goal was given'}")


def latency_table(runs: Sequence[RunSummary]) -> Html:
    rows = []
    for run in runs:
        latency = run.latency
        times = (latency.mean_ms, latency.p50_ms, latency.p90_ms, latency.p99_ms, latency.p999_ms, latency.max_ms)
        rows.append((label_of(run, runs), *map(units.ms, times), units.count(sum(latency.counts))))
    return table(("", "mean", "p50", "p90", "p99", "p99.9", "slowest", "deliveries"), rows)


def brokers_table(run: RunSummary) -> Html:
    headers = ("broker", "role", "clients", "published", "deliveries", "copies in", "copies out", "CPU", "CPU, busiest")
    more = ("in, most", "out, most", "memory", "backlog, most")
    rows: list[Sequence[Content]] = [
        (
            each.name,
            each.role,
            units.count(each.clients_max),
            units.count(each.publications),
            units.count(each.deliveries),
            units.count(each.copies_in),
            units.count(each.copies_out),
            units.share(each.cpu_mean),
            _bad(units.share(each.cpu_max), each.cpu_max >= 1),
            units.mbit(each.in_mbit_max),
            units.mbit(each.out_mbit_max),
            units.memory(each.memory_mb),
            units.ms(each.backlog_ms_max),
        )
        for each in run.brokers[:BROKERS_MAX]
    ]
    left = len(run.brokers) - BROKERS_MAX
    caption = f"{left} more are in summary.json" if left > 0 else ""
    return table((*headers, *more), rows, words=2, caption=caption)


def totals_table(run: RunSummary) -> Html:
    totals = run.totals
    missed = _bad(units.count(totals.missed), totals.missed > 0)
    row: Sequence[Content] = (
        units.count(totals.publications),
        units.count(totals.unsent),
        units.count(totals.expected),
        units.count(totals.delivered),
        missed,
        units.count(totals.copies),
        units.size(totals.copies_bytes),
        units.size(totals.delivered_bytes),
        units.seconds(totals.cpu_s),
    )
    headers = (
        "published",
        "unsent",
        "expected",
        "delivered",
        "missed",
        "copies",
        "copied",
        "delivered in all",
        "CPU in all",
    )
    return table(headers, [row], words=0)


def faults_table(faults: Sequence[FaultSummary]) -> Html:
    rows = [
        (
            each.fault,
            units.seconds(each.at_s),
            units.ms(each.no_root_ms),
            units.count(each.lost_clients),
            units.ms(each.back_p50_ms),
            units.ms(each.back_all_ms),
            units.count(each.missed),
            units.count(each.attaches_per_s_max),
        )
        for each in faults[:ROWS_MAX]
    ]
    headers = ("fault", "at", "no root", "lost clients", "half back", "all back", "missed", "attaches/s, most")
    return table(headers, rows)


def queues_table(run: RunSummary) -> Html:
    rows = [
        (
            each.name,
            units.count(each.published),
            units.count(each.consumed),
            units.ms(each.wait_p50_ms),
            units.ms(each.wait_p99_ms),
            units.count(each.backlog_max),
            units.share(each.consumers_busy),
        )
        for each in run.queues[:ROWS_MAX]
    ]
    headers = (
        "shared queues",
        "published",
        "consumed",
        "half done within",
        "99 % within",
        "backlog, most",
        "consumers busy",
    )
    return table(headers, rows)


def stages_table(stages: Sequence[Stage], took_s: float) -> Html:
    if not stages:
        return nothing(f"It took {units.seconds(took_s)}.")
    rows = [
        (each.name, units.seconds(each.took_s), units.share(each.took_s / took_s) if took_s > 0 else units.NOTHING)
        for each in stages
    ]
    rows.append(("from command to report", units.seconds(took_s), ""))
    return table(("stage", "took", "of all"), rows)


def facts(pairs: Sequence[tuple[str, Content]]) -> Html:
    """Words and what they are, in two columns."""
    rows = [element("tr", element("th", name, scope="row"), element("td", value)) for name, value in pairs if value]
    return element("div", element("table", element("tbody", *rows)), class_="wide facts")


def parameters(title: str, values: Mapping[str, Any]) -> Html:
    """Nested values, folded away."""
    text = "\n".join(_lines(values, 0))
    if len(text) > _TEXT_MAX:
        text = f"{text[:_TEXT_MAX]}\n... (summary.json has all)"
    # Line by line, because what steers a terminal is spelled out in text, and line breaks are such.
    return details(title, element("pre", Html("\n".join(html(line) for line in text.split("\n")))))


def _lines(value: Any, depth: int) -> list[str]:
    """Like TOML, with what belongs to a list's element moved in."""
    indent = "  " * depth
    if depth >= DEPTH_MAX:
        return [f"{indent}..."]
    if isinstance(value, Mapping):
        found = []
        for name, each in value.items():
            if isinstance(each, Mapping | list | tuple) and each and not _is_flat(each):
                found += [f"{indent}{name}:", *_lines(each, depth + 1)]
            else:
                found.append(f"{indent}{name} = {_told(each)}")
        return found
    found = []
    for each in list(value)[:ITEMS_MAX]:
        inner = _lines(each, depth + 1) if isinstance(each, Mapping | list | tuple) else [f"{indent}  {_told(each)}"]
        found += [f"{indent}- {inner[0].strip()}" if inner else f"{indent}-", *inner[1:]]
    return found + ([f"{indent}... {len(value) - ITEMS_MAX} more"] if len(value) > ITEMS_MAX else [])


def _is_flat(value: Any) -> bool:
    return not isinstance(value, Mapping) and not any(isinstance(each, Mapping | list | tuple) for each in value)


def _told(value: Any) -> str:
    if isinstance(value, Mapping):
        return "(none)"
    if isinstance(value, list | tuple):
        return few([_told(each) for each in value], ITEMS_MAX) or "(none)"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def _bad(text: str, is_bad: bool) -> Content:
    return element("span", text, class_="bad") if is_bad else text
