"""Rows that compare one cluster with others: deliveries a second, and deliveries a second of its brokers' CPU."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from openclust.bench.report.round_summary import Per, Summary, ratio_of_deliveries
from openclust.bench.rows.cluster_row import ClusterRow


def speed_row(key: str, title: str, found: Sequence[Summary], other: Summary, target: float | None) -> ClusterRow:
    """The first of `found` against one of the others; the row has the figures and notes of all."""
    row = _row(key, title, found[0], other, target, "elapsed_s", (_detail(found[0]), _detail(other)))
    return msgspec.structs.replace(row, figures=figures_of(found), notes=notes_of(found))


def cpu_row(key: str, title: str, ours: Summary, other: Summary, target: float | None) -> ClusterRow:
    return _row(key, title, ours, other, target, "broker_cpu_s", (_cpu(ours), _cpu(other)))


def rate_row(key: str, title: str, ours: Summary) -> ClusterRow:
    """The speed of one cluster, if there is no other to compare it with."""
    return ClusterRow(
        key=key,
        title=title,
        unit="/s",
        value=ours.messages_per_s,
        shown=_detail(ours),
        figures=figures_of([ours]),
        notes=notes_of([ours]),
    )


def figures_of(found: Sequence[Summary]) -> dict[str, object]:
    return {each.name: msgspec.to_builtins(each) for each in found}


def notes_of(found: Sequence[Summary]) -> list[str]:
    return [f"{each.name}: {note}" for each in found for note in each.notes]


def _row(
    key: str, title: str, ours: Summary, other: Summary, target: float | None, per: Per, details: tuple[str, str]
) -> ClusterRow:
    found = ratio_of_deliveries(ours, other, per)
    spread = f"; {found.spread} x" if found is not None and found.spread else ""
    return ClusterRow(
        key=key,
        title=f"{title}, against {other.name}",
        unit="x",
        target=target,
        is_floor=True,
        value=None if found is None else found.value,
        shown=f"{details[0]}; {other.name} {details[1]}{spread}",
    )


def _detail(summary: Summary) -> str:
    """Figures of one cluster in half a line."""
    confirmed = summary.confirm_latency_ms
    times = f", confirmed after {confirmed['p50']:.1f} ms, p99 {confirmed['p99']:.1f}" if confirmed else ""
    return f"{summary.deliveries_per_s or 0.0:,.0f}/s at {_cpu(summary)}{times}"


def _cpu(summary: Summary) -> str:
    used = summary.broker_cpu_us_per_delivery
    return "an unknown CPU time" if used is None else f"{used:.1f} us each"
