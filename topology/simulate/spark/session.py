"""A Spark session: without output, bounded, in UTC, with our own Python, and without files left at its end."""

from __future__ import annotations

import importlib.util
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from openclust.shell.config.schema import ConfigError
from topology.simulate.spark.class_archive import ClassArchive
from topology.simulate.spark.java import checked_java
from topology.simulate.spark.master import check_master, is_local, is_loopback, threads_of
from topology.simulate.spark.shipping import zip_packages
from topology.simulate.spark.spark_errors import said_clearly

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NEEDED = ("pyspark", "pandas", "pyarrow", "matplotlib", "jinja2")
LOCAL = "local[*]"
MEMORY = "2g"
MEMORY_MIN_MB = 450
"""The least memory with which Spark starts."""
FREE_MB_MIN = 64
TASKS_PER_THREAD = 2
SHORT_LIFE = (
    "-XX:+IgnoreUnrecognizedVMOptions -XX:+UseSerialGC "
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 "
    "-XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
)
"""The JVM's best compiler only for hot code: else a third of a run of a minute goes into compiling Spark."""
EXECUTORS_S = 60.0
END_S = 10.0


@contextmanager
def spark_session(
    master: str | None = None,
    *,
    memory: str = MEMORY,
    name: str = "openclust simulate",
    parallelism: int | None = None,
    local_dir: Path | None = None,
    out: Path | None = None,
    cache: Path | None = None,
) -> Iterator[SparkSession]:
    """A session for the time of the context. Errors of Spark within it become ConfigError.

    Without a master, the session runs on that of `spark-submit`, or on all cores of this machine. `memory` is for the
    driver and for each executor. Files in the folder `cache` let the next session start sooner. A session that already
    runs in this process is used as it is, and left running.
    """
    check_packages()
    from pyspark import SparkContext
    from pyspark.find_spark_home import _find_spark_home
    from pyspark.sql import SparkSession

    if SparkContext._active_spark_context is not None:
        with said_clearly(folders=[each for each in (local_dir, out) if each]):
            yield SparkSession.builder.getOrCreate()
        return
    is_submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    classes = None
    if not is_submitted:
        master = master or os.environ.get("MASTER") or LOCAL
        java = checked_java(os.environ)
        if cache is not None:
            classes = ClassArchive(cache, java, Path(_find_spark_home(), "jars"))
    if master is not None:
        check_master(master, os.environ)
    memory = memory_of(memory)
    base = _base_folder(local_dir)
    with _own_folder(base) as folder, _ending_on_sigterm(), _unlogged():
        log = None if is_submitted else folder / "jvm.log"
        telling = partial(said_clearly, folders=[each for each in (base, out) if each], log=log, memory=memory)
        settings = _settings(master, memory, name, parallelism, folder, classes.options if classes else "")
        leaves_classes = classes is not None and classes.is_left
        with telling():
            gateway = _gateway(settings, log, folder)
        try:
            with telling(has_ended=lambda: _has_ended(gateway)):
                yield _started(gateway, settings, folder)
        except BaseException:
            _end(gateway, 0 if leaves_classes else END_S)
            raise
        _end(gateway, None if leaves_classes else END_S)


def check_packages() -> None:
    """Raises ConfigError if the extra `simulate` is not installed."""
    missing = [each for each in NEEDED if importlib.util.find_spec(each) is None]
    if missing:
        told = " and ".join(missing)
        raise ConfigError(f"{told} {'is' if len(missing) == 1 else 'are'} needed: pip install 'openclust[simulate]'")


def memory_of(text: str) -> str:
    """An amount of memory in the form that Spark takes. Raises ConfigError if it is no amount, or too little."""
    match = re.fullmatch(r"(\d{1,9})\s*([mMgG])[bB]?", text.strip())
    if match is None:
        raise ConfigError(f"--memory {text!r}: wanted an amount such as 2g or 800m")
    megabytes = int(match[1]) * (1024 if match[2] in "gG" else 1)
    if megabytes < MEMORY_MIN_MB:
        raise ConfigError(f"--memory {text}: Spark needs {MEMORY_MIN_MB}m at least")
    return f"{match[1]}{match[2].lower()}"


def _base_folder(local_dir: Path | None) -> Path:
    """The folder for Spark's data that does not fit into memory."""
    base = local_dir or Path(os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or tempfile.gettempdir())
    try:
        base.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=base):
            pass
        free_mb = shutil.disk_usage(base).free >> 20
    except OSError as error:
        why = error.strerror or str(error)
        raise ConfigError(f"{base}: cannot be written to: {why}; let --local-dir name another folder") from None
    if free_mb < FREE_MB_MIN:
        text = f"{base}: no space left ({free_mb} MB): make room, or let --local-dir name another folder"
        raise ConfigError(text)
    return base


