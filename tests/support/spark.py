"""One Spark session for all tests of a run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from topology.simulate.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Imported by the conftests of those that need it: the first starts Spark, the others find it running."""
    with spark_session("local[2]", memory="1g", name="tests", parallelism=4) as session:
        yield session
