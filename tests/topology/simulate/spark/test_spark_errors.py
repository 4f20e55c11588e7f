"""What Spark throws comes out in one line, with the way out."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError  # type: ignore[import-untyped]

from openclust.shell.config.schema import ConfigError
from topology.simulate.spark.spark_errors import said_clearly

STACK = """\
An error occurred while calling o41.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:1)
Caused by: {cause}
\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)
"""


def told(error: BaseException, **given: object) -> str:
    with pytest.raises(ConfigError) as caught, said_clearly(**given):  # type: ignore[arg-type]
        raise error
    assert caught.value.__cause__ is error
    (line,) = caught.value.problems
    assert "\n" not in line and len(line) < 500
    return line


@pytest.mark.parametrize(
    ("cause", "line"),
    [
        ("java.io.IOException: No space left on device", "{folder}: no space left: make room, or let --local-dir"),
        (
            "java.lang.OutOfMemoryError: Java heap space",
            "Spark ran out of the memory of 1g: give it more with --memory",
        ),
        (
            "pyspark.errors.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has different "
            "version: 3.12 than that in driver: 3.11, PySpark cannot run with different minor versions.",
            "Spark's workers run another Python than this one (3.12, 3.11): let PYSPARK_PYTHON name one",
        ),
        (
            'java.io.IOException: Cannot run program "/opt/py/bin/python": error=2, No such file or directory',
            "Spark's workers have no /opt/py/bin/python: let PYSPARK_PYTHON name",
        ),
        ("ModuleNotFoundError: No module named 'msgspec'", "No module named 'msgspec': install 'openclust[simulate]'"),
        ("org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)", "fewer threads"),
        (
            "java.lang.IllegalStateException: no such thing",
            "Spark failed: java.lang.IllegalStateException: no such thing",
        ),
    ],
)
def test_a_stack_of_java_is_one_line(tmp_path: Path, cause: str, line: str) -> None:
    error = Py4JError(STACK.format(cause=cause))
    assert line.format(folder=tmp_path) in told(error, folders=[tmp_path], memory="1g")


def test_a_jvm_that_is_gone_is_told_with_its_last_words(tmp_path: Path) -> None:
    log = tmp_path / "jvm.log"
    log.write_text("26/11/18 INFO all is well\n26/11/18 ERROR Utils: it went wrong\n")
    line = told(Py4JNetworkError("Answer from Java side is empty"), log=log)
    assert line.startswith("Spark's JVM has ended: 26/11/18 ERROR Utils: it went wrong (")
    log.write_text("java.lang.OutOfMemoryError: Java heap space\n")
    assert "give it more with --memory" in told(ConnectionRefusedError("refused"), log=log)


def test_a_full_disk_of_ours_is_told(tmp_path: Path) -> None:
    error = OSError(errno.ENOSPC, "No space left on device")
    assert told(error, folders=[tmp_path]).startswith(f"{tmp_path}: no space left")


def test_what_is_not_of_spark_is_left_as_it_is() -> None:
    with pytest.raises(KeyError), said_clearly():
        raise KeyError("x")
    with pytest.raises(ConfigError, match=r"^mine$"), said_clearly():
        raise ConfigError("mine")


def test_control_characters_do_not_reach_the_terminal() -> None:
    assert "\x1b" not in told(Py4JError("it said \x1b[31mred"))
