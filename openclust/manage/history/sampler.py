"""Looks at all objects every five seconds, for the history."""

from __future__ import annotations

import asyncio
import logging

from openclust.manage.history.history import History
from openclust.manage.history.series import SAMPLE_EVERY_MS

log = logging.getLogger("openclust.http")


class Sampler:
    """A task of the broker's loop; `stop` ends it."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        due_s = loop.time()
        while True:
            try:
                await self._history.look()
            except Exception:
                # What is shown gets old, and the broker serves on.
                log.exception("the statistics could not be sampled")
            due_s = max(due_s + SAMPLE_EVERY_MS / 1_000, loop.time())
            await asyncio.sleep(due_s - loop.time())

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
