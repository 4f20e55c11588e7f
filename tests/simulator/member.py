"""What runs in a broker of bare elections. Events in, effects out."""

from __future__ import annotations

from openclust.cluster.election.election import step
from openclust.cluster.election.events import ElectionEffect, Event
from openclust.cluster.election.lease import lease_end_ms, serves
from openclust.cluster.election.view import ElectionRole, Terms, begin
from openclust.cluster.protocol.status import Reign


class BareElection:
    """The election alone."""

    __slots__ = ("_election",)

    def __init__(self, terms: Terms, name: str, stamp_ms: int, now_ms: int, vote: Reign | None) -> None:
        self._election = begin(terms, name, stamp_ms, now_ms, vote)

    def step(self, event: Event) -> list[ElectionEffect]:
        """Take the event; do the effects, in order."""
        self._election, effects = step(self._election, event)
        return effects

    def serves(self, now_ms: int) -> bool:
        return serves(self._election, now_ms)

    def wakes_ms(self) -> int | None:
        """Step it with a Tick after this moment of its own clock, unless it then says a later one."""
        return lease_end_ms(self._election) if self._election.role is ElectionRole.ROOT else None

    def reign(self) -> Reign | None:
        return self._election.reign

    def describe(self) -> str:
        it = self._election
        return (
            f"{it.name} {it.role.value}, senior since {it.seniority.stamp_ms}, stands in {it.stands_in}, "
            f"vote {it.vote}, reign {it.reign}, promised {it.promised}"
        )
