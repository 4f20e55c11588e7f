"""Which brokers are online: each tells the primaries of itself, and the root tells all brokers the roster."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from openclust.cluster.membership.admission import SILENT_MAX_MS, Admission
from openclust.cluster.protocol.messages import Presence, RosterTold
from openclust.cluster.protocol.roster import BrokerInfo, Partition, Roster

if TYPE_CHECKING:
    from openclust.broker.server.broker import Broker
    from openclust.cluster.election.elector import Elector
    from openclust.cluster.placing.placing import Placing
    from openclust.cluster.protocol.leadership import Leadership
    from openclust.cluster.protocol.links import Links

TELL_EVERY_MS = 1_000


class _HeardPresence(msgspec.Struct):
    info: BrokerInfo
    at_ms: int


class Presences:
    """`own` says what this broker is; the shell fills in addresses and weight. Call `tick` every heartbeat.

    `roster` is what the root told last, on the root what it told itself; `roster_told` is called with each that comes.
    """

    def __init__(
        self,
        broker: Broker,
        links: Links,
        leadership: Leadership[object],
        elector: Elector,
        admission: Admission,
        placing: Placing,
        roster_told: Callable[[], None],
    ) -> None:
        self._broker = broker
        self._links = links
        self._leadership = leadership
        self._elector = elector
        self._admission = admission
        self._placing = placing
        self._roster_told = roster_told
        partition: Partition = "primary" if elector.is_primary else "secondary"
        self.own = BrokerInfo(name=links.name, partition=partition, client="")
        self.roster = Roster()
        # Whether this broker is being emptied of its clients.
        self.is_draining = False
        self._heard: dict[str, _HeardPresence] = {}
        self._told_ms = -TELL_EVERY_MS
        self._told_draining = False
        self._roster_ms = -TELL_EVERY_MS

    def current(self) -> BrokerInfo:
        """This broker, as it is now."""
        return msgspec.structs.replace(
            self.own,
            connections=self.client_count(),
            newcomers=self._placing.newcomers,
            redirected=self._placing.redirected,
            queues=self._broker.queue_count,
            is_draining=self.is_draining,
            limited=self._broker.limited_use(),
        )

    def client_count(self) -> int:
        """How many clients are connected here: open connections that are no peer's link, and not internal."""
        others = len(self._admission.connections) + self._broker.internal_count
        return max(0, self._broker.open_count() - others)

    def is_there(self, name: str) -> bool:
        """Whether a peer speaks to this broker."""
        if self._elector.is_primary and name in self._links.primaries:
            return self._elector.hears(name)
        return name in self._admission.connections

    def tick(self) -> None:
        now_ms = self._broker.now_ms
        # That this broker is drained is told at once: another primary may not be drained then.
        if now_ms - self._told_ms >= TELL_EVERY_MS or self._told_draining is not self.is_draining:
            self._told_ms = now_ms
            self._told_draining = self.is_draining
            for name in self._links.primaries:
                self.tell(name)
        if self._leadership.is_root:
            self._tell_roster(now_ms)
        elif not self._leadership.root and self.roster.root:
            self.roster = msgspec.structs.replace(self.roster, root="")

    def tell(self, name: str) -> None:
        self._links.send(name, Presence(info=self.current()))

    def heard(self, peer: str, message: Presence) -> None:
        if message.info.name == peer:
            self._heard[peer] = _HeardPresence(message.info, self._broker.now_ms)

    def info(self, name: str) -> BrokerInfo | None:
        """The newest information about a broker: its own, or what the root told."""
        heard = self._heard.get(name)
        return heard.info if heard is not None else self.roster.find(name)

    def gone(self, name: str) -> None:
        self._heard.pop(name, None)

    def _tell_roster(self, now_ms: int) -> None:
        """Tell the roster to all brokers: at once when a broker came, went or is drained, else once a second."""
        own, links = self._links.name, self._links
        infos = {own: self.current()}
        for name, heard in self._heard.items():
            if now_ms - heard.at_ms < SILENT_MAX_MS and self.is_there(name):
                hello = self._admission.hellos.get(name)
                infos[name] = msgspec.structs.replace(
                    heard.info, age_ms=now_ms - heard.at_ms, life=hello.life if hello is not None else ""
                )
        roster = Roster(root=own, brokers=tuple(infos[name] for name in sorted(infos)))
        before = self.roster
        if _places(before) != _places(roster) or now_ms - self._roster_ms >= TELL_EVERY_MS:
            self._roster_ms = now_ms
            self.roster = roster
            for name in links.outboxes:
                links.send(name, RosterTold(roster=roster))

    def told(self, peer: str, message: RosterTold) -> None:
        if peer == self._leadership.root:
            self.roster = message.roster
            self._roster_told()


def _places(roster: Roster) -> tuple[str, list[tuple[str, str, bool]]]:
    """The part of the roster whose changes are told at once."""
    return roster.root, [(each.name, each.life, each.is_draining) for each in roster.brokers]
