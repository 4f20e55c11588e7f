"""A live line on the terminal: what is being done, how far the rounds are, how fast it goes."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from openclust.bench.load.load_messages import Progressed


class Quiet:
    """Shows nothing; for output that is no terminal."""

    def __enter__(self) -> Quiet:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def doing(self, what: str) -> None:
        pass

    def told(self, progressed: Progressed) -> None:
        pass

    def finished_round(self) -> None:
        pass


class ProgressBar(Quiet):
    """A bar of rounds on stderr, removed before the results are shown."""

    def __init__(self, rounds: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[detail]}"),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._progress.add_task("starting", total=rounds, detail="")
        self._last = (time.monotonic(), 0)

    def __enter__(self) -> ProgressBar:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def doing(self, what: str) -> None:
        self._last = (time.monotonic(), 0)
        self._progress.update(self._task, description=what, detail="")

    def told(self, progressed: Progressed) -> None:
        now, (before, number) = time.monotonic(), self._last
        self._last = (now, progressed.number)
        speed = (progressed.number - number) / max(now - before, 1e-9)
        detail = f"{progressed.number:,} {progressed.doing}" if progressed.number else progressed.doing
        if speed > 0:
            detail += f", {speed:,.0f}/s"
        self._progress.update(self._task, detail=detail)

    def finished_round(self) -> None:
        self._progress.advance(self._task)


def progress(rounds: int) -> Quiet:
    """A bar if stderr is a terminal. Use it as a context manager."""
    return ProgressBar(rounds) if sys.stderr.isatty() else Quiet()
