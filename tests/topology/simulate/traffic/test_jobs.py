"""The relay rules: who gets a copy of what from whom, and what that costs."""

from __future__ import annotations

import random
from collections.abc import Sequence

import msgspec
import pytest
from pyspark.sql import Row, SparkSession

from topology.simulate.input.calibration import shipped
from topology.simulate.input.layout import Design, GridCell, Layout, as_design, layout_of_counts
from topology.simulate.input.period import Period
from topology.simulate.spark.schemas import SENT, JobKind
from topology.simulate.traffic.jobs import jobs
from topology.simulate.traffic.relaying import ways as ways_of

pytestmark = pytest.mark.sockets

PRIMARIES, SECONDARIES = 3, 3
COUNT = PRIMARIES + SECONDARIES
LAYOUT = layout_of_counts(PRIMARIES, SECONDARIES, latency_us=200)
P1, P2, P3, S1, S2, S3 = range(COUNT)
ALL = frozenset[frozenset[int]]()


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A publication, and what is where at that time."""

    origin: int
    at: dict[int, int]
    root: int = P1
    cuts: frozenset[frozenset[int]] = ALL
    size: int = 100
    nowhere: int = 0


def done(spark: SparkSession, cases: Sequence[Case], layout: Layout = LAYOUT) -> list[list[Row]]:
    """The jobs of each case; every case is a run of its own."""
    runs = [GridCell(number=number, layout=layout, subscribers=0) for number in range(len(cases))]
    count = len(layout.sites)
    rows, periods = [], list[list[Period]]()
    for number, case in enumerate(cases):
        subscribers = [case.at.get(broker, 0) for broker in range(count)]
        rows.append((number, number, 3, 40_000, 500, case.size, case.origin, [*subscribers, case.nowhere]))
        reach = [frozenset((a, b)) not in case.cuts for a in range(count) for b in range(count)]
        periods.append([Period(0, 1_000, case.root, case.root, 0, reach)])
    made = jobs(spark.createDataFrame(rows, SENT), ways_of(spark, runs, periods), shipped()).collect()
    return [
        sorted((row for row in made if row.run == number), key=lambda row: row.broker) for number in range(len(cases))
    ]


def ways(rows: Sequence[Row]) -> set[tuple[int, int]]:
    """From whom to whom copies went."""
    return {(row.source, row.broker) for row in rows if row.source >= 0}


def test_a_message_that_nobody_wants_goes_nowhere(spark: SparkSession) -> None:
    (rows,) = done(spark, [Case(origin=S1, at={})])
    assert [(row.broker, row.kind, row.copies, row.deliveries) for row in rows] == [(S1, JobKind.PUBLISHED, 0, 0)]


def test_a_primary_sends_one_copy_to_each_broker_with_interest_and_to_no_other(spark: SparkSession) -> None:
    (rows,) = done(spark, [Case(origin=P2, at={P2: 3, P3: 500, S1: 1, S3: 2})])
    assert ways(rows) == {(P2, P3), (P2, S1), (P2, S3)}
    assert [row.deliveries for row in rows] == [3, 500, 1, 2]
    assert {row.broker: row.copies for row in rows} == {P2: 3, P3: 0, S1: 0, S3: 0}


def test_a_secondary_reaches_other_secondaries_through_the_root_by_one_copy(spark: SparkSession) -> None:
    (rows,) = done(spark, [Case(origin=S1, at={S2: 4, S3: 5, P2: 6})])
    assert ways(rows) == {(S1, P2), (S1, P1), (P1, S2), (P1, S3)}
    root = next(row for row in rows if row.broker == P1)
    assert (root.kind, root.copies, root.deliveries) == (JobKind.PASSED_ON, 2, 0)
    assert {row.broker: row.deliveries for row in rows} == {S1: 0, P1: 0, P2: 6, S2: 4, S3: 5}


def test_the_root_gets_one_copy_for_its_own_subscribers_and_for_the_secondaries(spark: SparkSession) -> None:
    (rows,) = done(spark, [Case(origin=S1, at={P1: 7, S2: 1})])
    assert ways(rows) == {(S1, P1), (P1, S2)}
    assert next(row for row in rows if row.broker == S1).copies == 1


def test_without_a_root_secondaries_reach_primaries_and_no_secondaries(spark: SparkSession) -> None:
    (rows,) = done(spark, [Case(origin=S1, at={S1: 1, P2: 1, S2: 1}, root=-1)])
    assert {row.broker for row in rows} == {S1, P2}


def test_what_is_cut_gets_nothing(spark: SparkSession) -> None:
    cut = frozenset({frozenset((P1, P3)), frozenset((P1, S2))})
    rows = done(spark, [Case(origin=P1, at={P3: 1, P2: 1, S2: 1}, cuts=cut), Case(origin=S1, at={S2: 1}, cuts=cut)])
    assert ways(rows[0]) == {(P1, P2)}
    assert {row.broker for row in rows[1]} == {S1}


def test_a_copy_arrives_one_latency_later_for_each_broker_it_passes(spark: SparkSession) -> None:
    (rows,) = done(spark, [Case(origin=S1, at={S2: 1, P2: 1})])
    # Sent at 40 ms over a link of 0.5 ms.
    assert {row.broker: row.at_us for row in rows} == {S1: 40_500, P1: 40_700, P2: 40_700, S2: 40_900}


def test_what_a_broker_does_for_a_message_costs_what_was_measured(spark: SparkSession) -> None:
    costs = shipped()
    (rows,) = done(spark, [Case(origin=S1, at={S1: 9, S2: 1, P2: 1}, size=2_000)])
    found = {row.broker: row.base_us for row in rows}
    out_us = costs.relay_out_us + 2 * costs.relay_kb_us
    in_us = costs.relay_in_us + 2 * costs.relay_kb_us
    assert found[S1] == pytest.approx(costs.publish_us + 2 * costs.publish_kb_us + 2 * out_us)
    assert found[P1] == pytest.approx(in_us + out_us)
    assert found[P2] == found[S2] == pytest.approx(in_us)


def test_by_chance_of_all_kinds_every_reachable_subscriber_gets_it_once(spark: SparkSession) -> None:
    chance = random.Random(5)
    cases = [_any(chance) for _ in range(300)]
    for case, rows in zip(cases, done(spark, cases), strict=True):
        delivered = {row.broker: row.deliveries for row in rows if row.deliveries}
        assert delivered == {broker: count for broker, count in case.at.items() if count and _reaches(case, broker)}, (
            case
        )
        assert len({row.broker for row in rows}) == len(rows)
        # A copy that is sent arrives, and one that arrives was sent.
        assert sum(row.copies for row in rows) == len(rows) - 1


def _any(chance: random.Random) -> Case:
    pairs = [frozenset((a, b)) for a in range(COUNT) for b in range(a)]
    return Case(
        origin=chance.randrange(COUNT),
        at={broker: chance.choice((0, 0, 1, 40)) for broker in range(COUNT)},
        root=chance.choice((P1, P2, P3, -1)),
        cuts=frozenset(pair for pair in pairs if chance.random() < 0.15),
        nowhere=chance.choice((0, 3)),
    )


def _reaches(case: Case, broker: int) -> bool:
    """Whether what is published gets to a broker, by the words of the design."""
    if broker == case.origin:
        return True
    if case.origin < PRIMARIES or broker < PRIMARIES:
        # Every broker has a link to every primary, and it has one back.
        return frozenset((case.origin, broker)) not in case.cuts
    root = case.root
    return root >= 0 and not {frozenset((case.origin, root)), frozenset((root, broker))} & case.cuts


@pytest.mark.parametrize("design", ["active-passive", "virtual-synchrony"])
def test_where_all_is_replicated_every_broker_gets_every_message(spark: SparkSession, design: Design) -> None:
    (rows,) = done(
        spark,
        [Case(origin=P2, at={P2: 10, S1: 5} if design != "active-passive" else {P2: 15})],
        as_design(LAYOUT, design),
    )
    assert [row.broker for row in rows] == list(range(COUNT))
    assert rows[P2].copies == COUNT - 1
    assert sum(row.deliveries for row in rows) == 15
    # Whoever has none of the subscribers enters the message in their queues all the same.
    costs = shipped()
    assert rows[P3].base_us > 15 * costs.delivery_us


def test_in_virtual_synchrony_nobody_delivers_before_all_agree_on_the_order(spark: SparkSession) -> None:
    (rows,) = done(spark, [Case(origin=P1, at={P1: 1, P2: 1})], as_design(LAYOUT, "virtual-synchrony"))
    assert rows[P1].at_us == 40_500 + 2 * 200


def test_one_broker_alone_does_it_all(spark: SparkSession) -> None:
    (rows,) = done(spark, [Case(origin=0, at={0: 12})], as_design(LAYOUT, "single"))
    assert [(row.broker, row.copies, row.deliveries) for row in rows] == [(0, 0, 12)]
