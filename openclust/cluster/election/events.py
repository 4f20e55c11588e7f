"""What an election is told, and what it wants done."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from openclust.cluster.protocol.status import Position, Reign, Status


class StoreRead(msgspec.Struct, frozen=True):
    """The store is read."""

    now_ms: int


class Tick(msgspec.Struct, frozen=True):
    """Time has passed; about one a heartbeat."""

    now_ms: int


class StatusHeard(msgspec.Struct, frozen=True):
    now_ms: int
    status: Status


class PeerLost(msgspec.Struct, frozen=True):
    """The peer's link to us has ended: it is offline from now on, until it is heard again."""

    now_ms: int
    name: str


class CaughtUp(msgspec.Struct, frozen=True):
    """The log holds all that the voters of this epoch held."""

    now_ms: int
    epoch: int


class Appended(msgspec.Struct, frozen=True):
    """The log has grown, or was cut."""

    now_ms: int
    position: Position


class StepDown(msgspec.Struct, frozen=True):
    """An operator says so, or the broker is sick: its loop or its disk stalls."""

    now_ms: int
    reason: str


class DiskIs(msgspec.Struct, frozen=True):
    """What ails this broker's disk; empty where it is well."""

    now_ms: int
    illness: str


class Force(msgspec.Struct, frozen=True):
    """An operator makes this primary root, whoever is missing: what only the missing ones hold is given up."""

    now_ms: int


Event: TypeAlias = StoreRead | Tick | StatusHeard | PeerLost | CaughtUp | Appended | StepDown | DiskIs | Force


# -- effects


class PersistVote(msgspec.Struct, frozen=True):
    """Put the vote on disk before anything that follows is done."""

    vote: Reign


class Tell(msgspec.Struct, frozen=True):
    """Send the status to every peer."""

    status: Status


class TellPeer(msgspec.Struct, frozen=True):
    """Send the status to this peer alone."""

    name: str
    status: Status


class TakeOver(msgspec.Struct, frozen=True):
    """Fetch what the voters hold beyond our log, then say CaughtUp."""

    epoch: int
    voters: dict[str, Position]


class Serve(msgspec.Struct, frozen=True):
    """Be root from now on."""

    epoch: int


class Resign(msgspec.Struct, frozen=True):
    """Stop being root, now."""

    epoch: int
    reason: str


class Follow(msgspec.Struct, frozen=True):
    """Be a backup of this root."""

    reign: Reign


class NoRoot(msgspec.Struct, frozen=True):
    """There is no root to follow any more. `how` goes behind its name in a line. `is_told`: it has said so itself."""

    last: Reign
    how: str
    is_told: bool = False


class ClocksDiffer(msgspec.Struct, frozen=True):
    """Tell people that by its clock this primary would be senior to one that was there before, and by how much.

    Either clock may be the wrong one, or that of a third, behind which the other has gone.
    """

    name: str
    by_ms: int


Effect: TypeAlias = ClocksDiffer | PersistVote | Tell | TellPeer | TakeOver | Serve | Resign | Follow | NoRoot
