"""The progress of a simulation: a bar on stderr, which goes when the results are there."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(*, is_shown: bool) -> Iterator[Callable[[str, int, int], None]]:
    """Yields a function. Call it with the running stage, the number of stages done, and the number of all."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    is_hidden = not (is_shown and sys.stderr.isatty())
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True, quiet=is_hidden)
    with Progress(*columns, console=console, transient=True, disable=is_hidden) as bar:
        task = bar.add_task("starting Spark", total=None)
        yield lambda stage, done, of: bar.update(task, description=stage, completed=done, total=of)
