"""This process and its disk in figures. Some cost a system call or a file to read: they are kept for a second."""

from __future__ import annotations

import os
import resource
import shutil
import threading
from collections.abc import Callable

import msgspec
import psutil

KEPT_S = 1.0
THREADS_MAX_FILE = "/proc/sys/kernel/threads-max"
OPEN_FILES_FOLDER = "/proc/self/fd"


class ProcessFigures(msgspec.Struct, frozen=True, kw_only=True):
    """`started_s` is a time since 1970, `cpu_s` the time of processors that was used since then.

    `run_queue` is how many processes of this machine want a processor, over the last minute.
    """

    started_s: float
    cpu_s: float
    open_files: int
    open_files_max: int
    threads: int
    threads_max: int
    resident_bytes: int
    context_switches: int
    run_queue: int
    disk_free_bytes: int


class ProcessWatch:
    """Call it for the figures: they are at most a second old."""

    def __init__(self, data_dir: str | None, clock: Callable[[], float]) -> None:
        self._data_dir = data_dir or os.getcwd()
        self._clock = clock
        self._process = psutil.Process()
        self._figures: ProcessFigures | None = None
        self._taken_s = 0.0

    def __call__(self) -> ProcessFigures:
        now_s = self._clock()
        if self._figures is None or now_s - self._taken_s >= KEPT_S:
            self._figures, self._taken_s = self._look(), now_s
        return self._figures

    def _look(self) -> ProcessFigures:
        switches, times = self._process.num_ctx_switches(), self._process.cpu_times()
        return ProcessFigures(
            started_s=self._process.create_time(),
            cpu_s=times.user + times.system,
            open_files=_open_files(self._process),
            open_files_max=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
            threads=threading.active_count(),
            threads_max=_threads_max(),
            resident_bytes=self._process.memory_info().rss,
            context_switches=switches.voluntary + switches.involuntary,
            run_queue=round(os.getloadavg()[0]),
            disk_free_bytes=_free_bytes(self._data_dir),
        )


def _open_files(process: psutil.Process) -> int:
    try:
        # Linux 6.2 and newer tell the count as the size of the folder; a list of 20,000 names takes some milliseconds.
        count = os.stat(OPEN_FILES_FOLDER).st_size
    except OSError:
        count = 0
    return count or process.num_fds()


def _threads_max() -> int:
    """How many threads this user may have; where there is no limit, how many the machine may have."""
    limit = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    if limit != resource.RLIM_INFINITY:
        return limit
    try:
        with open(THREADS_MAX_FILE, encoding="ascii") as file:
            return int(file.read(64))
    except (OSError, ValueError):  # not Linux
        return 0


def _free_bytes(folder: str) -> int:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return 0
