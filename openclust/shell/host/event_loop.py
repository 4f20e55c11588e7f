"""The event loop of a broker: asyncio's own, but it reads a bounded number of sockets between two looks at its timers.

If ten thousand clients send at once, asyncio would read them all first. Meanwhile a root could miss its heartbeats, and
would be root no more.
"""

from __future__ import annotations

import asyncio
import selectors

EVENTS_AT_ONCE = 64

ReadyKeys = list[tuple[selectors.SelectorKey, int]]


class BoundedSelector(selectors.DefaultSelector):
    """Returns some of the ready sockets at a time, the others with the next calls, if they are still registered."""

    def __init__(self) -> None:
        super().__init__()
        self._held: ReadyKeys = []

    def select(self, timeout: float | None = None) -> ReadyKeys:
        if not self._held:
            ready = super().select(timeout)
            self._held = ready[EVENTS_AT_ONCE:]
            return ready[:EVENTS_AT_ONCE] if self._held else ready
        some, self._held = self._held[:EVENTS_AT_ONCE], self._held[EVENTS_AT_ONCE:]
        return [found for key, events in some if (found := self._still(key, events)) is not None]

    def _still(self, key: selectors.SelectorKey, events: int) -> tuple[selectors.SelectorKey, int] | None:
        """The socket may have been unregistered since it was ready, or registered for other events."""
        known = self.get_map().get(key.fd)
        return (known, known.events & events) if known is not None and known.events & events else None


def new_event_loop() -> asyncio.AbstractEventLoop:
    return asyncio.SelectorEventLoop(BoundedSelector())
