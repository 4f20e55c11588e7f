"""How often the root has changed, as this broker saw it, and how long there was none."""

from __future__ import annotations

from openclust.broker.counts.histogram import Histogram
from openclust.cluster.protocol.status import Reign

WAITS_S = (0.05, 0.1, 0.2, 0.3, 0.5, 1, 2, 5, 10, 30, 60, 300)


class RootChanges:
    """Call `follow` whenever this broker's role begins.

    `elected` counts the reigns of this broker itself, `count` the reigns that began here or elsewhere after another
    one. `waits` are the seconds that this broker knew no root, from its start or from the end of a reign.
    """

    def __init__(self, now_ms: int) -> None:
        self.elected = 0
        self.count = 0
        self.waits = Histogram(WAITS_S)
        self._last: Reign | None = None
        self._since_ms: int | None = now_ms

    def follow(self, reign: Reign | None, now_ms: int, *, is_own: bool) -> None:
        """The broker's role is of this reign from now on; None where it knows no root."""
        if reign is None:
            if self._since_ms is None:
                self._since_ms = now_ms
            return
        if self._since_ms is not None:
            self.waits.add((now_ms - self._since_ms) / 1_000)
            self._since_ms = None
        if reign == self._last:
            return
        self.count += self._last is not None
        self.elected += is_own
        self._last = reign
