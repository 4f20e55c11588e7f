"""Elections as one primary sees them, made from the statuses that it has heard."""

from __future__ import annotations

from msgspec.structs import replace

from openclust.cluster.election.election import step
from openclust.cluster.election.events import StatusHeard, StoreRead, Tick
from openclust.cluster.election.view import Election, ElectionRole, Terms, begin
from openclust.cluster.protocol.status import Phase, Position, Reign, Seniority, Status

NOWHERE = Position()
TERMS = Terms(primaries=("a", "b", "c"), heartbeat_ms=100, start_grace_ms=1_000)


def said(
    name: str,
    number: int = 1,
    *,
    stamp_ms: int = 50,
    phase: Phase = "active",
    stands_in: int = 0,
    vote: Reign | None = None,
    reign: Reign | None = None,
    heard: int = 0,
    position: Position = NOWHERE,
    held_ms: int = 0,
) -> Status:
    """What a peer of `a` tells of itself."""
    return Status(
        number=number,
        seniority=Seniority(stamp_ms, name),
        phase=phase,
        position=position,
        stands_in=stands_in,
        vote=vote,
        reign=reign,
        heard={"a": heard} if heard else {},
        held_ms=held_ms,
    )


def ready(now_ms: int = 0, terms: Terms = TERMS) -> Election:
    return step(begin(terms, "a", 10, 0), StoreRead(now_ms))[0]


def hear(election: Election, now_ms: int, *statuses: Status) -> Election:
    for status in statuses:
        election, _ = step(election, StatusHeard(now_ms, status))
    return election


def tick(election: Election, now_ms: int) -> Election:
    return step(election, Tick(now_ms))[0]


def root(now_ms: int = 1_000) -> Election:
    """`a` is root in epoch 1, and b and c heard its last status when it was sent."""
    election = tick(ready(), now_ms)
    mine = Reign(1, "a")
    for name in ("b", "c"):
        election = hear(election, now_ms, said(name, reign=mine, vote=mine, heard=election.number))
    # The way there is what the scenarios show.
    return replace(election, role=ElectionRole.ROOT, reign=mine, vote=mine, stands_in=0)
