"""Equal clients that do the same at the same time, as ranges of ids of one group."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple


class Ids:
    """Members of a group, as ranges from first to last. `take` some, or `add` others with the same state.

    Members are exchangeable, so those with the lowest ids are always taken.
    """

    __slots__ = ("_ranges", "count")

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        self._ranges: deque[tuple[int, int]] = deque()
        self.count = 0
        for first, last in sorted(ranges):
            if self._ranges and self._ranges[-1][1] + 1 == first:
                first = self._ranges.pop()[0]
            self._ranges.append((first, last))
        self.count = sum(last - first + 1 for first, last in self._ranges)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(self._ranges)

    def take(self, count: int) -> Ids:
        """Remove so many ids, and return them."""
        assert 0 <= count <= self.count
        taken: list[tuple[int, int]] = []
        self.count -= count
        while count:
            first, last = self._ranges.popleft()
            if last - first + 1 > count:
                self._ranges.appendleft((first + count, last))
                last = first + count - 1
            taken.append((first, last))
            count -= last - first + 1
        return Ids(taken)

    def parts(self, number: int, turn: int = 0) -> list[Ids]:
        """Split the ids into even parts. `turn` varies the parts that get one more."""
        counts = [(self.count + (place + turn) % number) // number for place in range(number)]
        return [self.take(count) for count in counts]


def united(several: Iterable[Ids]) -> Ids:
    return Ids(one for each in several for one in each)


class Want(NamedTuple):
    """The state of a waiting client: since when it is not attached, and its failed attempts since.

    `is_new`: it was never attached, and knows only the addresses it began with.
    """

    grp: int
    since_ms: int
    tries: int = 0
    is_new: bool = False
    is_redirected: bool = False


class WaitingClients(NamedTuple):
    want: Want
    ids: Ids


class Attempt(NamedTuple):
    """Members `first` to `last` of a group come at that time to a broker."""

    grp: int
    joins_ms: int
    contact: int
    first: int
    last: int


class ClientSession(NamedTuple):
    """A row of `schemas.SESSIONS`, without its run."""

    grp: int
    first: int
    last: int
    broker: int
    from_ms: int
    to_ms: int


def merged(sessions: Iterable[ClientSession]) -> list[ClientSession]:
    """The sessions in order, with neighbouring ids of equal sessions in one row."""
    found: list[ClientSession] = []
    for each in sorted(sessions, key=lambda row: (row.grp, row.from_ms, row.to_ms, row.broker, row.first)):
        last = found[-1] if found else None
        if last is not None and last[3:] == each[3:] and last.grp == each.grp and last.last + 1 == each.first:
            found[-1] = last._replace(last=each.last)
        else:
            found.append(each)
    return found
