"""How long nothing was confirmed while somebody was trying."""

from __future__ import annotations

import msgspec

NOTABLE_S = 0.1
GAPS_MAX = 50_000


class Gap(msgspec.Struct, frozen=True):
    """Times of the monotonic clock of this machine."""

    since: float
    until: float

    @property
    def length_s(self) -> float:
        return self.until - self.since


class Gaps:
    """`begin` when somebody starts to try, `confirmed` at every confirm, and `end` when nobody tries any more."""

    def __init__(self) -> None:
        self.found: list[Gap] = []
        self.longest = Gap(0.0, 0.0)
        self._since: float | None = None

    def begin(self, now: float) -> None:
        if self._since is None:
            self._since = now

    def confirmed(self, now: float) -> None:
        self._close(now)
        self._since = now

    def end(self, now: float) -> None:
        self._close(now)
        self._since = None

    def _close(self, now: float) -> None:
        if self._since is None or now - self._since < NOTABLE_S:
            return
        gap = Gap(self._since, now)
        if gap.length_s > self.longest.length_s:
            self.longest = gap
        if len(self.found) < GAPS_MAX:
            self.found.append(gap)
