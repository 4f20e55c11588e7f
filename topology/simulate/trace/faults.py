"""The faults that traces show: brokers that fell silent or were stopped, and times without a root."""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd

from topology.simulate.results.summary import FaultSummary, Point

ALIVE_US = 3_000_000
"""Every second a broker writes a line on its state. If it wrote none for so long before the end, it is down."""
AFTER_US = 10_000_000
"""A time without a root that begins so soon after a broker went down is an effect of that."""
FAULTS_MAX = 100


class _Gap(NamedTuple):
    """A time in which some brokers had no root."""

    from_us: int
    to_us: int
    brokers: tuple[str, ...]


def faults_of(
    lives: pd.DataFrame, roots: pd.DataFrame, timeline: list[Point], *, began_us: int, ended_us: int
) -> list[FaultSummary]:
    """All faults in the order of time. A time without a root belongs to a broker that went down just before."""
    # If all brokers are stopped one after the other, the root is not the last: no fault.
    gaps = [each for each in _gaps(lives, roots) if each.from_us < ended_us - ALIVE_US or each.to_us < ended_us]
    found: list[FaultSummary] = []
    for row in lives.sort_values(["last_us", "broker"]).itertuples():
        is_last = not ((lives["broker"] == row.broker) & (lives["life"] > row.life)).any()
        said = row.why if isinstance(row.why, str) else ""
        # Brokers that end together at the end of the trace have not failed.
        if said.startswith("full") or (is_last and ended_us - row.last_us < ALIVE_US):
            continue
        because = [each for each in gaps if row.last_us - ALIVE_US / 3 <= each.from_us <= row.last_us + AFTER_US]
        gaps = [each for each in gaps if each not in because]
        found.append(
            _fault(
                f"{row.broker} {'was stopped' if said else 'fell silent'}",
                row.last_us,
                because,
                timeline,
                began_us,
                lost_clients=0 if said or pd.isna(row.clients) else int(row.clients),
            )
        )
    found += [
        _fault(f"no root for {', '.join(each.brokers)}", each.from_us, [each], timeline, began_us) for each in gaps
    ]
    return sorted(found, key=lambda each: each.at_s)[:FAULTS_MAX]


def _fault(
    text: str, at_us: int, gaps: list[_Gap], timeline: list[Point], began_us: int, *, lost_clients: int = 0
) -> FaultSummary:
    at_s = (at_us - began_us) / 1e6
    until_s = at_s + AFTER_US / 1e6
    after = [each for each in timeline if at_s - 1 <= each.at_s <= until_s]
    span_s = _span_s(timeline)
    by_time: dict[float, int] = {}
    for each in after:
        by_time[each.at_s] = by_time.get(each.at_s, 0) + each.attaches
    return FaultSummary(
        fault=text,
        at_s=at_s,
        no_root_ms=max((each.to_us - each.from_us for each in gaps), default=0) / 1e3 if gaps else None,
        lost_clients=lost_clients,
        missed=sum(each.missed for each in after),
        attaches_per_s_max=max(by_time.values(), default=0) / span_s,
    )


def _span_s(timeline: list[Point]) -> float:
    times = sorted({each.at_s for each in timeline})
    return times[1] - times[0] if len(times) > 1 else 1.0


def _gaps(lives: pd.DataFrame, roots: pd.DataFrame) -> list[_Gap]:
    """Times in which brokers had lost their root. Times that overlap are one."""
    last_us = lives.groupby("broker")["last_us"].max().to_dict() if len(lives) else {}
    single: list[_Gap] = []
    for broker, rows in roots.groupby("broker"):
        told = rows.sort_values("at_us")
        ends = [*told["at_us"].tolist()[1:], last_us.get(broker, 0)]
        for at_us, root, end_us in zip(told["at_us"].tolist(), told["root"].tolist(), ends, strict=True):
            if not root and end_us > at_us:
                single.append(_Gap(int(at_us), int(end_us), (str(broker),)))
    merged: list[_Gap] = []
    for gap in sorted(single):
        if merged and gap.from_us <= merged[-1].to_us:
            before = merged.pop()
            names = tuple(sorted({*before.brokers, *gap.brokers}))
            gap = _Gap(before.from_us, max(before.to_us, gap.to_us), names)
        merged.append(gap)
    return merged
