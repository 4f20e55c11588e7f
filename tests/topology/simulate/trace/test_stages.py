"""What became of messages, as the stages over a trace see it."""

from __future__ import annotations

import msgspec
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from openclust.broker.amqp.trace import TraceEvent
from openclust.shell.tracing.trace_lines import BeginLine, EndLine, LostLine, StatusLine
from tests.support.simulate.traces import (
    T0_US,
    Line,
    begin,
    deliver,
    enqueue,
    line,
    publish,
    relay,
    relayed_in,
    status,
)
from topology.simulate.queueing.buckets import bucket
from topology.simulate.trace import stages as stages
from topology.simulate.trace.trace_schemas import TRACE

pytestmark = pytest.mark.sockets  # Spark's driver and workers talk over sockets

SECOND_US = 1_000_000


def trace(spark: SparkSession, *lines: Line) -> DataFrame:
    schema = StructType.fromDDL(TRACE)
    assert isinstance(schema, StructType)
    return spark.createDataFrame([tuple(each.get(name) for name in schema.names) for each in lines], schema)


def rows(frame: DataFrame, *columns: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in (frame.select(*columns) if columns else frame).collect())


def test_the_columns_have_room_for_every_field_of_every_line(spark: SparkSession) -> None:
    schema = StructType.fromDDL(TRACE)
    assert isinstance(schema, StructType)
    kinds = {int: "bigint", str: "string"}
    for struct in (TraceEvent, BeginLine, StatusLine, LostLine, EndLine):
        for field in msgspec.structs.fields(struct):
            assert schema[field.name].dataType.simpleString() in (kinds[field.type], "int"), field.name


def test_a_delivery_is_paired_with_its_publish(spark: SparkSession) -> None:
    found = stages.deliveries(
        trace(
            spark,
            publish("a", 1),
            publish("b", 2, "p2"),
            deliver("a", 3, "p1", 5),
            deliver("a", 4, "p2"),
            deliver("b", 5),
            deliver("lost", 6),
        )
    )
    assert rows(found, "id", "broker", "count", "origin") == [
        ("a", "p1", 5, "p1"),
        ("a", "p2", 1, "p1"),
        ("b", "p1", 1, "p2"),
        ("lost", "p1", 1, None),
    ]


def test_equal_messages_are_paired_by_time(spark: SparkSession) -> None:
    found = stages.deliveries(
        trace(spark, publish("a", 0), deliver("a", 1), publish("a", 10, "p2"), deliver("a", 12), deliver("a", 10))
    )
    took = rows(found.selectExpr(f"at_us - {T0_US} as at", "at_us - published_us as took", "origin"))
    assert took == [(1_000, 1_000, "p1"), (10_000, 0, "p2"), (12_000, 2_000, "p2")]


def test_a_clock_that_is_behind_does_not_lose_a_delivery_its_publish(spark: SparkSession) -> None:
    found = stages.deliveries(trace(spark, deliver("a", 1, "p2"), publish("a", 3)))
    assert rows(found, "origin") == [("p1",)]
    assert rows(stages.latencies(found)) == [(0, 1)], "and it took nothing"


def test_latencies_are_those_of_private_queues_from_publish_until_written(spark: SparkSession) -> None:
    delivered = stages.deliveries(
        trace(
            spark,
            publish("a", 0),
            deliver("a", 1, "p1", 10, after_ms=1),
            deliver("a", 2, "p2", 5),
            deliver("a", 50, "p1", 1, queue="work"),
            publish("b", 0),
            {key: value for key, value in deliver("b", 100).items() if key != "written_us"},
            deliver("c", 7),
        )
    )
    assert rows(stages.latencies(delivered)) == [(bucket(2_000), 15), (bucket(100_000), 1)]


def test_copies_are_paired_in_the_order_in_which_they_left(spark: SparkSession) -> None:
    found = stages.crossings(
        trace(
            spark,
            relay("a", 0, "p1", "p2"),
            relay("a", 10, "p1", "p2"),
            relay("a", 20, "p1", "p2", lane="consumer"),
            relayed_in("a", 11, "p2", "p1"),
            relayed_in("a", 12, "p2", "p1"),
            relay("b", 5, "p1", "p2"),
            relayed_in("c", 6, "p2", "p1"),
        )
    )
    took = found.selectExpr("id", "lane", "(came_us - left_us) as took").collect()
    told = sorted((row["id"], row["lane"], row["took"] or 0) for row in took)
    assert told == [
        ("a", "consumer", 0),
        ("a", "private", 2_000),
        ("a", "private", 11_000),
        ("b", "private", 0),
        ("c", "private", 0),
    ]
    assert rows(stages.links(found, T0_US, SECOND_US), "sender", "receiver", "copies", "fastest_us") == [
        ("p1", "p2", 5, 2_000)
    ]


