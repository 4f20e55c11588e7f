"""Which ways a message has from a broker, by who is root and who reaches whom. What a way costs is of `test_jobs`."""

from __future__ import annotations

import pytest

from topology.simulate.input.layout import Design, Layout, as_design, layout_of_counts
from topology.simulate.input.period import Period
from topology.simulate.input.timeline import NOBODY
from topology.simulate.spark.schemas import JobKind
from topology.simulate.traffic.relaying import Way, Ways, ways_from

P1, P2, P3, S1, S2, S3 = range(6)
ALL = range(6)
LAYOUT = layout_of_counts(3, 3, latency_us=200)


def found(origin: int, *, root: int = P1, without: frozenset[int] = frozenset(), layout: Layout = LAYOUT) -> Ways:
    reach = [a not in without and b not in without for a in ALL for b in ALL]
    return ways_from(origin, layout, Period(0, 1_000, root, root, 0, reach))


def test_a_primary_sends_to_everybody_itself() -> None:
    ways = found(P2)
    assert ways.direct == [P1, P3, S1, S2, S3]
    assert ways.passed == []
    assert {way.to for way in ways.ways if way.source == P2} == {P1, P3, S1, S2, S3}


def test_a_secondary_sends_to_primaries_and_the_root_passes_on_to_secondaries() -> None:
    ways = found(S2, root=P3)
    assert (ways.direct, ways.passed) == ([P1, P2, P3], [S1, S3])
    assert Way(S1, JobKind.FROM_ROOT, P3, False, 400) in ways.ways


def test_nothing_passes_a_root_that_is_not_there_or_not_reached() -> None:
    assert found(S1, root=NOBODY).passed == []
    assert found(S1, without=frozenset({P1})).passed == []


def test_the_publishers_broker_has_the_message_in_any_case_and_of_nobody() -> None:
    for origin in ALL:
        assert found(origin).ways[0] == Way(origin, JobKind.PUBLISHED, NOBODY, True, 0)
        assert sum(way.is_always for way in found(origin).ways) == 1


def test_no_broker_has_two_ways() -> None:
    for origin in ALL:
        reached = [way.to for way in found(origin).ways]
        assert sorted(reached) == sorted(set(reached)) == list(ALL)


@pytest.mark.parametrize(("design", "agreed_us"), [("active-passive", 0), ("virtual-synchrony", 400)])
def test_where_all_is_replicated_everybody_gets_everything_when_all_are_agreed(design: Design, agreed_us: int) -> None:
    ways = found(P2, without=frozenset({S3}), layout=as_design(LAYOUT, design))
    assert ways.is_replicated
    assert ways.always == 4
    assert [(way.to, way.is_always, way.way_us) for way in ways.ways] == [
        (P2, True, agreed_us),
        *((to, True, agreed_us + 200) for to in (P1, P3, S1, S2)),
    ]
