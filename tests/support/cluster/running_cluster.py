"""Real primaries in processes of their own, to be killed, stopped and asked."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from openclust.cli.cluster.local_cluster import LocalBroker, LocalCluster, plan_cluster
from tests.support.clients.deadline import eventually

START_WAIT_S = 20.0
STOP_WAIT_S = 10.0
ASK_WAIT_S = 1.0
POLL_S = 0.002

LOGIN = "Basic Z3Vlc3Q6Z3Vlc3Q="


class Primary:
    """One broker, most often a primary, and a connection to its HTTP API, so that asking takes a millisecond."""

    def __init__(self, cluster: LocalCluster, place: LocalBroker) -> None:
        self.place = place
        self.name = place.name
        self.log = cluster.folder / f"{place.name}.log"
        self._cluster = cluster
        self._process: subprocess.Popen[bytes] | None = None
        self._asking: http.client.HTTPConnection | None = None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def process(self) -> subprocess.Popen[bytes] | None:
        """Another one after each start."""
        return self._process

    def start(self, command: list[str] | None = None) -> None:
        """Start it as planned, or with a command of one's own."""
        assert not self.is_running
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command or self._cluster.command(self.place),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._cluster.environment(),
            )

    def send(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL, and wait until it is no more."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        if self._asking is not None:
            self._asking.close()
        if self._process is None or not self.is_running:
            return
        self._process.send_signal(signal.SIGCONT)
        self._process.terminate()
        try:
            self._process.wait(STOP_WAIT_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def ask(self) -> dict[str, Any] | None:
        """How it sees the cluster; None where it does not answer."""
        began = time.monotonic()
        seen = self.answer() if self.is_running and self.question() else None
        if seen is None and self.is_running and time.monotonic() - began < ASK_WAIT_S / 2:
            # The server ends connections that were idle for long: on a new one it answers.
            seen = self.answer() if self.question() else None
        return seen

    def question(self) -> bool:
        """Ask, and leave the answer for `answer`: a process that is stopped finds the question when it goes on."""
        if self._asking is None:
            self._asking = http.client.HTTPConnection("127.0.0.1", self.place.http_port, timeout=ASK_WAIT_S)
        try:
            self._asking.request("GET", "/api/cluster", headers={"Authorization": LOGIN})
            return True
        except (OSError, http.client.HTTPException):
            self._forget()
            return False

    def answer(self) -> dict[str, Any] | None:
        assert self._asking is not None, "it was not asked"
        try:
            seen: dict[str, Any] = json.loads(self._asking.getresponse().read())
            return seen
        except (OSError, http.client.HTTPException, ValueError):
            self._forget()
            return None

    def _forget(self) -> None:
        assert self._asking is not None
        self._asking.close()
        self._asking = None


class RunningCluster:
    """Its primaries and secondaries by name."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.primaries = {place.name: Primary(cluster, place) for place in cluster.primaries}
        self.secondaries = {place.name: Primary(cluster, place) for place in cluster.secondaries}

    @property
    def brokers(self) -> dict[str, Primary]:
        return self.primaries | self.secondaries

    def roots(self) -> list[str]:
        """Who says of itself that it is root."""
        return [name for name, each in self.primaries.items() if (seen := each.ask()) and seen["role"] == "root"]

    def epoch(self) -> int:
        return max(int(seen["epoch"]) for each in self.primaries.values() if (seen := each.ask()))

    def root(self) -> Primary:
        """The only root. A machine that stands still for a second may cost a root its reign: there is another soon."""
        try:
            roots = eventually(self.roots)
        except AssertionError as error:
            raise AssertionError(f"no root: {error}\n{self.logs()}") from None
        assert len(roots) == 1, f"roots: {roots}\n{self.logs()}"
        return self.primaries[roots[0]]

    def others(self, but: Primary) -> list[Primary]:
        return [each for each in self.primaries.values() if each is not but]

    def wait_until_settled(self) -> Primary:
        """One root, which all that run follow, and all have heard so of all; the root."""
        eventually(self._is_settled, START_WAIT_S)
        return self.root()

    def _is_settled(self) -> bool:
        running = [each for each in self.primaries.values() if each.is_running]
        online = sum(each.is_running for each in self.brokers.values())
        seen = [each.ask() for each in running]
        return (
            all(
                one is not None
                and one["role"] in ("root", "backup")
                and sum(each["online"] for each in one["brokers"]) == online
                and one["votes"]["following"] == len(running)
                for one in seen
            )
            and len({one["root"] for one in seen if one}) == 1
        )

    def wait_for_root_among(self, candidates: list[Primary], began: float, within_s: float) -> tuple[Primary, float]:
        """The first of them that says it is root, and how many seconds after `began` (time.monotonic) that was."""
        while (took_s := time.monotonic() - began) < within_s:
            for each in candidates:
                seen = each.ask()
                if seen is not None and seen["role"] == "root":
                    return each, time.monotonic() - began
            time.sleep(POLL_S)
        raise AssertionError(f"no root of {[each.name for each in candidates]} within {took_s:.1f} s\n{self.logs()}")

    def logs(self) -> str:
        """The ends of all logs, for a failure."""
        parts = []
        for name, each in self.brokers.items():
            text = each.log.read_text(errors="replace") if each.log.exists() else ""
            parts.append(f"--- {name}\n{text[-4_000:]}")
        return "\n".join(parts)


def run_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    """An `openclust` command, run to its end."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("OPENCLUST_")}
    command = [sys.executable, "-m", "openclust", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, env=clean)


@contextlib.contextmanager
def running_cluster(folder: Path, primaries: int = 3, secondaries: int = 0) -> Iterator[RunningCluster]:
    """A cluster of processes that has a root. All are ended, whatever happened to them."""
    plan = plan_cluster("test", folder, primaries, secondaries)
    plan.write()
    cluster = RunningCluster(plan)
    try:
        for each in cluster.brokers.values():
            each.start()
        cluster.wait_until_settled()
        yield cluster
    finally:
        for each in cluster.brokers.values():
            each.stop()
