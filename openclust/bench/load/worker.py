"""The load generator's process: `python -m openclust.bench.load.worker`, orders on stdin, answers on stdout.

It leaves when stdin ends, also in the middle of a round, and cleans up first.
"""

from __future__ import annotations

import gc
import signal
import sys
import time

import msgspec

from openclust.bench.client.bench_errors import BenchError, Stopped
from openclust.bench.load.load_messages import Answer, Command, Failed, LoadReady, Order, Progressed, RoundDone
from openclust.bench.load.load_session import Session

TELL_EVERY_S = 0.1


def main() -> None:
    """Serve one session."""
    # Ctrl-C goes to the whole process group; the command that started this process handles it and closes stdin.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        _serve()
    except BenchError as error:
        _answer(Failed(why=str(error)))
    except (Stopped, BrokenPipeError):
        pass


def _serve() -> None:
    order = _read()
    assert isinstance(order, Order)
    session = Session(order, sys.stdin.fileno(), _Teller())
    try:
        _answer(LoadReady(product=session.connection.product, version=session.connection.version))
        # No round makes reference cycles, and a garbage collection over thousands of sockets would look like latency.
        gc.collect()
        gc.disable()
        while (command := _read()) is not None:
            assert not isinstance(command, Order)
            _answer(RoundDone(figures=session.run(command.seconds)))
    finally:
        session.close()


def _read() -> Command | None:
    line = sys.stdin.buffer.readline()
    return msgspec.json.decode(line, type=Command) if line else None


def _answer(answer: Answer) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
    sys.stdout.buffer.flush()


class _Teller:
    """Passes progress on, ten times a second at most."""

    def __init__(self) -> None:
        self._next = 0.0

    def __call__(self, doing: str, number: int) -> None:
        now = time.monotonic()
        if now >= self._next:
            self._next = now + TELL_EVERY_S
            _answer(Progressed(doing=doing, number=number))


if __name__ == "__main__":
    main()
