"""How many lines of the log the clients at one address may cause: one that tries again and again must not fill it."""

from __future__ import annotations

import logging

import msgspec

from openclust.shell.host.event_log import fields

LINES_MAX = 10
"""So many lines about one kind of event and one address come in `INTERVAL_MS`; the others are counted."""

INTERVAL_MS = 60_000

COUNTS_MAX = 1_000
"""So many pairs of address and event are counted each for itself; all further ones together."""

_OTHERS = ("", "other clients")


class _Interval(msgspec.Struct):
    ends_ms: int
    lines: int = 0
    left_out: int = 0


class LineLimit:
    """Ask `admits` before each line about a client. Call `look` now and then: it logs how many lines were left out."""

    def __init__(self, logger: logging.Logger) -> None:
        self._log = logger
        # In the order in which their intervals end.
        self._counted: dict[tuple[str, str], _Interval] = {}

    def admits(self, host: str, event: str, now_ms: int) -> bool:
        """Whether this event of a client at `host` is to be logged."""
        key = (host, event)
        if key not in self._counted and len(self._counted) >= COUNTS_MAX:
            key = _OTHERS
        counted = self._counted.get(key)
        if counted is None:
            counted = self._counted[key] = _Interval(now_ms + INTERVAL_MS)
        if counted.lines < LINES_MAX:
            counted.lines += 1
            return True
        counted.left_out += 1
        return False

    def look(self, now_ms: int) -> None:
        """End the intervals that are over, with a line for each that was more than full."""
        while self._counted:
            (host, event), counted = next(iter(self._counted.items()))
            if counted.ends_ms > now_ms:
                return
            del self._counted[host, event]
            if counted.left_out:
                told = fields(peer=host) if host else {}
                self._log.warning("%s: %d more in the last minute", event, counted.left_out, extra=told)
