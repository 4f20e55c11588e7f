"""Publications with the cluster's state at their time: the publisher's broker, and the subscribers of the topic."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from topology.simulate.clients.subscriptions import clients_of
from topology.simulate.input.layout import GridCell
from topology.simulate.input.workload import Workload
from topology.simulate.spark.rows import rows_of

_CHANGE, _PUBLICATION = 0, 1


def published(
    spark: SparkSession, publications: DataFrame, sessions: DataFrame, runs: Sequence[GridCell], workload: Workload
) -> DataFrame:
    """All publications of every run with their broker, `origin`: -1 if the publisher was connected nowhere."""
    rates = paces(runs)
    of_run = rows_of(spark, [(run.number, rates.index(run.rate)) for run in runs], "run int, pace int")
    senders = [group.number for group in workload.groups if group.kind in ("publishers", "producers")]
    lasting = sessions.where(F.col("grp").isin(senders) & (F.col("from_ms") < F.col("to_ms")) & (F.col("broker") >= 0))
    places = clients_of(lasting).withColumnRenamed("broker", "origin")
    all_runs = publications.join(F.broadcast(of_run), "pace")
    at_ms = (F.col("at_us") + F.col("link_us")) / 1000
    is_there = (at_ms >= F.col("from_ms")) & (at_ms < F.col("to_ms"))
    joined = all_runs.alias("p").join(
        places.alias("s"),
        (F.col("p.run") == F.col("s.run"))
        & (F.col("p.grp") == F.col("s.grp"))
        & (F.col("p.client") == F.col("s.client"))
        & is_there,
        "left",
    )
    return joined.select(
        "p.run", "publication", "topic", "at_us", "link_us", "size", F.coalesce("origin", F.lit(-1)).alias("origin")
    )


def paces(runs: Sequence[GridCell]) -> list[float]:
    """All rates, in the order of their numbers."""
    return sorted({run.rate for run in runs})


def sent(published: DataFrame, changes: DataFrame, brokers: int, bin_ms: int) -> DataFrame:
    """Publications with the subscribers in their bin. Those without a broker or without a topic are left out."""
    places = range(brokers + 1)
    none = [F.lit(0).alias(f"at{place}") for place in places]
    deltas = [F.col("deltas")[place].alias(f"at{place}") for place in places]
    nothing = F.lit(None)
    topics = published.where((F.col("topic") >= 0) & (F.col("origin") >= 0)).select(
        "run",
        "topic",
        F.floor(F.col("at_us") / (bin_ms * 1000)).cast("int").alias("bin"),
        F.lit(_PUBLICATION).alias("row"),
        "publication",
        F.struct("at_us", "link_us", "size", "origin").alias("message"),
        *none,
    )
    steps = changes.select(
        "run",
        "topic",
        "bin",
        F.lit(_CHANGE).alias("row"),
        F.lit(-1).cast("long").alias("publication"),
        nothing.cast(topics.schema["message"].dataType).alias("message"),
        *deltas,
    )
    until_now = (
        Window.partitionBy("topic", "run")
        .orderBy("bin", "row", "publication")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    known = steps.unionByName(topics)
    counts = F.array(*(F.sum(f"at{place}").over(until_now).cast("int") for place in places))
    return (
        known.select("run", "topic", "row", "publication", "message", counts.alias("subscribers"))
        .where(F.col("row") == _PUBLICATION)
        .select("run", "publication", "topic", "message.*", "subscribers")
    )
