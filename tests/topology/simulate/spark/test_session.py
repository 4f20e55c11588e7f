"""Spark sessions as people start them: what is told where one cannot be, and that nothing is left of one.

Each is a process of its own: this one's session is that of all other tests.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from openclust.shell.config.schema import ConfigError
from tests.support.paths import ROOT
from tests.support.spark import BRIEF_JVM
from topology.simulate.spark import session
from topology.simulate.spark.class_archive import is_complete

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.sockets

FILES = ("conf/topologies/eight.toml", "conf/workloads/market-data.toml")
COMMAND = (sys.executable, "-m", "openclust", "simulate")
MOUNTED_MB = 100


def simulate(*arguments: object, out: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [*COMMAND, *FILES, "--out", str(out), *map(str, arguments)]
    left = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    env = {**left, "XDG_CACHE_HOME": str(out.parent), **environ}
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120)


def run_script(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A Python of its own, which finds the folder in its arguments."""
    return subprocess.run(
        [sys.executable, "-c", script, str(folder)],
        cwd=ROOT,
        env={**os.environ, **BRIEF_JVM},
        capture_output=True,
        text=True,
        timeout=120,
    )


def assert_is_one_line(done: subprocess.CompletedProcess[str], *told: str) -> None:
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("openclust: error: ") and done.stderr.count("\n") == 1, done.stderr
    assert all(each in done.stderr for each in told), done.stderr
    assert done.stdout == ""


def test_without_java_it_says_how_to_get_one(tmp_path: Path) -> None:
    done = simulate(out=tmp_path / "out", PATH=str(tmp_path))
    assert_is_one_line(
        done, "there is no java in PATH (JAVA_HOME is not set)", "apt-get install openjdk-17-jre-headless"
    )


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--master", "lokal"), "--master 'lokal' is none that Spark knows: wanted local[N]"),
        (("--master", "spark://127.0.0.1:1"), "no Spark master there (Connection refused)"),
        (("--memory", "lots"), "--memory 'lots': wanted an amount such as 2g or 800m"),
        (("--memory", "100m"), "--memory 100m: Spark needs 450m at least"),
        (("--local-dir", "/proc/here"), "/proc/here: cannot be written to: No such file or directory; let --local-dir"),
    ],
)
def test_what_cannot_be_is_told_before_spark_starts(tmp_path: Path, arguments: tuple[str, ...], told: str) -> None:
    began = time.monotonic()
    assert_is_one_line(simulate(*arguments, out=tmp_path / "out"), told)
    assert time.monotonic() - began < 30


def test_a_missing_package_is_told_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "NEEDED", ("json", "no_such_one", "nor_this"))
    with pytest.raises(ConfigError) as caught:
        session.check_packages()
    assert str(caught.value) == "no_such_one and nor_this are needed: pip install 'openclust[simulate]'"


def test_a_session_that_runs_is_taken_and_left(spark: SparkSession) -> None:
    with session.spark_session("local[7]") as again:
        assert again is spark
    assert spark.range(3).count() == 3


def test_the_session_is_as_it_should_be(spark: SparkSession) -> None:
    settings = spark.sparkContext.getConf()
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.execution.arrow.pyspark.enabled") == "true"
    assert settings.get("spark.ui.enabled") == settings.get("spark.ui.showConsoleProgress") == "false"
    assert spark.sparkContext.uiWebUrl is None
    assert spark.sparkContext.pythonExec == sys.executable


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, of so many megabytes."""
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={MOUNTED_MB}m", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True).returncode:
        pytest.skip("only root may mount a file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


FILL = """
import sys
from pathlib import Path
from openclust.shell.config.schema import ConfigError
from topology.simulate.spark.session import spark_session
try:
    with spark_session("local[1]", memory="600m", local_dir=Path(sys.argv[1])) as spark:
        rows = spark.range(3_000_000).selectExpr("uuid() as text", "id")
        rows.repartition(4).sortWithinPartitions("text").count()
        rows.repartition(4, "text").write.format("noop").mode("overwrite").save()
except ConfigError as error:
    sys.exit("\\n".join(error.problems))
"""


def test_a_full_disk_is_told_with_its_folder(small_disk: Path) -> None:
    done = run_script(FILL, small_disk)
    assert done.returncode == 1
    assert done.stderr == (
        f"{small_disk}: no space left: make room, "
        "or let --local-dir (for what Spark puts aside) and --out name others\n"
    )
    assert list(small_disk.iterdir()) == []


def test_a_disk_that_is_full_already_is_told_before_spark_starts(small_disk: Path, tmp_path: Path) -> None:
    (small_disk / "large").write_bytes(bytes((MOUNTED_MB - 20) << 20))
    done = simulate("--local-dir", small_disk, out=tmp_path / "out")
    assert_is_one_line(done, f"{small_disk}: no space left (20 MB): make room, or let --local-dir name another folder")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_signal_ends_it_and_nothing_is_left(tmp_path: Path, number: signal.Signals) -> None:
    folder = tmp_path / "aside"
    command = [*COMMAND, *FILES, "--out", str(tmp_path / "out"), "--local-dir", str(folder), "--master", "local[1]"]
    cache = tmp_path / "cache"
    process = psutil.Popen(
        [*command, "--memory", "600m"],
        cwd=ROOT,
        env={**os.environ, "XDG_CACHE_HOME": str(cache)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        until = time.monotonic() + 60
        # One that is at work: the JVM is there, and has made its folders.
        while not list(folder.glob("openclust-spark-*/blockmgr-*")) and time.monotonic() < until:
            time.sleep(0.1)
        children = process.children(recursive=True)
        assert any("java" in each.name() for each in children)
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    finally:
        if process.is_running():
            process.kill()
            process.wait()
    assert process.returncode == {signal.SIGINT: 130, signal.SIGTERM: 143}[number], said
    assert said.strip() == b""  # click ends the line that has the ^C
    assert psutil.wait_procs(children, timeout=20)[1] == []
    assert list(folder.iterdir()) == list((cache / "openclust").iterdir()) == []


MAPPED = """
import sys
from pathlib import Path
from topology.simulate.spark.session import spark_session
with spark_session("local[1]", memory="600m", cache=Path(sys.argv[1])) as spark:
    mapped = Path(f"/proc/{spark.sparkContext._gateway.proc.pid}/maps").read_text()
    print("jsa" if sys.argv[1] in mapped else "none")
"""


def test_what_the_first_jvm_leaves_is_in_the_memory_of_the_next(tmp_path: Path) -> None:
    def mapped() -> str:
        done = run_script(MAPPED, tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.strip()

    assert mapped() == "none"
    until = time.monotonic() + 90
    # Its own process has ended; the JVM still writes.
    while not any(map(is_complete, tmp_path.iterdir())) and time.monotonic() < until:
        time.sleep(0.2)
    assert mapped() == "jsa"
    (archive,) = tmp_path.iterdir()
    archive.chmod(0o600)
    with archive.open("r+b") as file:
        file.seek(archive.stat().st_size // 2)
        file.write(bytes(100_000))
    assert mapped() == "none"
