"""A load generator's process, as the command that starts it sees it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import msgspec

from openclust.bench.client.bench_errors import BenchError
from openclust.bench.client.child import end_child
from openclust.bench.load.load_messages import (
    Answer,
    Command,
    Failed,
    LoadReady,
    Order,
    Progressed,
    RoundDone,
    RunRound,
)
from openclust.bench.load.work import Figures

Told = Callable[[Progressed], None]
# Detaching ten thousand subscribers from a slow broker takes a while.
CLOSE_SECONDS = 90.0


class Generator:
    """One process at one broker. Close it in any case: it deletes what it declared."""

    def __init__(self, order: Order, told: Told) -> None:
        self._address = order.url.address
        self._told = told
        self._process = subprocess.Popen(
            [sys.executable, "-m", "openclust.bench.load.worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        try:
            ready = self._ask(order)
        except BaseException:
            self.close()
            raise
        assert isinstance(ready, LoadReady)
        self.product, self.version = ready.product, ready.version

    def run(self, seconds: float | None = None) -> Figures:
        """Run one round; `seconds` is used instead of the length that the work says."""
        done = self._ask(RunRound(seconds=seconds))
        assert isinstance(done, RoundDone)
        return done.figures

    def close(self) -> None:
        """End the process; it cleans up at the broker first."""
        end_child(self._process, CLOSE_SECONDS)

    def _ask(self, command: Command) -> Answer:
        assert self._process.stdin and self._process.stdout
        try:
            self._process.stdin.write(msgspec.json.encode(command) + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise BenchError(f"the load generator for {self._address} is gone; its last words are above") from None
        while line := self._process.stdout.readline():
            answer: Answer = msgspec.json.decode(line, type=Answer)
            match answer:
                case Progressed():
                    self._told(answer)
                case Failed():
                    raise BenchError(answer.why)
                case _:
                    return answer
        raise BenchError(f"the load generator for {self._address} died; its last words are above")
