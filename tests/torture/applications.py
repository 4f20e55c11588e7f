"""The process of the clients, from outside."""

from __future__ import annotations

import selectors
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from tests.torture.brokers import CLIENTS
from tests.torture.child import end_child, start_child
from tests.torture.network import TortureNetwork
from tests.torture.traffic import Outcome, Progress, Task, Told

OPEN_WAIT_S = 30.0


class Applications:
    """`start` it, `listen` often, and `end` it whatever happened."""

    def __init__(self, network: TortureNetwork, folder: Path) -> None:
        self.progress = Progress(0, 0, 0, 0)
        self.outcome: Outcome | None = None
        self._network = network
        self._log = folder / "clients.log"
        self._process: subprocess.Popen[str] | None = None
        self._selector = selectors.DefaultSelector()

    def start(self, task: Task) -> None:
        with self._log.open("ab") as log:
            process = self._process = start_child(
                self._network.command(CLIENTS, [sys.executable, "-m", "tests.torture.clients"]),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        assert process.stdin is not None and process.stdout is not None
        self._selector.register(process.stdout, selectors.EVENT_READ)
        process.stdin.write(msgspec.json.encode(task).decode() + "\n")
        process.stdin.flush()

    def stop_publishing(self) -> None:
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.write("stop\n")
        self._process.stdin.flush()

    def listen(self, until: float) -> None:
        """Hear what it says until then (time.monotonic), or until it said all. AssertionError where it is no more."""
        assert self._process is not None and self._process.stdout is not None
        while self.outcome is None and (wait_s := until - time.monotonic()) > 0:
            if not self._selector.select(wait_s):
                return
            # Always whole lines, written at once and flushed: a line is never awaited for long.
            line = self._process.stdout.readline()
            if not line:
                told = self._log.read_text(encoding="utf-8", errors="replace")[-4_000:]
                raise AssertionError(f"the process of the clients ended:\n{told}")
            said = msgspec.json.decode(line, type=Told)
            if isinstance(said, Outcome):
                self.outcome = said
            else:
                self.progress = said

    def wait_for_traffic(self, look_around: Callable[[], None]) -> None:
        """Until a message came back."""
        end = time.monotonic() + OPEN_WAIT_S
        while not self.progress.received:
            if time.monotonic() > end:
                raise AssertionError(f"no message was received within {OPEN_WAIT_S:.0f} s: {self.progress}")
            look_around()
            self.listen(time.monotonic() + 0.2)

    def end(self) -> None:
        self._selector.close()
        if self._process is not None:
            end_child(self._process)