def test_what_goes_through_a_broker_is_counted_by_span(spark: SparkSession) -> None:
    found = stages.flow(
        trace(
            spark,
            publish("a", 0),
            relay("a", 1, "p1", "p2"),
            line("drop", 1, id="a", peer="p3"),
            deliver("a", 2, "p1", 3, after_ms=4),
            deliver("a", 2, "p1", 1, queue="work"),
            relayed_in("a", 900, "p2", "p1"),
            deliver("a", 1_001, "p2", 2),
        ),
        T0_US,
        SECOND_US,
    )
    columns = ("broker", "span", "published", "deliveries", "private", "copies_in", "copies_out", "dropped", "held_us")
    assert rows(found, *columns) == [
        ("p1", 0, 1, 4, 3, 0, 1, 1, 4_000),
        ("p2", 0, 0, 0, 0, 1, 0, 0, 0),
        ("p2", 1, 0, 2, 2, 0, 0, 0, 0),
    ]
    assert rows(found, "broker", "span", "in_bytes", "out_bytes") == [
        ("p1", 0, 170, 170 + 4 * 190),
        ("p2", 0, 170, 0),
        ("p2", 1, 0, 2 * 190),
    ]


def test_a_brokers_health_is_what_it_says_of_itself(spark: SparkSession) -> None:
    found = stages.health(
        trace(
            spark,
            status("p1", 0, clients=2, cpu_ms=500),
            status("p1", 100, clients=7, cpu_ms=600),
            status("p1", 900, clients=5, cpu_ms=700),
            status("p1", 1_900, clients=6, cpu_ms=1_100),
            # Another process.
            status("p1", 2_500, clients=1, cpu_ms=30),
        ),
        T0_US,
        SECOND_US,
    )
    assert rows(found, "broker", "span", "clients", "clients_max", "attaches", "cpu_us") == [
        ("p1", 0, 5, 7, 7, 200_000),
        ("p1", 1, 6, 6, 1, 400_000),
        ("p1", 2, 1, 1, 0, 30_000),
    ]


def test_a_root_is_missed_by_who_had_one(spark: SparkSession) -> None:
    found = stages.roots(
        trace(
            spark,
            begin("p1", 0),
            status("p1", 1, ""),
            status("p1", 2, "p1"),
            status("p1", 3, "p1"),
            status("p1", 4, ""),
            status("p1", 5, "p2"),
            begin("p1", 6),
            status("p1", 7, ""),
            status("p1", 8, "p2"),
        )
    )
    told = found.selectExpr("broker", f"(at_us - {T0_US}) div 1000 as ms", "root", "coalesce(before, '-') as before")
    assert rows(told) == [("p1", 2, "p1", "-"), ("p1", 4, "", "p1"), ("p1", 5, "p2", ""), ("p1", 8, "p2", "-")]


def test_each_run_of_a_process_is_a_life(spark: SparkSession) -> None:
    found = stages.lives(
        trace(
            spark,
            begin("p1", 0),
            status("p1", 1, clients=3, published=10),
            begin("p1", 10),
            status("p1", 11, clients=1, published=4),
            line("lost", 12, count=5),
            line("end", 13, why="stopped"),
            begin("p2", 5, role="secondary"),
        )
    )
    assert rows(
        found.fillna("-", ["why"]).fillna(-1), "broker", "life", "role", "why", "clients", "published", "lost"
    ) == [
        ("p1", 1, "primary", "-", 3, 10, 0),
        ("p1", 2, "primary", "stopped", 1, 4, 5),
        ("p2", 1, "secondary", "-", -1, -1, 0),
    ]


def test_a_shared_queue_is_counted_from_entry_to_delivery(spark: SparkSession) -> None:
    told = trace(
        spark,
        publish("a", 0),
        enqueue("a", 1, "work"),
        enqueue("b", 2, "work"),
        enqueue("c", 3, "work"),
        deliver("a", 11, "p2", queue="work"),
        deliver("b", 22, "p1", queue="work"),
        enqueue("a", 30, "other"),
        deliver("a", 30, "p1", queue="other"),
        deliver("a", 31, "p1", 7),
    )
    found = stages.queue_totals(told, stages.queued(told))
    assert rows(found, "queue", "entered", "consumed", "backlog_max", "p50_us", "p99_us") == [
        ("other", 1, 1, 1, 0, 0),
        ("work", 3, 2, 3, 10_000, 20_000),
    ]


def test_how_much_a_sample_says_is_known_by_how_often_each_message_was_there(spark: SparkSession) -> None:
    found = stages.sample_size(trace(spark, publish("a", 0), publish("a", 1), publish("a", 2), publish("b", 3)))
    assert rows(found) == [(4, 10)]
    assert rows(stages.sample_size(trace(spark, begin()))) == [(0, 0)]


def test_the_order_of_lines_and_partitions_does_not_matter(spark: SparkSession) -> None:
    lines = [publish(str(n % 7), n, f"p{n % 2}") for n in range(50)] + [
        deliver(str(n % 7), n + 0.5, f"p{n % 3}", n + 1) for n in range(50)
    ]
    one = rows(stages.deliveries(trace(spark, *lines)).fillna("-"))
    other = rows(stages.deliveries(trace(spark, *reversed(lines)).repartition(3)).fillna("-"))
    assert one == other
