"""The same simulation on a Spark cluster with a master and two workers: the same result."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from tests.support.paths import ROOT
from tests.support.simulate.standalone import standalone
from tests.support.spark import BRIEF_JVM
from topology.simulate.asked import read_asked
from topology.simulate.pipeline import simulate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.sockets

SWEEP = ("brokers=1,4", "rate=x2")
WORKLOAD = """\
duration_s = 4
faults = ["kill p2 at 2s"]

[topics.quotes]
count = 20

[[subscribers]]
name = "phones"
count = 300
topics = "quotes"
each = 2
popularity = "zipf"
join_over_s = 1

[[publishers]]
name = "feeds"
count = 3
topics = "quotes"
rate = 10

[[queues]]
name = "tasks"
rate = 5
consumers = 2
work_ms = 50
"""

DRIVER = """
import sys
from openclust.cli.main import main
from topology.simulate.spark.session import spark_session

def told(rows):
    import topology
    for batch in rows:
        batch["file"] = topology.__file__
        yield batch

with spark_session(sys.argv.pop(1), memory="512m") as spark:
    found = spark.range(0, 100, 1, 2).mapInPandas(told, "id long, file string")
    print(*sorted({row.file for row in found.collect()}), file=sys.stderr, flush=True)
    main()  # takes the session that is there
"""


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    with standalone(tmp_path, memory="600m") as url:
        yield url


def test_the_result_is_that_of_one_machine(master: str, spark: SparkSession, tmp_path: Path) -> None:
    """And workers have our packages from us, not those that happen to be installed where they run."""
    workload = tmp_path / "work.toml"
    workload.write_text(WORKLOAD)
    asked = read_asked(None, str(workload), sweep=SWEEP)
    arguments = ["simulate", str(workload), "--sweep", *SWEEP, "--json", "--out", str(tmp_path / "out")]
    there = subprocess.Popen(
        [sys.executable, "-c", DRIVER, master, *arguments],
        cwd=ROOT,
        env={**os.environ, **BRIEF_JVM},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        here = simulate(spark, asked.runs, asked.workload, asked.calibration)
        said, errors = there.communicate(timeout=240)
    finally:
        there.kill()
        there.wait()
    assert there.returncode == 0, errors
    assert len(errors.splitlines()) == 1 and errors.endswith("openclust-packages.zip/topology/__init__.py\n"), errors
    summary = json.loads(said)
    assert summary["spark"]["master"] == master
    assert all(each.totals.delivered > 100 for each in here.runs) and here.runs[-1].faults
    assert_alike(summary["runs"], msgspec.to_builtins(here.runs))
    assert list((tmp_path / "out" / "parquet").iterdir())


def assert_alike(one: Any, other: Any, place: str = "runs") -> None:
    """Equal; numbers that were added in another order may differ in their last digits."""
    if isinstance(one, dict):
        assert one.keys() == other.keys(), place
        for key in one:
            assert_alike(one[key], other[key], f"{place}.{key}")
    elif isinstance(one, list):
        assert len(one) == len(other), place
        for number, (mine, its) in enumerate(zip(one, other, strict=True)):
            assert_alike(mine, its, f"{place}.{number}")
    elif isinstance(one, float):
        assert one == pytest.approx(other, rel=1e-6, abs=1e-9), place
    else:
        assert one == other, place
