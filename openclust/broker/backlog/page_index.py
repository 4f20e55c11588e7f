"""The pages of one queue, in the order of their places."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from operator import attrgetter

from openclust.broker.backlog.page import SPAN_MAX, PageState

_first = attrgetter("first")


class PageIndex:
    """`unloaded_pages` have messages that are only on disk; there are `unloaded_count` of these messages.

    The first of them has the place `lowest_unloaded` (0 for none), in the page `next_unloaded`.
    """

    __slots__ = ("_overlap", "lowest_unloaded", "next_unloaded", "pages", "unloaded_count", "unloaded_pages")

    def __init__(self) -> None:
        self.pages: list[PageState] = []
        self.unloaded_pages: list[PageState] = []
        self.unloaded_count = 0
        self.next_unloaded: PageState | None = None
        self.lowest_unloaded = 0
        # Where the log of another root has other entries, places are used a second time: then pages may overlap.
        self._overlap = False

    def find(self, seq: int) -> PageState | None:
        """The page in which the message with this place is alive."""
        pages = self.pages
        at = bisect_right(pages, seq, key=_first) - 1
        while at >= 0:
            page = pages[at]
            if page.has(seq):
                return page
            if not self._overlap or seq - page.first >= SPAN_MAX:
                return None
            at -= 1
        return None

    def is_past(self, seq: int) -> bool:
        """Whether no page has this place or a later one."""
        pages = self.pages
        return not pages or (seq > pages[-1].last and not self._overlap)

    def around(self, first: int, last: int) -> list[PageState]:
        """All pages that may have a message with one of these places."""
        return self.pages[
            bisect_left(self.pages, first - SPAN_MAX, key=_first) : bisect_right(self.pages, last, key=_first)
        ]

    def add(self, page: PageState) -> None:
        pages = self.pages
        page.is_indexed = True
        if not pages or page.first > pages[-1].last:
            pages.append(page)
        else:
            self._overlap = True
            insort(pages, page, key=_first)
        if page.unloaded:
            page.unloaded, unloaded = 0, page.unloaded
            self.mark_unloaded(page, unloaded)

    def drop(self, page: PageState) -> None:
        self.mark_loaded(page, page.unloaded)
        page.is_indexed = False
        at = bisect_left(self.pages, page.first, key=_first)
        del self.pages[self.pages.index(page, at)]
        if not self.pages:
            self._overlap = False

    def clear(self) -> list[int]:
        """Forget all pages. Returns their numbers."""
        numbers = [page.number for page in self.pages]
        for page in self.pages:
            page.is_indexed = False
        self.pages.clear()
        self.unloaded_pages.clear()
        self.unloaded_count = self.lowest_unloaded = 0
        self.next_unloaded = None
        self._overlap = False
        return numbers

    def mark_unloaded(self, page: PageState, bits: int) -> None:
        """These messages of the page are only on disk from now on."""
        if not page.unloaded:
            if not self.unloaded_pages or page.first > self.unloaded_pages[-1].first:
                self.unloaded_pages.append(page)
            else:
                insort(self.unloaded_pages, page, key=_first)
        self.unloaded_count += (bits & ~page.unloaded).bit_count()
        page.unloaded |= bits
        self._find_next_unloaded()

    def mark_loaded(self, page: PageState, bits: int) -> None:
        """These messages are in memory from now on, or have left the queue."""
        if not page.unloaded & bits:
            return
        self.unloaded_count -= (bits & page.unloaded).bit_count()
        page.unloaded &= ~bits
        if not page.unloaded:
            at = bisect_left(self.unloaded_pages, page.first, key=_first)
            del self.unloaded_pages[self.unloaded_pages.index(page, at)]
        self._find_next_unloaded()

    def _find_next_unloaded(self) -> None:
        self.next_unloaded, self.lowest_unloaded = None, 0
        for page in self.unloaded_pages:
            if self.lowest_unloaded and page.first > self.lowest_unloaded:
                break
            low = page.first + (page.unloaded & -page.unloaded).bit_length() - 1
            if not self.lowest_unloaded or low < self.lowest_unloaded:
                self.next_unloaded, self.lowest_unloaded = page, low
