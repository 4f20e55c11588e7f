"""Log lines of events that repeat: one at once, then only counts, with more and more time between two lines."""

from __future__ import annotations

import msgspec

INTERVALS_MS = (10_000, 60_000, 600_000, 3_600_000)
"""For how long an event is only counted after its first line, its second and so on. The last one repeats."""

KEYS_MAX = 200


class _Counted(msgspec.Struct):
    first_ms: int
    next_ms: int
    lines: int = 1
    silent: int = 0


class Repeats:
    """Call `again` for each event: append its result to the log line, or log nothing where it is None.

    An event begins anew if it did not come for as long again as it would have been silent, or after `forget`.
    """

    def __init__(self) -> None:
        self._counted: dict[str, _Counted] = {}

    def again(self, event: str, now_ms: int) -> str | None:
        """The end of an event's log line: empty the first time, later how often it has come since the last line."""
        counted = self._counted.get(event)
        if counted is None or now_ms - counted.next_ms > _interval_ms(counted.lines - 1):
            self._counted.pop(event, None)
            if len(self._counted) >= KEYS_MAX:
                del self._counted[next(iter(self._counted))]
            self._counted[event] = _Counted(now_ms, now_ms + INTERVALS_MS[0])
            return ""
        counted.silent += 1
        if now_ms < counted.next_ms:
            return None
        times, counted.silent = counted.silent, 0
        counted.next_ms = now_ms + _interval_ms(counted.lines)
        counted.lines += 1
        since_s = (now_ms - counted.first_ms) // 1_000
        return f" ({times} more since the last line; for {since_s} s by now)"

    def forget(self, beginning: str = "") -> None:
        """Events whose text begins like this get their next line at once."""
        for event in [each for each in self._counted if each.startswith(beginning)]:
            del self._counted[event]


def _interval_ms(lines: int) -> int:
    return INTERVALS_MS[min(lines, len(INTERVALS_MS) - 1)]
