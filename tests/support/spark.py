"""One Spark session for all tests of a run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from topology.simulate.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BRIEF_JVM = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""For a JVM that works for a minute only: what it would spend on compiling well is half of its time."""


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Imported by the conftests of those that need it: the first starts Spark, the others find it running."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in BRIEF_JVM.items():
            patch.setenv(name, value)
        started = spark_session("local[2]", memory="1g", name="tests", parallelism=4)
        session = started.__enter__()
    try:
        yield session
    finally:
        started.__exit__(None, None, None)
