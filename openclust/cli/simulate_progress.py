"""How far a simulation is: a bar on stderr, gone when the results are there."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from types import TracebackType
from typing import Any


class Watched:
    """What `pipeline.simulate` tells, shown. Use it as a context manager."""

    def __init__(self, *, is_shown: bool) -> None:
        self._bar: Any = None
        self._is_shown = is_shown and sys.stderr.isatty()
        self._stack = ExitStack()

    def __enter__(self) -> Watched:
        if self._is_shown:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
            progress = Progress(*columns, console=Console(stderr=True), transient=True)
            self._bar = self._stack.enter_context(progress)
            self._task = self._bar.add_task("starting Spark", total=None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()
        self._bar = None

    def __call__(self, stage: str, done: int, of: int) -> None:
        """`stage` is under way, after so many of all that there are to do."""
        if self._bar is not None:
            self._bar.update(self._task, description=stage, completed=done, total=of)
