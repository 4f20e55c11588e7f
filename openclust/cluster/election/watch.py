"""How a secondary knows the root: it hears every primary, and votes for none."""

from __future__ import annotations

import msgspec

from openclust.cluster.election.events import NoRoot
from openclust.cluster.election.lost_root import lost_root
from openclust.cluster.protocol.status import Reign, Status

MISSED_MAX = 3
STOOD_STILL_BEATS = 1.5
"""In heartbeats. A secondary looks once a heartbeat: if more time passes, its own process stood still."""


class _HeardStatus(msgspec.Struct):
    status: Status
    at_ms: int


class Watch:
    """Ask `reign` after every `heard`, `lost` and tick."""

    def __init__(self, heartbeat_ms: int) -> None:
        self.heartbeat_ms = heartbeat_ms
        self._heard: dict[str, _HeardStatus] = {}
        # The last status of the primary whose link has ended last.
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
        """The primary's link to this broker has ended."""
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
        """Note the time of this look; returns how long ago the one before was, 0 for the first."""
        passed_ms = now_ms - self._looked_ms if self._looked_ms else 0
        self._looked_ms = now_ms
        return passed_ms

    def lost_root(self, last: Reign, now_ms: int, passed_ms: int) -> NoRoot:
        """Why the root that was followed is gone; the last look was `passed_ms` ago."""
        known, lost = self._heard.get(last.root), self._lost
        word = known or (lost if lost is not None and lost.status.name == last.root else None)
        return lost_root(
            last,
            word.status.ended if word is not None else None,
            passed_ms=passed_ms,
            stood_still_ms=int(self.heartbeat_ms * STOOD_STILL_BEATS),
            silent_ms=now_ms - known.at_ms if known is not None else None,
            is_online=self.is_online(last.root, now_ms),
        )
