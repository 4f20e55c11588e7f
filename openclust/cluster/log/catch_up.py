"""A root to be fetches what its voters hold beyond its own log: any of it may have been confirmed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from openclust.cluster.election.events import CaughtUp, StepDown
from openclust.cluster.log.log import Log
from openclust.cluster.protocol.messages import Fetch
from openclust.cluster.protocol.status import Position

if TYPE_CHECKING:
    from openclust.cluster.membership.membership import Membership

TAKE_OVER_BEATS = 50
"""For so many heartbeats it waits for the next word of the voter that it asked."""


class _Fetching(msgspec.Struct):
    epoch: int
    voter: str
    goal: Position
    since_ms: int


class TakeOver:
    """Tell it when the voter has `spoken`, and when the log has `advanced`."""

    def __init__(self, membership: Membership, log: Log) -> None:
        self._cluster = membership
        self._log = log
        self._fetching: _Fetching | None = None

    @property
    def is_under_way(self) -> bool:
        return self._fetching is not None

    def begin(self, epoch: int, voters: dict[str, Position]) -> None:
        """Ask the voter that holds most, if that is more than is here."""
        best = max(sorted(voters), key=lambda name: voters[name], default="")
        if not best or voters[best] <= self._log.last:
            self._cluster.tell(CaughtUp(self._cluster.broker.now_ms, epoch))
            return
        self._fetching = _Fetching(epoch, best, voters[best], self._cluster.broker.now_ms)
        if not self._ask(self._fetching):
            self.give_up(f"there is no link to {best}, whose log it needs")

    def _ask(self, fetching: _Fetching) -> bool:
        return self._cluster.send(
            fetching.voter, Fetch(epoch=fetching.epoch, after=self._log.last, ends=self._log.ends())
        )

    def ask_for_all(self) -> None:
        """What has come does not go on from here: only a snapshot helps."""
        if self._fetching is not None:
            fetch = Fetch(epoch=self._fetching.epoch, after=Position(), ends=self._log.ends())
            self._cluster.send(self._fetching.voter, fetch)

    def ask_again(self, name: str) -> None:
        """That broker's link to us is a new one: if it had answered, that is lost with the old one."""
        if self._fetching is not None and self._fetching.voter == name:
            self._ask(self._fetching)

    def expects(self, peer: str, epoch: int) -> bool:
        fetching = self._fetching
        return fetching is not None and peer == fetching.voter and epoch == fetching.epoch

    def spoken(self) -> None:
        """Something has come of what was asked for."""
        if self._fetching is not None:
            self._fetching.since_ms = self._cluster.broker.now_ms

    def advanced(self) -> None:
        """The log has grown."""
        fetching = self._fetching
        if fetching is not None and self._log.last >= fetching.goal:
            self._fetching = None
            self._cluster.tell(CaughtUp(self._cluster.broker.now_ms, fetching.epoch))

    def peer_gone(self, name: str) -> None:
        if self._fetching is not None and self._fetching.voter == name:
            self.give_up(f"{name}, whose log it needs, is gone")

    def tick(self) -> None:
        fetching = self._fetching
        if fetching is None:
            return
        if self._cluster.broker.now_ms - fetching.since_ms > TAKE_OVER_BEATS * self._cluster.heartbeat_ms:
            self.give_up(f"{fetching.voter} did not send the log it holds")

    def give_up(self, reason: str) -> None:
        self._fetching = None
        self._cluster.tell(StepDown(self._cluster.broker.now_ms, reason))

    def forget(self) -> None:
        """It is decided who is root."""
        self._fetching = None
