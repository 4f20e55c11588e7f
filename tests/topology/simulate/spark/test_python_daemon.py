"""Python's workers have what is installed here, compiled, and not the copy in Spark's zip."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyspark
import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.sockets


def test_workers_have_all_loaded_from_where_it_is_installed(spark: SparkSession) -> None:
    def told(batches: Iterator[Any]) -> Iterator[Any]:
        import sys

        for _ in batches:
            known = "topology.simulate.queueing.queueing" in sys.modules
            yield pa.RecordBatch.from_pydict({"file": [sys.modules["pyspark"].__file__], "known": [known]})

    found = spark.range(0, 2, 1, 2).mapInArrow(told, "file string, known boolean").collect()

    assert {tuple(row) for row in found} == {(pyspark.__file__, True)}
