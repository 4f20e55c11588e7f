"""All clients of all runs: when each comes, and which broker it tries first."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from topology.simulate.input.layout import GridCell, Layout
from topology.simulate.input.workload import ClientGroup, Workload
from topology.simulate.spark.rows import partitions_of, rows_of

BLOCK = 10_000
"""The number of clients that are generated from one row."""

_GROUPS = "run int, grp int, members long, join_at_ms int, slots int, bin_ms int, contacts array<int>"


def population(groups: DataFrame) -> DataFrame:
    """Members join evenly over their time, in the order of their numbers; those of one bin are dealt out to the brokers
    that they know, each broker's share a range of numbers."""
    blocks = groups.select("*", F.explode(F.sequence(F.lit(0), F.expr(f"(members - 1) div {BLOCK}"))).alias("block"))
    last = F.least(F.col("block") * BLOCK + BLOCK, F.col("members")) - 1
    clients = spread(blocks, "run", "grp", "block").select(
        "*", F.explode(F.sequence(F.col("block") * BLOCK, last)).alias("client")
    )
    placed = clients.withColumn("slot", _slot_of(F.col("client")))
    placed = placed.withColumn("low", _first_of(F.col("slot"))).withColumn("next", _first_of(F.col("slot") + 1))
    # With few members in a slot not always the same broker gets the first of them.
    turn = F.expr("((client - low) * size(contacts) div (next - low) + slot) % size(contacts)")
    return placed.select(
        "run",
        "grp",
        "client",
        joins_ms(F.col("client")).alias("joins_ms"),
        F.element_at("contacts", (turn + 1).cast("int")).alias("contact"),
    )


def spread(rows: DataFrame, *keys: str) -> DataFrame:
    """Spread few rows, from which many are made, over all partitions. Without a number Spark keeps them in one."""
    return rows.repartition(partitions_of(rows.sparkSession), *keys)


def groups_of(spark: SparkSession, runs: Sequence[GridCell], workload: Workload) -> DataFrame:
    """A row for each group and run, with what its members have in common. All clients are generated from these."""
    rows = [
        _row(run, group, workload)
        for run in runs
        for group in workload.with_subscribers(run.subscribers).groups
        if group.count
    ]
    return rows_of(spark, rows, _GROUPS)


def attached(sessions: DataFrame, groups: DataFrame) -> DataFrame:
    """Without the time between a client's first attempt and its first success: it cannot miss what it never had."""
    known = sessions.join(F.broadcast(groups.drop("contacts")), ["run", "grp"])
    is_first = (F.col("broker") < 0) & (F.col("from_ms") == joins_ms(F.col("first")))
    return known.where(~is_first).select(*sessions.columns)


def joins_ms(client: Column) -> Column:
    """The time of a member's first attempt, in a row with its group's columns."""
    return (F.col("join_at_ms") + _slot_of(client) * F.col("bin_ms")).cast("int")


def _slot_of(client: Column) -> Column:
    return F.floor(client * F.col("slots") / F.col("members"))


def _first_of(slot: Column) -> Column:
    """The first member that joins in a slot: the smallest client of which client * slots div members is the slot."""
    return F.floor((slot * F.col("members") + F.col("slots") - 1) / F.col("slots"))


def _row(run: GridCell, group: ClientGroup, workload: Workload) -> tuple[int, int, int, int, int, int, list[int]]:
    slots = max(1, min(group.join_over_ms // workload.bin_ms, group.count))
    at_ms = group.join_at_ms // workload.bin_ms * workload.bin_ms
    # With fewer members than bins, one joins every so many bins.
    every_ms = max(1, group.join_over_ms // workload.bin_ms // slots) * workload.bin_ms
    return run.number, group.number, group.count, at_ms, slots, every_ms, contacts(run.layout, group)


def contacts(layout: Layout, group: ClientGroup) -> list[int]:
    """The brokers that a group knows, of those that are in this layout; all, if it knows none of them."""
    known = [layout.number(name) for name in group.brokers if name in layout.names]
    return known or list(range(len(layout.sites)))
