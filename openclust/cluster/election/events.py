"""The events that an election is told of, and the effects that it asks for."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from openclust.cluster.protocol.status import Position, Reign, Status


class StoreRead(msgspec.Struct, frozen=True):
    """The store is read."""

    now_ms: int


class Tick(msgspec.Struct, frozen=True):
    """Time has passed; there is about one tick a heartbeat."""

    now_ms: int


class StatusHeard(msgspec.Struct, frozen=True):
    now_ms: int
    status: Status


class PeerLost(msgspec.Struct, frozen=True):
    """The peer's link to this broker has ended: the peer is offline until it is heard again."""

    now_ms: int
    name: str


class CaughtUp(msgspec.Struct, frozen=True):
    """The log holds all that the voters of this epoch held."""

    now_ms: int
    epoch: int


class Appended(msgspec.Struct, frozen=True):
    """The log here has grown, or was cut: it ends at `position` now."""

    now_ms: int
    position: Position


class StepDown(msgspec.Struct, frozen=True):
    """An operator says so, or the broker is sick: its loop or its disk stalls."""

    now_ms: int
    reason: str


class DiskIs(msgspec.Struct, frozen=True):
    """The disk of this broker is ill, or well again: then `illness` is empty."""

    now_ms: int
    illness: str


class Force(msgspec.Struct, frozen=True):
    """An operator makes this primary root. Entries that only missing primaries hold are given up."""

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
    """Fetch the entries that the voters hold beyond the log here, then tell the election `CaughtUp`."""

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
    """There is no root to follow any more. A log line is the root's name, then `how`. `is_told`: the root said so."""

    last: Reign
    how: str
    is_told: bool = False


class ClocksDiffer(msgspec.Struct, frozen=True):
    """Warn that by its wall clock this primary would be senior, by `by_ms`, to a primary that was there before it.

    Either of the two clocks may be wrong, or that of a third primary, if the other has become junior to that one.
    """

    name: str
    by_ms: int


ElectionEffect: TypeAlias = ClocksDiffer | PersistVote | Tell | TellPeer | TakeOver | Serve | Resign | Follow | NoRoot
