"""A local cluster for a bench: it starts its brokers in any order, asks them, and ends them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from openclust.cli.cluster.cluster_view import ClusterView, ask
from openclust.cli.cluster.local_cluster import HOST, plan_cluster
from openclust.cli.http_client import HttpClient

if TYPE_CHECKING:
    from openclust.bench.brokers.bench_cluster import MakeCluster
    from openclust.bench.brokers.checkout import Checkout

SERVE_SECONDS = 30.0
STOP_SECONDS = 10.0
ANSWER_SECONDS = 10.0
POLL_SECONDS = 0.02


class LocalBenchCluster:
    """A context manager. Inside it, `start` the brokers you need; at its end no broker and no file is left."""

    def __init__(
        self,
        primaries: int,
        secondaries: int = 0,
        data_in: Path | None = None,
        checkout: Checkout | None = None,
    ) -> None:
        """The brokers keep their data in a new folder in `data_in`, or among temporary files.

        With `checkout` they run the code of another source tree.
        """
        self._primaries, self._secondaries, self._data_in = primaries, secondaries, data_in
        self._checkout = checkout
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> LocalBenchCluster:
        self._folder = tempfile.TemporaryDirectory(prefix="openclust-bench-", dir=self._data_in)
        folder = Path(self._folder.name)
        self._plan = plan_cluster("bench", folder, self._primaries, self._secondaries, log_level="warning")
        self._plan.write()
        self._brokers = {each.name: each for each in self._plan.brokers}
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes.values():
            process.terminate()
        deadline = time.monotonic() + STOP_SECONDS
        for process in self._processes.values():
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._folder.cleanup()

    @property
    def names(self) -> list[str]:
        return list(self._brokers)

    @property
    def folder(self) -> Path:
        """The folder of the brokers' data."""
        return Path(self._folder.name)

    @property
    def primaries(self) -> list[str]:
        return [each.name for each in self._plan.primaries]

    def start(self, *names: str) -> None:
        """Starts the brokers of these names, or all. They may not be ready when this returns.

        A broker that was killed finds its data again.
        """
        environment, checkout = self._plan.environment(), self._checkout
        for name in names or self.names:
            with open(self._log(name), "wb") as log:
                self._processes[name] = subprocess.Popen(
                    self._plan.command(self._brokers[name]),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=None if checkout is None else checkout.folder,
                    env=environment if checkout is None else checkout.environment(environment),
                    start_new_session=True,  # Ctrl-C is for the bench, which ends them when it has cleaned up
                )

    def kill(self, name: str) -> None:
        """Kills a broker, and returns when its process is gone."""
        self._processes[name].kill()
        self._processes[name].wait()

    def address(self, name: str) -> tuple[str, int]:
        """The address of a broker for clients."""
        return HOST, self._brokers[name].client_port

    def pids(self) -> tuple[int, ...]:
        """The process ids of all started brokers."""
        return tuple(process.pid for process in self._processes.values())

    def pid(self, name: str) -> int:
        return self._processes[name].pid

    def root(self, name: str) -> str | None:
        """The root, as this broker knows it."""
        view = self._view(name)
        return view.root if view is not None else None

    def epoch(self, name: str) -> int:
        view = self._view(name)
        return view.epoch if view is not None else 0

    def position(self, name: str) -> tuple[int, int] | None:
        """Epoch and number of the last entry of a broker's log; None if it does not answer, or has no entry."""
        view = self._view(name)
        return (view.position.epoch, view.position.sequence) if view is not None and view.position else None

    def held(self, name: str) -> int:
        """The number of meta-bindings of other brokers that a broker holds."""
        view = self._view(name)
        return view.meta_bindings.held or 0 if view is not None and view.meta_bindings is not None else 0

    def relayed(self, name: str) -> int:
        """The number of message copies that a broker has sent to others, over the links that it has now."""
        view = self._view(name)
        return sum(link.relayed or 0 for link in view.links) if view is not None else 0

    def wait_until_answering(self, name: str) -> None:
        """Waits until a broker answers. It need not have found its place in the cluster."""
        self._wait(lambda: self._view(name) is not None, f"{name} does not answer")

    def wait_until_serving(self) -> str:
        """Waits until all started brokers know the root and each other; returns the root."""
        root = ""

        def all_serve() -> bool:
            nonlocal root
            views = [self._view(name) for name in self._processes]
            if any(view is None or view.root is None or not self._sees_all(view) for view in views):
                return False
            roots = {view.root for view in views if view is not None and view.root is not None}
            root = min(roots)
            return len(roots) == 1

        self._wait(all_serve, "the cluster does not serve")
        return root

    def check(self) -> None:
        """Raises an error with the last log lines of a broker, if one has ended."""
        from openclust.bench.client.bench_errors import BenchError

        for name, process in self._processes.items():
            if process.poll() is not None:
                raise BenchError(f"{name} ended with {process.returncode}: {self._last_words(name)}")

    def _sees_all(self, view: ClusterView) -> bool:
        return set(self._processes) <= {each.name for each in view.brokers if each.online}

    def _wait(self, condition: Callable[[], bool], complaint: str) -> None:
        from openclust.bench.client.bench_errors import BenchError

        deadline = time.monotonic() + SERVE_SECONDS
        while not condition():
            self.check()
            if time.monotonic() > deadline:
                raise BenchError(f"{complaint} after {SERVE_SECONDS:.0f} s")
            time.sleep(POLL_SECONDS)

    def _view(self, name: str) -> ClusterView | None:
        """The cluster as a broker sees it; None if it does not answer."""
        with contextlib.suppress(click.ClickException):
            return ask(HttpClient(self._brokers[name].http_url, ANSWER_SECONDS))[0]
        return None

    def _log(self, name: str) -> str:
        return os.path.join(self._folder.name, f"{name}.log")

    def _last_words(self, name: str) -> str:
        with open(self._log(name), encoding="utf-8", errors="replace") as log:
            lines = [line.strip() for line in log if line.strip()]
        return lines[-1] if lines else "it said nothing"


def local_clusters(data_in: Path, checkout: Checkout | None = None) -> MakeCluster:
    """Returns a function that makes clusters, each with a data folder of its own in `data_in`."""

    def make(primaries: int, secondaries: int) -> LocalBenchCluster:
        return LocalBenchCluster(primaries, secondaries, data_in, checkout)

    return make
