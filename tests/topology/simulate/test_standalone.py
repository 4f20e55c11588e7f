"""The same simulation on a Spark cluster with a master and two workers: the same result."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from tests.topology.simulate.standalone import standalone
from topology.simulate.asked import read_asked
from topology.simulate.pipeline import simulate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.sockets

ROOT = Path(__file__).parents[3]
EIGHT = ROOT / "conf" / "topologies" / "eight.toml"
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

WHERE = """
import sys
from topology.simulate.session import spark_session

def told(rows):
    import topology.simulate.layouts
    for batch in rows:
        batch["host"] = topology.__file__
        batch["python"] = sys.version.split()[0]
        yield batch

with spark_session(sys.argv[1], memory="512m", parallelism=2) as spark:
    found = spark.range(0, 100, 1, 2).mapInPandas(told, "id long, host string, python string").distinct()
    print(found.count(), *sorted({row[1] for row in found.collect()}))
"""


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with standalone(tmp_path_factory.mktemp("spark"), memory="600m") as url:
        yield url


def test_workers_have_our_packages_from_us(master: str) -> None:
    """Not those that happen to be installed where they run."""
    done = subprocess.run([sys.executable, "-c", WHERE, master], cwd=ROOT, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    count, *paths = done.stdout.split()
    assert count == "100"
    assert paths and all("openclust-packages.zip/topology/" in each for each in paths)


def test_the_result_is_that_of_one_machine(master: str, spark: SparkSession, tmp_path: Path) -> None:
    workload = tmp_path / "work.toml"
    workload.write_text(WORKLOAD)
    there = subprocess.Popen(
        [
            *(sys.executable, "-m", "openclust", "simulate", str(EIGHT), str(workload), "--json"),
            *("--master", master, "--memory", "512m", "--out", str(tmp_path / "out")),
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        asked = read_asked(str(EIGHT), str(workload))
        here = simulate(spark, asked.runs, asked.workload, asked.calibration)
        said, errors = there.communicate(timeout=240)
    finally:
        there.kill()
        there.wait()
    assert there.returncode == 0, errors
    assert errors == ""
    summary = json.loads(said)
    assert summary["spark"]["master"] == master
    assert here.runs[0].totals.delivered > 100 and here.runs[0].faults
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
