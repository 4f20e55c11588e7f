"""A Spark cluster of this machine: a standalone master and workers out of the pyspark package, each a process."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from tests.support.spark import BRIEF_JVM

SPARK_HOME = Path(pyspark.__file__).parent
MASTER_CLASS, WORKER_CLASS = (f"org.apache.spark.deploy.{each}" for each in ("master.Master", "worker.Worker"))
DAEMON_MEMORY = "256m"
START_S = 60.0


@contextmanager
def standalone(folder: Path, *, workers: int = 2, memory: str = "1g") -> Iterator[str]:
    """Yields `spark://127.0.0.1:PORT` when all workers are there; each has one core and so much memory."""
    port = _free_port()
    url = f"spark://127.0.0.1:{port}"
    processes: list[subprocess.Popen[bytes]] = []
    logs = [folder / f"{each}.log" for each in ("master", *(f"worker{n}" for n in range(workers)))]
    try:
        at = ["--host", "127.0.0.1", "--webui-port", "0"]
        processes.append(_started([MASTER_CLASS, *at, "--port", str(port)], folder, logs[0]))
        for log in logs[1:]:
            room = ["--cores", "1", "--memory", memory, "--work-dir", str(folder / log.stem)]
            processes.append(_started([WORKER_CLASS, *at, *room, url], folder, log))
        _await(logs[0], "Registering worker", workers, processes)
        yield url
    finally:
        for each in reversed(processes):
            each.terminate()
        for each in processes:
            try:
                each.wait(10)
            except subprocess.TimeoutExpired:
                each.kill()
                each.wait()


def _started(arguments: list[str], folder: Path, log: Path) -> subprocess.Popen[bytes]:
    environ = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))},
        **BRIEF_JVM,
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(folder),
        "SPARK_DAEMON_MEMORY": DAEMON_MEMORY,
    }
    with log.open("wb") as said:
        command = [str(SPARK_HOME / "bin" / "spark-class"), *arguments]
        return subprocess.Popen(
            command, env=environ, cwd=folder, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT
        )


def _await(log: Path, words: str, times: int, processes: list[subprocess.Popen[bytes]]) -> None:
    until = time.monotonic() + START_S
    while log.read_text(errors="replace").count(words) < times:
        assert all(each.poll() is None for each in processes), "one of them ended: " + log.read_text(errors="replace")
        assert time.monotonic() < until, log.read_text(errors="replace")
        time.sleep(0.1)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as there:
        port: int = there.getsockname()[1]
        return port