@contextmanager
def _own_folder(base: Path) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="openclust-spark-", dir=base)).resolve()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _ending_on_sigterm() -> Iterator[None]:
    """Lets SIGTERM end the session in order, as Ctrl-C does. Restores the former handlers."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(number: int, _: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _unlogged() -> Iterator[None]:
    """Hides the stacks that Py4J and PySpark log for each exception, on stderr if logging is not set up."""
    from pyspark.logger import PySparkLogger

    nowhere = logging.NullHandler()
    logging.getLogger().addHandler(nowhere)
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True
    try:
        yield
    finally:
        logging.getLogger().removeHandler(nowhere)


def _settings(
    master: str | None, memory: str, name: str, parallelism: int | None, folder: Path, classes: str
) -> dict[str, str]:
    """The settings that differ from Spark's defaults. The JVM gets them at its start; those of spark-submit win."""
    settings = {
        "spark.app.name": name,
        "spark.driver.memory": memory,
        "spark.executor.memory": memory,
        # No folder of shared counters in /tmp, which may be full. A JVM without memory ends, and is reported.
        "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={folder} -XX:-UsePerfData {SHORT_LIFE} {classes}",
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.adaptive.enabled": "true",
        # The files of so many runs are written at a time; if there are more, Spark sorts all rows by run first.
        "spark.sql.maxConcurrentOutputFileWriters": "8",
        # Batches are bounded by rows: a check of their bytes after each row costs more than writing the row.
        "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
        # Data on disk is read once or twice: compression costs more than it saves.
        "spark.sql.inMemoryColumnarStorage.compressed": "false",
    }
    if master is None:
        return settings
    settings["spark.master"] = master
    threads = threads_of(master, os.cpu_count() or 1)
    parallelism = parallelism or (threads * TASKS_PER_THREAD if threads else None)
    if parallelism:
        settings |= {"spark.sql.shuffle.partitions": str(parallelism), "spark.default.parallelism": str(parallelism)}
    if is_local(master) or is_loopback(master):
        # The name of this machine may not resolve to it.
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return settings


def _gateway(settings: Mapping[str, str], log: Path | None, folder: Path) -> Any:
    """The connection to a new JVM, with its output in `log`, or to that of spark-submit."""
    from pyspark import SparkConf
    from pyspark.java_gateway import launch_gateway

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if log is None:
        return launch_gateway()  # type: ignore[no-untyped-call]
    conf = SparkConf(loadDefaults=False)
    for key, value in settings.items():
        conf.set(key, value)
    before = os.environ.get("SPARK_LOCAL_DIRS")
    os.environ["SPARK_LOCAL_DIRS"] = str(folder)  # stronger than spark.local.dir
    try:
        with log.open("wb") as said:
            return launch_gateway(conf, {"stdout": said, "stderr": subprocess.STDOUT})  # type: ignore[no-untyped-call]
    finally:
        if before is None:
            del os.environ["SPARK_LOCAL_DIRS"]
        else:
            os.environ["SPARK_LOCAL_DIRS"] = before


def _started(gateway: Any, settings: Mapping[str, str], folder: Path) -> SparkSession:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    conf = SparkConf(_jvm=gateway.jvm)
    for key, value in settings.items():
        conf.setIfMissing(key, value)
    context = SparkContext(conf=conf, gateway=gateway)
    context.setLogLevel("ERROR")
    if not is_local(conf.get("spark.master") or LOCAL):
        context.addPyFile(str(zip_packages(folder)))
        _await_executor(context)
    session = SparkSession.builder.getOrCreate()
    if str(context.master).startswith("spark://") and not conf.contains("spark.sql.shuffle.partitions"):
        # Spark's default of 200 is far too many for few cores; on a cluster the number of cores is not known yet.
        session.conf.set("spark.sql.shuffle.partitions", context.defaultParallelism * TASKS_PER_THREAD)
    return session


def _await_executor(context: Any) -> None:
    """Waits for an executor: a cluster without free workers would let a job wait for ever, silently."""
    until = time.monotonic() + EXECUTORS_S
    while context._jsc.sc().getExecutorMemoryStatus().size() < 2:  # the driver counts as one
        if time.monotonic() > until:
            memory = context.getConf().get("spark.executor.memory")
            raise ConfigError(
                f"--master {context.master}: no worker takes us in {EXECUTORS_S:.0f} s: "
                f"is there one with a free core and {memory} of memory? (--memory asks for less)"
            )
        time.sleep(0.2)


def _has_ended(gateway: Any) -> bool:
    """Whether the JVM has ended. A killed one may take a moment."""
    if gateway.proc is None:
        return False
    with suppress(subprocess.TimeoutExpired):
        gateway.proc.wait(0.5)
    return gateway.proc.poll() is not None


def _end(gateway: Any, wait_s: float | None) -> None:
    """Stops the jobs, the context and the JVM, in any state. The JVM has so long to end before it is killed; None: no
    limit."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    context = SparkContext._active_spark_context
    with suppress(Exception):
        session = SparkSession.getActiveSession()
        if session is not None:
            session.stop()
    with suppress(Exception):
        if context is not None:
            context.stop()
    if gateway.proc is None:
        return
    with suppress(Exception):
        gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None
    gateway.proc.stdin.close()  # the JVM ends with it
    if wait_s is None:
        return
    try:
        gateway.proc.wait(wait_s)
    except subprocess.TimeoutExpired:
        gateway.proc.kill()
        gateway.proc.wait()
