"""How a secondary knows the root: it hears every primary, and votes for none."""

from __future__ import annotations

import msgspec

from openclust.cluster.election.events import NoRoot
from openclust.cluster.election.view import gave_up, not_heard, stood_still
from openclust.cluster.protocol.status import Reign, Status

MISSED_MAX = 3
STOOD_STILL_BEATS = 1.5
"""Longer between two looks, and it was this process that stood still: it looks every heartbeat."""


class _HeardStatus(msgspec.Struct):
    status: Status
    at_ms: int


class Watch:
    """Ask `reign` after every `heard`, `lost` and tick."""

    def __init__(self, heartbeat_ms: int) -> None:
        self.heartbeat_ms = heartbeat_ms
        self._heard: dict[str, _HeardStatus] = {}
        # The primary whose link has ended last.
        self._lost: _HeardStatus | None = None
        self._looked_ms = 0

    def heard(self, status: Status, now_ms: int) -> None:
        known = self._heard.get(status.name)
        if known is not None:
            before = (known.status.seniority.stamp_ms, known.status.number)
            if (status.seniority.stamp_ms, status.number) <= before and now_ms - known.at_ms < self._offline_ms:
                return
        self._heard[status.name] = _HeardStatus(status, now_ms)

    def lost(self, name: str) -> None:
        """The primary's link to us is down."""
        self._lost = self._heard.pop(name, None) or self._lost

    @property
    def _offline_ms(self) -> int:
        return self.heartbeat_ms * MISSED_MAX

    def is_online(self, name: str, now_ms: int) -> bool:
        known = self._heard.get(name)
        return known is not None and now_ms - known.at_ms < self._offline_ms

    def status(self, name: str) -> Status | None:
        known = self._heard.get(name)
        return None if known is None else known.status

    def heard_ms(self, name: str) -> int:
        known = self._heard.get(name)
        return 0 if known is None else known.at_ms

    def reign(self, now_ms: int) -> Reign | None:
        """The latest reign whose root is online and says so itself."""
        reigns = [
            known.status.reign
            for name, known in self._heard.items()
            if known.status.reign is not None and known.status.reign.root == name and self.is_online(name, now_ms)
        ]
        return max(reigns, default=None)

    def look(self, now_ms: int) -> int:
        """How long it is since the last look."""
        passed_ms = now_ms - self._looked_ms if self._looked_ms else 0
        self._looked_ms = now_ms
        return passed_ms

    def lost_root(self, last: Reign, now_ms: int, passed_ms: int) -> NoRoot:
        """Why the root that was followed is none any more, so long after the last look."""
        known, lost = self._heard.get(last.root), self._lost
        word = known or (lost if lost is not None and lost.status.name == last.root else None)
        ended = word.status.ended if word is not None else None
        if ended is not None and ended.epoch == last.epoch:
            return NoRoot(last, gave_up(ended), is_told=True)
        if passed_ms > self.heartbeat_ms * STOOD_STILL_BEATS:
            return NoRoot(last, not_heard(stood_still(passed_ms)))
        if known is None:
            return NoRoot(last, not_heard("its link has ended"))
        if self.is_online(last.root, now_ms):
            return NoRoot(last, "says that it is root no more", is_told=True)
        return NoRoot(last, not_heard(f"nothing came for {now_ms - known.at_ms} ms"))
