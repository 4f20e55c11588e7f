"""A primary that was elected fetches the entries that its voters hold beyond its own log: some may be confirmed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from openclust.cluster.election.events import CaughtUp, StepDown
from openclust.cluster.protocol.messages import Fetch
from openclust.cluster.protocol.status import Position

if TYPE_CHECKING:
    from openclust.broker.server.broker import Broker
    from openclust.cluster.election.elector import Elector
    from openclust.cluster.log.replica import Replica
    from openclust.cluster.protocol.links import Links

TAKE_OVER_BEATS = 50
"""It waits so many heartbeats for the next message of the voter that it asked."""


class _Fetching(msgspec.Struct):
    epoch: int
    voter: str
    goal: Position
    since_ms: int


class CatchUp:
    """The `Feeder` of a broker that is to be root in `epoch`. Call `begin` once, `tick` every heartbeat."""

    takes_beyond_room = True

    def __init__(
        self,
        epoch: int,
        voters: dict[str, Position],
        broker: Broker,
        links: Links,
        elector: Elector,
        replica: Replica,
    ) -> None:
        self._epoch = epoch
        self._voters = voters
        self._broker = broker
        self._links = links
        self._elector = elector
        self._replica = replica
        self._log = replica.log
        self._fetching: _Fetching | None = None
        self._has_begun = False

    def begin(self) -> None:
        """Ask the voter that holds most, if it holds more than this broker; not while a snapshot is installed."""
        if self._replica.is_installing:
            return
        self._has_begun = True
        self._replica.forget_snapshot()
        epoch, voters = self._epoch, self._voters
        best = max(sorted(voters), key=lambda name: voters[name], default="")
        if not best or voters[best] <= self._log.last:
            self._elector.tell(CaughtUp(self._broker.now_ms, epoch))
            return
        self._fetching = _Fetching(epoch, best, voters[best], self._broker.now_ms)
        if not self._ask(self._fetching):
            self.give_up(f"there is no link to {best}, whose log it needs")

    def _ask(self, fetching: _Fetching) -> bool:
        return self._links.send(
            fetching.voter, Fetch(epoch=fetching.epoch, after=self._log.last, ends=self._log.ends())
        )

    def ask_for_all(self) -> None:
        """Ask the voter for a snapshot: its entries do not follow the end of this log."""
        if self._fetching is not None:
            fetch = Fetch(epoch=self._fetching.epoch, after=Position(), ends=self._log.ends())
            self._links.send(self._fetching.voter, fetch)

    def ask_again(self, name: str) -> None:
        """Ask the voter again, where its link to this broker is a new one: an answer on the old link is lost."""
        if self._fetching is not None and not self._replica.is_installing and self._fetching.voter == name:
            self._ask(self._fetching)

    def is_from(self, peer: str, epoch: int) -> bool:
        fetching = self._fetching
        return fetching is not None and peer == fetching.voter and epoch == fetching.epoch

    def spoken(self) -> None:
        """The voter has sent something that it was asked for."""
        if self._fetching is not None:
            self._fetching.since_ms = self._broker.now_ms

    def missed(self) -> None:
        """Nothing is asked again: a snapshot is on its way, or the taking over is given up in the end."""

    def differs(self) -> None:
        """Nothing is done: as root, this broker decides what the definitions are."""

    def on_disk(self) -> None:
        """Nobody needs to be told."""

    def installed(self, *, is_lost: bool) -> None:
        if not self._has_begun:
            self.begin()

    def advanced(self, *, is_urgent: bool) -> None:
        fetching = self._fetching
        if fetching is not None and self._log.last >= fetching.goal:
            self._fetching = None
            self._elector.tell(CaughtUp(self._broker.now_ms, fetching.epoch))

    def peer_gone(self, name: str) -> None:
        if self._fetching is not None and not self._replica.is_installing and self._fetching.voter == name:
            self.give_up(f"{name}, whose log it needs, is gone")

    def tick(self) -> None:
        fetching = self._fetching
        if fetching is None or self._replica.is_installing:
            return
        if self._broker.now_ms - fetching.since_ms > TAKE_OVER_BEATS * self._links.heartbeat_ms:
            self.give_up(f"{fetching.voter} did not send the log it holds")

    def give_up(self, reason: str) -> None:
        self._fetching = None
        self._elector.tell(StepDown(self._broker.now_ms, reason))
