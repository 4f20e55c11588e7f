"""CPU time and memory of brokers that run on this machine, read from outside their processes.

The brokers of a cluster are measured together.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable
from typing import TypeVar

import psutil

from openclust.bench.client.bench_errors import BenchError

# A broker is quiet when it uses less than a tenth of one core over a quarter of a second.
QUIET_SHARE = 0.1
QUIET_STEP_S = 0.25
QUIET_WAIT_S = 30.0

Figure = TypeVar("Figure", int, float)


class BrokerProcess:
    """Processes and their children (an Erlang broker has some). Once one has died, each reading raises BenchError."""

    def __init__(self, *pids: int) -> None:
        self._processes = [_process(pid) for pid in pids]

    def cpu_s(self) -> float:
        """User and system CPU seconds so far. The kernel counts in steps of 10 ms."""
        return sum(self._read(process, _cpu_s) for process in self._processes)

    def rss(self) -> int:
        """Resident bytes."""
        return sum(self._read(process, _rss) for process in self._processes)

    def settle(self) -> None:
        """Wait until the brokers are quiet, `QUIET_WAIT_S` at most: some brokers never are."""
        deadline = time.monotonic() + QUIET_WAIT_S
        before = self.cpu_s()
        while time.monotonic() < deadline:
            time.sleep(QUIET_STEP_S)
            after = self.cpu_s()
            if after - before < QUIET_SHARE * QUIET_STEP_S:
                return
            before = after

    @staticmethod
    def _read(process: psutil.Process, reading: Callable[[psutil.Process], Figure]) -> Figure:
        try:
            return reading(process)
        except psutil.AccessDenied:
            text = f"may not read the times of process {process.pid}: run the bench as the broker's user"
            raise BenchError(text) from None
        except psutil.Error:
            raise BenchError(f"the broker process {process.pid} died during the bench") from None


def _process(pid: int) -> psutil.Process:
    try:
        return psutil.Process(pid)
    except psutil.Error:
        raise BenchError(f"there is no process {pid}; --pid takes the broker's process id") from None


def _cpu_s(process: psutil.Process) -> float:
    own = process.cpu_times()
    total = own.user + own.system + own.children_user + own.children_system
    for child in process.children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = child.cpu_times()
            total += times.user + times.system
    return float(total)


def _rss(process: psutil.Process) -> int:
    total = process.memory_info().rss
    for child in process.children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            total += child.memory_info().rss
    return int(total)


def find_listener(host: str, port: int) -> int | None:
    """The id of the process that listens on this port; None if it is on another machine or belongs to another user."""
    if not _is_local(host):
        return None
    try:
        listening = psutil.net_connections(kind="tcp")
    except psutil.AccessDenied:
        return None
    pids = sorted(
        one.pid
        for one in listening
        if one.status == psutil.CONN_LISTEN and one.pid and one.laddr and one.laddr.port == port
    )
    return pids[0] if pids else None


def _is_local(host: str) -> bool:
    try:
        found = {entry[4][0] for entry in socket.getaddrinfo(host, None)}
    except OSError:
        return False
    own = {address.address for interface in psutil.net_if_addrs().values() for address in interface}
    return all(str(address).startswith("127.") or address in own for address in found)
