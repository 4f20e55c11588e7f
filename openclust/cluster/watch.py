"""How a secondary knows the root: it hears every primary, and votes for none."""

from __future__ import annotations

import msgspec

from openclust.cluster.status import Reign, Status

MISSED_MAX = 3


class _Heard(msgspec.Struct):
    status: Status
    at_ms: int


class Watch:
    """Ask `reign` after every `heard`, `lost` and tick."""

    def __init__(self, heartbeat_ms: int) -> None:
        self.heartbeat_ms = heartbeat_ms
        self._heard: dict[str, _Heard] = {}

    def heard(self, status: Status, now_ms: int) -> None:
        known = self._heard.get(status.name)
        if known is not None:
            before = (known.status.seniority.stamp_ms, known.status.number)
            if (status.seniority.stamp_ms, status.number) <= before and now_ms - known.at_ms < self._offline_ms:
                return
        self._heard[status.name] = _Heard(status, now_ms)

    def lost(self, name: str) -> None:
        """The primary's link to us is down."""
        self._heard.pop(name, None)

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
