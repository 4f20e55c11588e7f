"""Long work in short slices: the broker serves its clients in between."""

from __future__ import annotations

import asyncio
from time import perf_counter

SLICE_S = 0.003


class Slices:
    """Call `rest` in each round of a loop: it returns at once, or lets others run where a slice is used up."""

    __slots__ = ("_ends",)

    def __init__(self) -> None:
        self._ends = perf_counter() + SLICE_S

    async def rest(self) -> None:
        if perf_counter() >= self._ends:
            await asyncio.sleep(0)
            self._ends = perf_counter() + SLICE_S
