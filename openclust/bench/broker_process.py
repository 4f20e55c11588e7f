"""The broker's own process, where it runs on this machine: its CPU time and memory, read from outside."""

from __future__ import annotations

import socket
import time

import psutil

from openclust.bench.errors import BenchError

# Quiet: below a tenth of one core over a quarter of a second.
QUIET_SHARE = 0.1
QUIET_STEP_S = 0.25
QUIET_WAIT_S = 30.0


class BrokerProcess:
    """A process and its children (an Erlang broker keeps some). Any reading is an error once the broker has died."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        try:
            self._process = psutil.Process(pid)
        except psutil.Error:
            raise BenchError(f"there is no process {pid}; --pid takes the broker's process id") from None

    def cpu_s(self) -> float:
        """User and system seconds so far, in steps of the kernel's 10 ms."""
        try:
            own = self._process.cpu_times()
            total = own.user + own.system + own.children_user + own.children_system
            for child in self._process.children(recursive=True):
                try:
                    times = child.cpu_times()
                except psutil.NoSuchProcess:
                    continue
                total += times.user + times.system
        except psutil.Error as error:
            raise self._unreadable(error) from None
        return float(total)

    def rss(self) -> int:
        """Resident bytes."""
        try:
            total = self._process.memory_info().rss
            for child in self._process.children(recursive=True):
                try:
                    total += child.memory_info().rss
                except psutil.NoSuchProcess:
                    continue
        except psutil.Error as error:
            raise self._unreadable(error) from None
        return int(total)

    def settle(self) -> None:
        """Wait until the broker has nothing left to do, but not for ever: some brokers never rest."""
        deadline = time.monotonic() + QUIET_WAIT_S
        before = self.cpu_s()
        while time.monotonic() < deadline:
            time.sleep(QUIET_STEP_S)
            after = self.cpu_s()
            if after - before < QUIET_SHARE * QUIET_STEP_S:
                return
            before = after

    def _unreadable(self, error: psutil.Error) -> BenchError:
        if isinstance(error, psutil.AccessDenied):
            return BenchError(f"may not read the times of process {self.pid}: run the bench as the broker's user")
        return BenchError(f"the broker process {self.pid} died during the bench")


def find_listener(host: str, port: int) -> int | None:
    """The id of the local process that listens on this port, None for other machines and other users' processes."""
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
