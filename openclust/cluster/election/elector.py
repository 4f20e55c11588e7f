"""Drives the election of a primary: events go in, and what the election wants done is done before the next event."""

from __future__ import annotations

from typing import Protocol

from openclust.cluster.election.election import step
from openclust.cluster.election.events import ElectionEffect, Event
from openclust.cluster.election.lease import is_pledged
from openclust.cluster.election.view import Election, is_online


class ElectionHost(Protocol):
    """Whoever does what an election wants done."""

    def perform(self, effect: ElectionEffect) -> None:
        """Do one thing; events may be told meanwhile."""

    def performed(self) -> None:
        """All is done that the last events have brought about."""


class Elector:
    """A secondary has one too, without an election: it elects nobody, and must not `tell` it anything."""

    def __init__(self, election: Election | None, host: ElectionHost) -> None:
        self.is_primary = election is not None
        self._election = election
        self._host = host
        self._effects: list[ElectionEffect] = []
        self._is_performing = False

    @property
    def election(self) -> Election:
        assert self._election is not None, "a secondary has no election"
        return self._election

    @property
    def is_forced(self) -> bool:
        """Whether an operator has made this broker root without the others."""
        return self._election is not None and self._election.is_forced

    @property
    def is_pledged(self) -> bool:
        """Whether this broker's vote may still make another root than the one that it follows."""
        return self._election is not None and is_pledged(self._election)

    def hears(self, name: str) -> bool:
        """Whether another primary is online; always False on a secondary."""
        return self._election is not None and is_online(self._election, name)

    def tell(self, event: Event) -> None:
        """Something has happened; what the election wants done is done before this returns.

        But for events that come up while it is done: these wait for their turn.
        """
        self._election, effects = step(self.election, event)
        self._effects += effects
        if self._is_performing:
            return
        self._is_performing = True
        try:
            while self._effects:
                self._host.perform(self._effects.pop(0))
            self._host.performed()
        finally:
            self._is_performing = False
