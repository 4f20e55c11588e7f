"""What was measured beside what was predicted: lines to show, and to write as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec
from rich.console import Console
from rich.table import Table

from openclust.cli.simulate.validate import Validation

if TYPE_CHECKING:
    from openclust.bench.live.cost import LiveFound
    from topology.simulate.results.summary import Point

NEAR, NEAR_P50 = 0.15, 0.30


class ComparedFigure(msgspec.Struct, frozen=True, kw_only=True):
    """`within` is how near a prediction is to be, of 1; 0: it is told only."""

    what: str
    unit: str
    measured: float | None
    predicted: float | None
    within: float = 0.0
    rounds: list[float] = []
    """What was measured in each."""

    @property
    def error(self) -> float | None:
        if self.measured is None or self.predicted is None or not self.measured:
            return None
        return self.predicted / self.measured - 1

    @property
    def met(self) -> bool | None:
        """None where nothing is wanted."""
        return None if not self.within or self.error is None else abs(self.error) <= self.within


def lines(found: Validation) -> list[ComparedFigure]:
    """Throughput, copies and CPU of the calm window, latency until its end, and what the first fault did."""
    each = [_lines(found, live) for live in found.rounds]
    return [
        msgspec.structs.replace(line, rounds=[one[number].measured for one in each if one[number].measured is not None])
        for number, line in enumerate(_lines(found, found.live))
    ]


def _lines(found: Validation, live: LiveFound) -> list[ComparedFigure]:
    points = list(_in_window(found))
    seconds = found.to_s - found.from_s
    names = found.layout.names
    relayed = sum(live.relayed.values())
    copies = sum(point.copies_in for point in points) / seconds - found.log_copies_per_s
    shared = _shared_deliveries(found)
    deliveries = sum(point.deliveries for point in points) / seconds - shared
    rows = [
        ComparedFigure(what="deliveries", unit="/s", measured=live.deliveries_per_s, predicted=deliveries, within=NEAR),
        ComparedFigure(what="copies between brokers", unit="/s", measured=relayed, predicted=copies, within=NEAR),
    ]
    predicted_cpu = {name: _mean([point.cpu for point in points if point.broker == name]) for name in names}
    for name, role in zip(names, _roles(found), strict=True):
        what = f"CPU of {name}, {role}"
        rows.append(
            ComparedFigure(
                what=what, unit="%", measured=live.cpu[name] * 100, predicted=predicted_cpu[name] * 100, within=NEAR
            )
        )
    total = sum(live.cpu.values()) * 100
    rows.append(
        ComparedFigure(
            what="CPU of all", unit="%", measured=total, predicted=sum(predicted_cpu.values()) * 100, within=NEAR
        )
    )
    latency = found.calm.latency
    p50, p99 = live.latency_ms.get("p50"), live.latency_ms.get("p99")
    rows.append(ComparedFigure(what="latency p50", unit="ms", measured=p50, predicted=latency.p50_ms, within=NEAR_P50))
    rows.append(ComparedFigure(what="latency p99", unit="ms", measured=p99, predicted=latency.p99_ms))
    if found.calm.queues:
        queue = found.calm.queues[0]
        worked = live.worked_ms
        rows.append(
            ComparedFigure(what="shared queue p50", unit="ms", measured=worked.get("p50"), predicted=queue.wait_p50_ms)
        )
        rows.append(
            ComparedFigure(what="shared queue p99", unit="ms", measured=worked.get("p99"), predicted=queue.wait_p99_ms)
        )
    return [*rows, *_of_fault(found, live)]


def _of_fault(found: Validation, live: LiveFound) -> Iterator[ComparedFigure]:
    for fault in found.whole.faults[:1]:
        yield ComparedFigure(what="without a root", unit="ms", measured=live.no_root_ms, predicted=fault.no_root_ms)
        yield ComparedFigure(what="clients lost", unit="", measured=live.lost, predicted=fault.lost_clients)
        yield ComparedFigure(
            what="half of them back", unit="ms", measured=live.back_p50_ms, predicted=fault.back_p50_ms
        )
        yield ComparedFigure(what="all of them back", unit="ms", measured=live.back_all_ms, predicted=fault.back_all_ms)


def _in_window(found: Validation) -> Iterator[Point]:
    span_s = found.whole.span_s
    for point in found.whole.timeline:
        if found.from_s - 1e-9 <= point.at_s and point.at_s + span_s <= found.to_s + 1e-9:
            yield point


def _shared_deliveries(found: Validation) -> float:
    """In the timeline deliveries of shared queues are among all; in a live run they are counted apart."""
    return sum(kind.rate * kind.producers * kind.count for kind in found.workload.queues)


def _roles(found: Validation) -> list[str]:
    return ["root", *("primary" if site.is_primary else "secondary" for site in found.layout.sites[1:])]


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def notes(found: Validation) -> list[str]:
    """What a reader must know to believe it."""
    live = found.live
    told = [
        f"measured from {found.from_s:g} s to {found.to_s:g} s; this machine's cores were busy to "
        f"{live.machine_busy:.0%}, the load generators used {live.generators_cpu:.0%} of one",
        f"{live.published:,} messages were published, {live.unsent:,} not, as their publisher was connected nowhere; "
        f"the latest left {live.late_ms:.1f} ms after they were due (99 of 100 at most so)",
        "clients in the end: " + ", ".join(f"{name} {count:,}" for name, count in live.at_brokers.items()),
    ]
    costs = found.calibration
    told.append(
        "all brokers and clients share this machine: the costs are those of brokers in company, a turn "
        f"{costs.company_turn_us:.0f} us and not {costs.turn_us:.0f}"
    )
    if len(found.rounds) > 1:
        told.append(f"medians of {len(found.rounds)} rounds; before each, brokers in company were measured anew")
    return [*told, *live.notes]


def data(found: Validation) -> dict[str, Any]:
    """For `--json`."""
    rows = [{**msgspec.to_builtins(each), "error": each.error, "met": each.met} for each in lines(found)]
    return {
        "lines": rows,
        "notes": notes(found),
        "measured": msgspec.to_builtins(found.live),
        "rounds": msgspec.to_builtins(found.rounds),
        "workload": msgspec.to_builtins(found.workload),
        "calibration": msgspec.to_builtins(found.calibration),
    }


def show(found: Validation, console: Console) -> None:
    table = Table()
    for column in ("", "measured", "in the rounds", "predicted", "error", "wanted"):
        table.add_column(column, justify="left" if not column else "right")
    for each in lines(found):
        error = "-" if each.error is None else f"{each.error:+.0%}"
        wanted = f"{each.within:.0%}, {'met' if each.met else 'missed'}" if each.within else ""
        measured, predicted = _amount(each.measured, each.unit), _amount(each.predicted, each.unit)
        table.add_row(each.what, measured, _between(each.rounds), predicted, error, wanted)
    console.print(table)
    for note in notes(found):
        console.print(note, soft_wrap=True)


def _amount(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    return f"{_number(value)} {unit}".strip()


def _between(values: list[float]) -> str:
    return f"{_number(min(values))} to {_number(max(values))}" if len(values) > 1 else ""


def _number(value: float) -> str:
    digits = 0 if abs(value) >= 1000 else 1 if abs(value) >= 10 else 3
    return f"{value:,.{digits}f}"
