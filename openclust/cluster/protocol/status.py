"""The status that a primary sends to its peers, every heartbeat and whenever it changes."""

from __future__ import annotations

from typing import Literal

import msgspec

Phase = Literal["starting", "active"]


class Seniority(msgspec.Struct, frozen=True, order=True):
    """When a broker took its place, then its name: the smallest is the most senior."""

    stamp_ms: int
    name: str


class Reign(msgspec.Struct, frozen=True, order=True):
    """The reign of one root: the epoch, and the name of the root."""

    epoch: int
    root: str


class Position(msgspec.Struct, frozen=True, order=True):
    """A place in the log."""

    epoch: int = 0
    sequence: int = 0


class Ended(msgspec.Struct, frozen=True):
    """Why a root gave up its place, in its own words."""

    epoch: int
    reason: str


class Status(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """`number` ascends with every status of one broker; `heard` are the numbers it heard last, by name.

    `stands_in` is the epoch for which the sender wants to be elected, 0 if it does not. `vote` is its last vote,
    `reign` that of the root it follows, or its own. `illness` is the trouble with its disk, empty where that is well.
    `ended` is the end of the sender's own last reign, until it follows another root.
    `held_ms` is for how long it has had its place in the order of seniority, by a monotonic clock; the stamp of its
    seniority is wall clock time.
    """

    number: int
    seniority: Seniority
    phase: Phase
    position: Position = Position()
    stands_in: int = 0
    vote: Reign | None = None
    reign: Reign | None = None
    heard: dict[str, int] = {}
    illness: str = ""
    ended: Ended | None = None
    held_ms: int = 0

    @property
    def name(self) -> str:
        return self.seniority.name

    @property
    def epoch(self) -> int:
        """The highest epoch that the sender has voted, stood or followed in, or holds entries of."""
        vote, reign = self.vote.epoch if self.vote else 0, self.reign.epoch if self.reign else 0
        return max(self.stands_in, vote, reign, self.position.epoch)
