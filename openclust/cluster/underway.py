"""Clients that were sent to other brokers and may not be counted there yet."""

from __future__ import annotations

from openclust.cluster.roster import Roster

FORGET_MS = 4_000
"""A client that was sent away has arrived within this time and is counted, or it never will: twice this at most."""


class Underway:
    """The roster is up to a second old: who sends more than one newcomer in that time must count them by itself."""

    def __init__(self) -> None:
        self._newer: dict[str, int] = {}
        self._older: dict[str, int] = {}
        self._turned_ms = 0
        self._roster = Roster()

    def heard(self, roster: Roster, now_ms: int) -> None:
        """This is the roster now. What a broker has gained since the last one is taken for the arrival of ours."""
        self._turn(now_ms)
        if roster is self._roster:
            return
        before = {each.name: each.connections for each in self._roster.brokers}
        self._roster = roster
        for each in roster.brokers:
            self._arrived(each.name, each.connections - before.get(each.name, 0))

    def sent(self, name: str) -> None:
        """Another client is sent to this broker."""
        self._newer[name] = self._newer.get(name, 0) + 1

    def count(self, name: str) -> int:
        return self._newer.get(name, 0) + self._older.get(name, 0)

    def _arrived(self, name: str, gained: int) -> None:
        for sent in (self._older, self._newer):
            taken = min(sent.get(name, 0), max(0, gained))
            if taken:
                sent[name] -= taken
                gained -= taken

    def _turn(self, now_ms: int) -> None:
        gone_ms = now_ms - self._turned_ms
        if gone_ms < FORGET_MS:
            return
        self._older = self._newer if gone_ms < 2 * FORGET_MS else {}
        self._newer = {}
        self._turned_ms = now_ms
