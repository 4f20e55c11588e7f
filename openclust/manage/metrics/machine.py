"""What a scrape shows of this process and its disk. Read it in a thread: the system may take its time."""

from __future__ import annotations

import os
import resource
import shutil

import msgspec
import psutil


class Machine(msgspec.Struct, frozen=True):
    """`disk_free_bytes` is None for a broker that keeps nothing on a disk."""

    resident_bytes: int
    open_files: int
    open_files_max: int
    started_s: float
    cpu_s: float
    disk_free_bytes: int | None


def machine(data_dir: str | None) -> Machine:
    process = psutil.Process()
    times = process.cpu_times()
    try:
        free = shutil.disk_usage(data_dir).free if data_dir is not None else None
    except OSError:
        free = None
    return Machine(
        resident_bytes=process.memory_info().rss,
        open_files=len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else process.num_fds(),
        open_files_max=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        started_s=process.create_time(),
        cpu_s=times.user + times.system,
        disk_free_bytes=free,
    )
