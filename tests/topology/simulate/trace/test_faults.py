"""What went wrong, as far as traces show it."""

from __future__ import annotations

import pandas as pd

from topology.simulate.results.summary import FaultSummary, Point
from topology.simulate.trace.faults import faults_of

SECOND = 1_000_000


def life(
    broker: str, began_s: float, last_s: float, *, number: int = 1, why: str | None = None, clients: int = 5
) -> dict[str, object]:
    return {
        "broker": broker,
        "life": number,
        "began_us": round(began_s * SECOND),
        "last_us": round(last_s * SECOND),
        "why": why,
        "clients": clients,
    }


def root(broker: str, at_s: float, name: str, before: str | None = "p1") -> dict[str, object]:
    return {"broker": broker, "at_us": round(at_s * SECOND), "root": name, "before": before}


def faults(
    lives: list[dict[str, object]], roots: list[dict[str, object]], points: list[Point] | None = None
) -> list[FaultSummary]:
    ended_us = max(int(str(each["last_us"])) for each in lives)
    columns = ["broker", "at_us", "root", "before"]
    return faults_of(
        pd.DataFrame(lives), pd.DataFrame(roots, columns=columns), points or [], began_us=0, ended_us=ended_us
    )


def told(found: list[FaultSummary]) -> list[tuple[str, float, float | None]]:
    return [(each.fault, each.at_s, each.no_root_ms) for each in found]


def point(broker: str, at_s: float, attaches: int, missed: int = 0) -> Point:
    return Point(
        broker=broker,
        at_s=at_s,
        cpu=0,
        clients=0,
        attaches=attaches,
        deliveries=0,
        copies_in=0,
        copies_out=0,
        out_mbit=0,
        backlog_ms=0,
        missed=missed,
    )


def test_brokers_that_end_together_have_not_failed() -> None:
    assert faults([life("p1", 0, 60), life("p2", 0, 58, why="stopped")], []) == []


def test_a_root_that_falls_silent_is_missed_because_of_that() -> None:
    lives = [life("p1", 0, 30, clients=9), life("p2", 0, 60), life("p3", 0, 60)]
    roots = [root("p2", 30.3, ""), root("p3", 30.4, ""), root("p2", 30.8, "p2", ""), root("p3", 30.9, "p2", "")]
    (fault,) = faults(lives, roots)
    assert (fault.fault, fault.at_s, fault.no_root_ms) == ("p1 fell silent", 30, 600)
    assert fault.lost_clients == 9


def test_a_broker_that_comes_back_was_silent_all_the_same() -> None:
    lives = [life("p1", 0, 10, number=1), life("p1", 12, 60, number=2), life("p2", 0, 60)]
    assert told(faults(lives, [])) == [("p1 fell silent", 10, None)]


def test_a_broker_that_was_stopped_says_so_and_loses_nobody() -> None:
    lives = [life("p1", 0, 10, why="stopped"), life("p2", 0, 60)]
    (fault,) = faults(lives, [])
    assert (fault.fault, fault.lost_clients) == ("p1 was stopped", 0)


def test_a_trace_that_is_full_is_no_fault() -> None:
    assert faults([life("p1", 0, 10, why="full: 1 MB"), life("p2", 0, 60)], []) == []


def test_times_without_a_root_that_overlap_are_one() -> None:
    lives = [life("p1", 0, 60), life("p2", 0, 60)]
    roots = [
        root("p1", 10, ""),
        root("p1", 12, "p1", ""),
        root("p2", 11, ""),
        root("p2", 13, "p1", ""),
        root("p2", 40, ""),
        root("p2", 41, "p1", ""),
    ]
    assert told(faults(lives, roots)) == [("no root for p1, p2", 10, 3_000), ("no root for p2", 40, 1_000)]


def test_a_root_that_does_not_come_back_is_missed_to_the_end() -> None:
    assert told(faults([life("p1", 0, 60)], [root("p1", 20, "")])) == [("no root for p1", 20, 40_000)]


def test_the_end_of_all_is_no_time_without_a_root() -> None:
    assert faults([life("p1", 0, 60), life("p2", 0, 59)], [root("p1", 59.5, "")]) == []


def test_what_follows_a_fault_is_told_with_it() -> None:
    points = [point(broker, at_s, 10 if at_s == 12 else 1, missed=2) for at_s in range(60) for broker in ("p2", "p3")]
    (fault,) = faults([life("p1", 0, 10), life("p2", 0, 60)], [], points)
    assert fault.attaches_per_s_max == 20
    assert fault.missed == 2 * 2 * 12, "from the second before until ten after"
