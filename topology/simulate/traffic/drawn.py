"""The clients and messages of a workload, drawn as a simulation draws them, for a benchmark that plays them."""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from topology.simulate.clients.population import groups_of, population
from topology.simulate.clients.subscriptions import subscriptions
from topology.simulate.input.layout import GridCell
from topology.simulate.input.workload import ClientGroup, Workload
from topology.simulate.traffic.publications import publications

CLIENTS_MAX = 20_000
MESSAGES_MAX = 2_000_000


class DrawnClient(NamedTuple):
    """`contact` is the number of the broker that the client tries first. Topics are numbered through all topic sets."""

    group: ClientGroup
    client: int
    joins_ms: int
    contact: int
    topics: list[int]


class DrawnMessage(NamedTuple):
    """`topic` is -1 - N if the message goes to shared queue N."""

    at_us: int
    group: int
    client: int
    topic: int
    size: int


class Drawn(NamedTuple):
    clients: list[DrawnClient]
    messages: list[DrawnMessage]
    """In the order of their time."""


def drawn(spark: SparkSession, run: GridCell, workload: Workload) -> Drawn:
    """Returns all clients and messages of one run in memory. Raises ValueError if these are too many."""
    total = sum(group.count for group in workload.groups)
    if total > CLIENTS_MAX:
        raise ValueError(f"{total:,} clients are too many to be played: at most {CLIENTS_MAX:,}")
    clients = population(groups_of(spark, [run], workload))
    everywhere = clients.select(
        "run",
        "grp",
        F.col("client").alias("first"),
        F.col("client").alias("last"),
        F.col("contact").alias("broker"),
        F.lit(0).alias("from_ms"),
        F.lit(workload.duration_ms).alias("to_ms"),
    )
    topics: dict[tuple[int, int], list[int]] = {}
    for row in subscriptions(everywhere, workload).select("grp", "client", "topic").collect():
        topics.setdefault((row.grp, row.client), []).append(row.topic)
    messages = publications(spark, workload, [run.rate])
    count = messages.count()
    if count > MESSAGES_MAX:
        raise ValueError(f"{count:,} messages are too many to be played: at most {MESSAGES_MAX:,}")
    groups = workload.groups
    return Drawn(
        clients=[
            DrawnClient(
                groups[row.grp], row.client, row.joins_ms, row.contact, sorted(topics.get((row.grp, row.client), []))
            )
            for row in clients.orderBy("grp", "client").collect()
        ],
        messages=[
            DrawnMessage(row.at_us, row.grp, row.client, row.topic, row.size)
            for row in messages.orderBy("at_us", "publication").collect()
        ],
    )
