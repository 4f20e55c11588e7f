"""All stages together: what comes out agrees with itself, with what went in, and with what can be worked out."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.support.simulate.small import workload
from topology.simulate.input.calibration import shipped
from topology.simulate.input.layout import GridCell, as_design, layout_of_counts
from topology.simulate.input.workload import Publishers, Queues, Subscribers, Topics, Workload
from topology.simulate.pipeline import STAGES, simulate
from topology.simulate.results.summary import RunSummary

pytestmark = pytest.mark.sockets

LAYOUT = layout_of_counts(2, 2)
CROWDED = msgspec.structs.replace(
    LAYOUT,
    sites=tuple(msgspec.structs.replace(site, host="h1" * (site.name != "p2"), cores=1) for site in LAYOUT.sites),
)
RUN = GridCell(number=0, layout=LAYOUT, subscribers=40)
FAULTS = ("kill s1 at 3s", "kill p1 at 4500ms")
QUEUES = (Queues(name="tasks", count=2, producers=3, rate=4, consumers=2, work_ms=20),)


@pytest.fixture(scope="module")
def five(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[RunSummary], Path]:
    """One workload under all designs, with faults and shared queues; and with three brokers on one core."""
    out = tmp_path_factory.mktemp("out")
    designs = ("openclust", "single", "active-passive", "virtual-synchrony")
    runs = [
        GridCell(number=number, layout=as_design(LAYOUT, design), subscribers=40)  # type: ignore[arg-type]
        for number, design in enumerate(designs)
    ]
    runs.append(GridCell(number=len(runs), layout=CROWDED, subscribers=40))
    told: list[str] = []
    given = workload(faults=FAULTS, queues=QUEUES)
    found = simulate(spark, runs, given, shipped(), out=out, progress=lambda stage, done, of: told.append(stage))
    assert told == list(STAGES)
    assert [each.name for each in found.stages] == list(STAGES)
    return found.runs, out


def test_what_is_expected_is_delivered_or_missed(five: tuple[list[RunSummary], Path]) -> None:
    for run in five[0]:
        totals = run.totals
        assert totals.publications > 300
        assert totals.expected == totals.delivered + totals.missed
        assert totals.delivered > 0
        assert sum(run.latency.counts) == totals.delivered
        assert sum(point.missed for point in run.timeline) == totals.missed


def test_what_one_broker_sends_another_gets(five: tuple[list[RunSummary], Path]) -> None:
    for run in five[0]:
        assert run.totals.copies == sum(each.copies for each in run.links)
        assert run.totals.copies == sum(each.copies_in for each in run.brokers)
        assert run.totals.copies == sum(each.copies_out for each in run.brokers)


def test_the_same_is_published_whatever_the_design(five: tuple[list[RunSummary], Path]) -> None:
    assert len({run.totals.publications for run in five[0]}) == 1


def test_replicating_everything_makes_more_copies_and_more_work(five: tuple[list[RunSummary], Path]) -> None:
    openclust, single, passive, synchrony, _ = five[0]
    assert single.totals.copies == 0
    assert openclust.totals.copies < passive.totals.copies < synchrony.totals.copies
    assert openclust.totals.cpu_s < synchrony.totals.cpu_s


def test_brokers_that_share_a_core_do_the_same_later(five: tuple[list[RunSummary], Path]) -> None:
    apart, *_, crowded = five[0]
    assert crowded.totals.delivered == apart.totals.delivered
    assert crowded.totals.copies == apart.totals.copies
    # With more in a turn it may be less.
    assert crowded.totals.cpu_s == pytest.approx(apart.totals.cpu_s, rel=0.1)
    assert crowded.latency.mean_ms > 1.05 * apart.latency.mean_ms


def test_a_broker_alone_that_dies_takes_all_with_it(five: tuple[list[RunSummary], Path]) -> None:
    openclust, single, passive, *_ = five[0]
    killed = next(each for each in single.faults if each.fault == "kill p1 at 4500ms")
    assert killed.lost_clients == 40
    assert killed.back_all_ms is None
    assert next(each for each in passive.faults if each.fault == "kill p1 at 4500ms").lost_clients == 40
    assert next(each for each in openclust.faults if each.fault == "kill p1 at 4500ms").lost_clients < 20
    # Its publishers are gone as well: what they would have sent nobody misses.
    assert single.totals.unsent > openclust.totals.unsent
    assert single.totals.delivered < openclust.totals.delivered


def test_who_loses_the_root_holds_an_election(five: tuple[list[RunSummary], Path]) -> None:
    openclust = five[0][0]
    by_fault = {each.fault: each for each in openclust.faults}
    assert by_fault["kill s1 at 3s"].no_root_ms is None
    # With two primaries a new root needs both.
    assert by_fault["kill p1 at 4500ms"].no_root_ms == 1_500


def test_who_is_gone_is_in_no_picture_and_does_nothing(five: tuple[list[RunSummary], Path]) -> None:
    openclust = five[0][0]
    assert max(point.at_s for point in openclust.timeline if point.broker == "s1") == pytest.approx(2.9)
    assert max(point.at_s for point in openclust.timeline if point.broker == "s2") == pytest.approx(5.9)


def test_shared_queues_work_off_what_they_get(five: tuple[list[RunSummary], Path]) -> None:
    (tasks,) = five[0][0].queues
    assert tasks.published == pytest.approx(2 * 3 * 4 * 4.5, rel=0.5)
    assert 0 < tasks.consumed <= tasks.published
    assert tasks.wait_p50_ms > 20


def test_every_stage_is_there_as_parquet_by_run(five: tuple[list[RunSummary], Path], spark: SparkSession) -> None:
    runs, out = five
    for name in ("sessions", "presence", "sent", "load", "latencies"):
        found = spark.read.parquet(str(out / "parquet" / name))
        assert {row.run for row in found.select("run").distinct().collect()} == {0, 1, 2, 3, 4}
    told = spark.read.parquet(str(out / "parquet" / "latencies")).groupBy("run").agg(F.sum("deliveries").alias("sum"))
    assert {row.run: row["sum"] for row in told.collect()} == {run.run: run.totals.delivered for run in runs}


def test_the_same_seed_gives_the_same_on_any_number_of_partitions(
    five: tuple[list[RunSummary], Path], spark: SparkSession
) -> None:
    """And beside any other runs."""
    given = workload(faults=FAULTS, queues=QUEUES)
    runs = [RUN, GridCell(number=4, layout=CROWDED, subscribers=40)]
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", 3)
    try:
        found = simulate(spark, runs, given, shipped()).runs
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before or 4)
    assert msgspec.json.encode(found) == msgspec.json.encode([five[0][0], five[0][4]])


def test_an_even_fan_out_takes_as_long_as_its_costs_say(spark: SparkSession) -> None:
    """One broker, one message at a time, all subscribers get it: the kth of n is written after k writes."""
    subscribers = 500
    given = Workload(
        duration_s=20,
        topics={"t": Topics(count=1)},
        subscribers=(Subscribers(name="all", count=subscribers, topics="t", latency_ms=0),),
        publishers=(Publishers(name="one", rate=5, arrivals="even", size=0, topics="t", latency_ms=0, join_at_s=0),),
    )
    costs = msgspec.structs.replace(
        shipped(),
        turn_us=0,
        publish_us=50,
        delivery_us=1,
        write_us=9,
        idle_us_per_s=0,
        member_us_per_s=0,
        stack_us=0,
        attach_us=0,
        open_us=0,
    )
    run = GridCell(number=0, layout=layout_of_counts(1, 0), subscribers=subscribers)
    (found,) = simulate(spark, [run], given, costs).runs
    assert found.totals.delivered == found.totals.expected
    assert found.totals.delivered >= 95 * subscribers
    # 50 us, 500 entered, and then written one by one: from 550 us to 5,050 us.
    assert found.latency.p50_ms == pytest.approx(0.55 + 4.5 / 2, rel=0.15)
    assert found.latency.max_ms == pytest.approx(5.05, rel=0.15)
    work_us = found.totals.publications * 50 + found.totals.delivered * 10
    assert found.totals.cpu_s == pytest.approx(work_us / 1e6, rel=0.01)


def test_who_is_given_more_than_it_can_do_is_busy_all_the_time_and_says_how_much_too_much_it_was(
    spark: SparkSession,
) -> None:
    given = Workload(
        duration_s=5,
        topics={"t": Topics(count=1)},
        subscribers=(Subscribers(name="all", count=2, topics="t"),),
        publishers=(Publishers(name="one", rate=2_000, topics="t"),),
    )
    costs = msgspec.structs.replace(shipped(), publish_us=1_000, delivery_us=0, write_us=0, member_us_per_s=0)
    run = GridCell(number=0, layout=layout_of_counts(1, 0), subscribers=2)
    (found,) = simulate(spark, [run], given, costs).runs
    (broker,) = found.brokers
    assert 0.9 < broker.cpu_max <= 1.05
    assert broker.cpu_mean <= 1
    assert found.bottleneck is not None
    assert found.bottleneck.used == pytest.approx(2, rel=0.1)
    assert found.latency.p50_ms > 1_000
