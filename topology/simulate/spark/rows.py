"""DataFrames from rows of the driver, and the number of partitions for many rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType


def rows_of(spark: SparkSession, rows: Iterable[tuple[Any, ...]], ddl: str) -> DataFrame:
    """A DataFrame of these rows, sent as one Arrow table: from tuples Spark would make rows one by one in Python."""
    schema = schema_of(ddl)
    arrow = to_arrow_schema(schema)
    columns = list(zip(*rows, strict=True)) or [()] * len(arrow)
    arrays = [pa.array(column, type=field.type) for column, field in zip(columns, arrow, strict=True)]
    table: Any = pa.Table.from_arrays(arrays, schema=arrow)
    return spark.createDataFrame(table, schema)


def schema_of(ddl: str) -> StructType:
    schema = StructType.fromDDL(ddl)
    assert isinstance(schema, StructType)
    return schema


def partitions_of(spark: SparkSession) -> int:
    """The number of partitions that Spark makes of many rows."""
    return int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
