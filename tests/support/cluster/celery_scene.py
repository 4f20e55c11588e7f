"""Celery while the root of a cluster is killed: workers and senders with the settings of docs/celery.md.

    .venv/bin/python -m tests.support.cluster.celery_scene

plays it with classic and with quorum queues, and with none of the settings, and prints the table of the page.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from celery import Celery

from tests.support.clients.deadline import eventually
from tests.support.cluster.celery_cluster_app import make_app
from tests.support.cluster.running_cluster import Primary
from tests.support.cluster.whole_cluster import WholeCluster, whole_cluster
from tests.support.paths import ROOT

PROCESSES = 4
"""Of each worker: one is left for short tasks where three are busy with long ones."""

KILL_AT_S = 1.5
SEND_S = 4.0
EVERY_S = 0.02
"""So long after its beginning the root is killed, so long tasks are sent, and a pause goes before each."""

LONG_S = 4.0
LATER_S = 5
LATER_TASKS = 4
"""How long a long task takes, and by how much some others are delayed: sent before the kill, and due after it."""

RETURN_AT_S = 3.0
"""With none of the settings all waits for the broker that is dead: it is started again so long after its end."""

END_WITHIN_S = 45.0
QUIET_S = LATER_S + 5.0
"""When it is given up to wait for results: at last, or when nothing has come for so long."""


def urls(*brokers: Primary) -> list[str]:
    return [f"amqp://guest:guest@127.0.0.1:{each.place.client_port}//" for each in brokers]


class Worker:
    """A worker process. It connects to the broker of its first URL."""

    def __init__(self, name: str, folder: Path, its_urls: list[str], settings: str, *options: str) -> None:
        self.name = f"{name}@{settings}"
        self.log = folder / f"{self.name}.log"
        environment = {
            "CELERY_SCENE_URLS": ";".join(its_urls),
            "CELERY_SCENE_SETTINGS": settings,
            "CELERY_SCENE_NOTES": str(folder / settings),
        }
        command = [
            *(sys.executable, "-m", "celery", "-A", "tests.support.cluster.celery_cluster_app", "worker"),
            *("--concurrency", str(PROCESSES), "--loglevel", "INFO", "--hostname", self.name, *options),
        ]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=os.environ | environment,
                start_new_session=True,
            )

    def log_text(self) -> str:
        return self.log.read_text(errors="replace")

    def wait_until_ready(self) -> None:
        def ready() -> bool:
            assert self.process.poll() is None, self.log_text()
            return " ready." in self.log_text()

        try:
            eventually(ready, within_s=40, every_s=0.1)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.log_text()}") from None

    def end(self) -> None:
        """At once, with the processes of its pool: a clean end would wait for the tasks."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Run(NamedTuple):
    """A task that ran, or a mark within it."""

    name: str
    at: float
    worker: str


