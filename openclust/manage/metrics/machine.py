"""What a scrape shows of this process and its machine. Read it in a thread: the system may take its time."""

from __future__ import annotations

import time

import msgspec
import psutil

from openclust.manage.brokers.process_figures import ProcessFigures, ProcessWatch


class Machine(msgspec.Struct, frozen=True):
    """`started_s` is a time since 1970, `cpu_s` the time of processors that was used since then."""

    figures: ProcessFigures
    started_s: float
    cpu_s: float


def machine(data_dir: str | None) -> Machine:
    process = psutil.Process()
    times = process.cpu_times()
    return Machine(ProcessWatch(data_dir, time.monotonic)(), process.create_time(), times.user + times.system)
