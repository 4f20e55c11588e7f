"""A queue's pages, in the order of their places."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from operator import attrgetter

from openclust.broker.backlog.page import SPAN_MAX, Leaf

_first = attrgetter("first")


class Shelf:
    """`away` is how many messages are in pages and in no memory; `out` are the pages that have such.

    `next` is the page with the first of them, and `low` its place; 0 for none.
    """

    __slots__ = ("_overlap", "away", "leaves", "low", "next", "out")

    def __init__(self) -> None:
        self.leaves: list[Leaf] = []
        self.out: list[Leaf] = []
        self.away = 0
        self.next: Leaf | None = None
        self.low = 0
        # Places are used anew where another root's log has others in their place: pages may overlap then.
        self._overlap = False

    def find(self, seq: int) -> Leaf | None:
        """The page that has this message, alive."""
        leaves = self.leaves
        at = bisect_right(leaves, seq, key=_first) - 1
        while at >= 0:
            leaf = leaves[at]
            if leaf.has(seq):
                return leaf
            if not self._overlap or seq - leaf.first >= SPAN_MAX:
                return None
            at -= 1
        return None

    def is_past(self, seq: int) -> bool:
        """Whether no page reaches so far. Where pages overlap, any of them may, not just the last one."""
        leaves = self.leaves
        return not leaves or (seq > leaves[-1].last and not self._overlap)

    def around(self, first: int, last: int) -> list[Leaf]:
        """The pages that may have messages with these places."""
        return self.leaves[
            bisect_left(self.leaves, first - SPAN_MAX, key=_first) : bisect_right(self.leaves, last, key=_first)
        ]

    def add(self, leaf: Leaf) -> None:
        leaves = self.leaves
        leaf.is_shelved = True
        if not leaves or leaf.first > leaves[-1].last:
            leaves.append(leaf)
        else:
            self._overlap = True
            insort(leaves, leaf, key=_first)
        if leaf.out:
            leaf.out, out = 0, leaf.out
            self.lay_out(leaf, out)

    def drop(self, leaf: Leaf) -> None:
        self.bring(leaf, leaf.out)
        leaf.is_shelved = False
        at = bisect_left(self.leaves, leaf.first, key=_first)
        del self.leaves[self.leaves.index(leaf, at)]
        if not self.leaves:
            self._overlap = False

    def clear(self) -> list[int]:
        """There are no pages any more; their numbers."""
        numbers = [leaf.number for leaf in self.leaves]
        for leaf in self.leaves:
            leaf.is_shelved = False
        self.leaves.clear()
        self.out.clear()
        self.away = self.low = 0
        self.next = None
        self._overlap = False
        return numbers

    def lay_out(self, leaf: Leaf, bits: int) -> None:
        """These messages of the page are in no memory."""
        if not leaf.out:
            if not self.out or leaf.first > self.out[-1].first:
                self.out.append(leaf)
            else:
                insort(self.out, leaf, key=_first)
        self.away += (bits & ~leaf.out).bit_count()
        leaf.out |= bits
        self._look()

    def bring(self, leaf: Leaf, bits: int) -> None:
        """They are in memory, or nowhere."""
        if not leaf.out & bits:
            return
        self.away -= (bits & leaf.out).bit_count()
        leaf.out &= ~bits
        if not leaf.out:
            at = bisect_left(self.out, leaf.first, key=_first)
            del self.out[self.out.index(leaf, at)]
        self._look()

    def _look(self) -> None:
        self.next, self.low = None, 0
        for leaf in self.out:
            if self.low and leaf.first > self.low:
                break
            low = leaf.first + (leaf.out & -leaf.out).bit_length() - 1
            if not self.low or low < self.low:
                self.next, self.low = leaf, low
