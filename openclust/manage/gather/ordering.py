"""The first rows of many, in order: in slices, so that the broker serves its clients in between."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Any, Generic, TypeVar

from openclust.manage.gather.selection import SortKey
from openclust.manage.gather.slices import Slices

T = TypeVar("T")

SORTED_AT_ONCE = 500
HELD_MIN = 5_000
"""So many rows are held at least before those that cannot be among the first are dropped."""


class FirstRows(Generic[T]):
    """The first `count` of all rows that are added."""

    def __init__(self, count: int, *, reverse: bool, slices: Slices) -> None:
        self._count = count
        self._reverse = reverse
        self._slices = slices
        self._unsorted: list[tuple[SortKey, T]] = []
        self._runs: list[list[tuple[SortKey, T]]] = []
        self._held = 0

    async def add(self, key: SortKey, it: T) -> None:
        self._unsorted.append((key, it))
        if len(self._unsorted) >= SORTED_AT_ONCE:
            self._sort()
            if self._held >= max(HELD_MIN, 2 * self._count):
                self._runs = [await self.take()]
                self._held = len(self._runs[0])

    async def take(self) -> list[tuple[SortKey, T]]:
        """The first of those that have been added, in order."""
        self._sort()
        return await first_of(self._runs, self._count, reverse=self._reverse, slices=self._slices)

    def _sort(self) -> None:
        run = sorted(self._unsorted, key=_key, reverse=self._reverse)[: self._count]
        self._unsorted = []
        if run:
            self._runs.append(run)
            self._held += len(run)


async def first_of(
    runs: Iterable[list[tuple[SortKey, T]]], count: int, *, reverse: bool, slices: Slices
) -> list[tuple[SortKey, T]]:
    """The first `count` rows of several lists, of which each is in order."""
    first: list[tuple[SortKey, T]] = []
    for keyed in heapq.merge(*runs, key=_key, reverse=reverse):
        if len(first) == count:
            break
        first.append(keyed)
        await slices.rest()
    return first


def _key(keyed: tuple[SortKey, Any]) -> SortKey:
    return keyed[0]