class Scene:
    """A worker and a sender at the root, a worker at a backup. `begin`, have the root killed, and `finish`."""

    def __init__(self, cluster: WholeCluster, folder: Path, settings: str) -> None:
        self.settings = settings
        self.notes = folder / settings
        self.notes.touch()
        root = cluster.root()
        backup, other = cluster.others(root)
        self.near = Worker("near", folder, urls(root, other, backup), settings)
        self.far = Worker("far", folder, urls(backup, other, root), settings)
        self.app: Celery = make_app(urls(root, backup, other), settings)
        self.sent: dict[str, Any] = {}
        self.sent_at: dict[str, float] = {}
        self.errors: list[Exception] = []
        self.longest_send_s = 0.0
        self.due_at = self.killed_at = 0.0
        self.came: set[str] = set()
        self._sender = threading.Thread(target=self._send_short, daemon=True)

    def wait_until_ready(self) -> None:
        for worker in (self.near, self.far):
            worker.wait_until_ready()

    def begin(self) -> None:
        """Two long tasks run, one at each worker, some are delayed, and short ones are being sent."""
        for number in range(2):
            self._send("note_twice", f"long-{number}", LONG_S)
        eventually(lambda: len(self.runs("long")) == 2, within_s=40)
        self.due_at = time.time() + LATER_S
        for number in range(LATER_TASKS):
            self._send("note", f"later-{number}", countdown=LATER_S)
        self._sender.start()

    def _send(self, task: str, name: str, *arguments: Any, **options: Any) -> None:
        began = time.monotonic()
        self.sent_at[name] = time.time()
        try:
            self.sent[name] = self.app.send_task(task, (name, *arguments), **options)
        except Exception as error:
            self.errors.append(error)
        self.longest_send_s = max(self.longest_send_s, time.monotonic() - began)

    def _send_short(self) -> None:
        end = time.monotonic() + SEND_S
        number = 0
        while time.monotonic() < end:
            self._send("note", f"short-{number}")
            number += 1
            time.sleep(EVERY_S)

    def finish(self) -> None:
        """Wait for the end of sending, and for all results that come."""
        self._sender.join(60)
        if self._sender.is_alive():
            stack = "".join(traceback.format_stack(sys._current_frames()[self._sender.ident or 0]))
            raise AssertionError(f"a send that does not end, with {self.settings} queues:\n{stack}")
        last = time.monotonic()
        end = last + END_WITHIN_S
        ran = 0
        while len(self.came) < len(self.sent) and time.monotonic() < min(end, last + QUIET_S):
            for name in self.sent.keys() - self.came:
                with contextlib.suppress(Exception):
                    self.sent[name].get(timeout=0.01)
                    self.came.add(name)
                    last = time.monotonic()
            if len(self.runs()) > ran:
                ran, last = len(self.runs()), time.monotonic()

    def send_until_near_works(self, within_s: float = 30.0) -> None:
        end = time.monotonic() + within_s
        while self.near_back_s() == float("inf") and time.monotonic() < end:
            self._send("note", f"more-{len(self.sent)}")
            time.sleep(0.1)

    def end(self) -> None:
        for worker in (self.near, self.far):
            worker.end()
        with contextlib.suppress(Exception):
            self.app.close()

    # -- what came of it

    def runs(self, beginning: str = "") -> list[Run]:
        """What tasks have written, in that order."""
        rows = [line.split() for line in self.notes.read_text().splitlines()]
        return [Run(name, float(at), worker) for name, at, worker in rows if name.startswith(beginning)]

    def times(self, beginning: str, end: str = "") -> Counter[str]:
        """How often each of these was written."""
        return Counter(run.name for run in self.runs(beginning) if run.name.endswith(end))

    def lost(self) -> list[str]:
        """Tasks that were sent without an error, and never ran to their end."""
        ran = {run.name.removesuffix("-ends") for run in self.runs()}
        return sorted(name for name in self.sent.keys() - ran if not name.startswith("more"))

    def pause_s(self) -> float:
        """The longest time in which no short task ran, while some were being sent."""
        times = [run.at for run in self.runs("short")]
        return max((after - before for before, after in itertools.pairwise(times)), default=0.0)

    def near_back_s(self) -> float:
        """How long after the kill the worker that was at the root has a task that was sent after it."""
        own = [run for run in self.runs() if run.worker == self.near.name]
        times = [run.at for run in own if self.sent_at.get(run.name, 0) > self.killed_at]
        return min(times, default=float("inf")) - self.killed_at

    def row(self) -> dict[str, str]:
        """The figures of the page."""
        short = self.times("short")
        late = [run.at - self.due_at for run in self.runs("later")]
        return {
            "sends that raised": str(len(self.errors)),
            "the longest that a send took": f"{self.longest_send_s:.1f} s",
            "the longest time without a task": f"{self.pause_s():.1f} s",
            "the worker at the root works again after": f"{self.near_back_s():.1f} s",
            "tasks sent": str(len(self.sent) - len(self.times("more"))),
            "of these lost": str(len(self.lost())),
            "short tasks that ran twice": str(sum(count > 1 for count in short.values())),
            "two long tasks began": f"{self.times('long', 'begins').total()} times",
            "and ended": f"{self.times('long', 'ends').total()} times",
            "delayed tasks ran late by at most": f"{max(late, default=float('inf')):.1f} s",
            "results that never came": str(
                len([name for name in self.sent if not name.startswith("more")]) - len(self.came)
            ),
        }


@contextlib.contextmanager
def played(
    cluster: WholeCluster, folder: Path, all_settings: Sequence[str], ready: Callable[[], object] = lambda: None
) -> Iterator[dict[str, Scene]]:
    """Scenes with these settings, all about one kill of the root, after their end. The killed broker is still dead.

    `ready` is called when the workers are there, before all begins.
    """
    scenes = {settings: Scene(cluster, folder, settings) for settings in all_settings}
    root = cluster.root()
    try:
        for scene in scenes.values():
            scene.wait_until_ready()
        ready()
        for scene in scenes.values():
            scene.begin()
        time.sleep(KILL_AT_S)
        root.kill()
        for scene in scenes.values():
            scene.killed_at = time.time()
        if "none" in scenes:
            time.sleep(RETURN_AT_S)
            root.start()
        for scene in scenes.values():
            scene.finish()
        yield scenes
    finally:
        for scene in scenes.values():
            scene.end()


def main() -> None:
    rows: dict[str, dict[str, str]] = {}
    with tempfile.TemporaryDirectory() as text, whole_cluster(Path(text) / "cluster", secondaries=0) as cluster:
        for settings in sys.argv[1:] or ("classic", "quorum", "none"):
            folder = Path(text) / settings
            folder.mkdir()
            with played(cluster, folder, [settings]) as scenes:
                scenes[settings].send_until_near_works()
                rows[settings] = scenes[settings].row()
            cluster.restart()
    print(f"| | {' | '.join(rows)} |\n|---|{'---|' * len(rows)}")
    for name in next(iter(rows.values())):
        print(f"| {name} | {' | '.join(row[name] for row in rows.values())} |")


if __name__ == "__main__":
    main()
