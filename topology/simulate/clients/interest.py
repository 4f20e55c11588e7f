"""The changes of the number of subscribers of each topic at each broker."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def interest(subscriptions: DataFrame, brokers: int, bin_ms: int) -> DataFrame:
    """Deltas by topic and bin. The last delta is that of subscribers at no broker.

    Added up before anything is sent from partition to partition: the hottest topic is no more than any other.
    """
    begins = F.struct((F.col("from_ms") / bin_ms).cast("int").alias("bin"), F.lit(1).alias("by"))
    ends = F.struct((F.col("to_ms") / bin_ms).cast("int").alias("bin"), F.lit(-1).alias("by"))
    changes = subscriptions.select("run", "topic", "broker", F.explode(F.array(begins, ends)).alias("change"))
    places = [*range(brokers), -1]
    sums = [
        F.sum(F.when(F.col("broker") == place, F.col("change.by")).otherwise(0)).cast("int").alias(f"at{place}")
        for place in places
    ]
    by_bin = changes.groupBy("run", "topic", F.col("change.bin").alias("bin")).agg(*sums)
    return by_bin.select("run", "topic", "bin", F.array(*[f"at{place}" for place in places]).alias("deltas"))
