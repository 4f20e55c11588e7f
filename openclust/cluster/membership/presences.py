"""Who is there: every broker tells the primaries of itself, and the root tells everybody of all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from openclust.cluster.protocol.messages import Presence, RosterTold
from openclust.cluster.protocol.roster import BrokerInfo, Partition, Roster

if TYPE_CHECKING:
    from openclust.cluster.membership.membership import Membership

TELL_EVERY_MS = 1_000
SILENT_MAX_MS = 3_000


class _HeardPresence(msgspec.Struct):
    info: BrokerInfo
    at_ms: int


class Presences:
    """`own` says what this broker is; the shell fills in addresses and weight. Call `tick` every heartbeat."""

    def __init__(self, membership: Membership, partition: Partition) -> None:
        self._cluster = membership
        self.own = BrokerInfo(name=membership.name, partition=partition, client="")
        self._heard: dict[str, _HeardPresence] = {}
        self._told_ms = -TELL_EVERY_MS
        self._told_draining = False
        self._roster_ms = -TELL_EVERY_MS

    def current(self) -> BrokerInfo:
        """This broker, as it is now."""
        cluster = self._cluster
        return msgspec.structs.replace(
            self.own,
            connections=cluster.client_count(),
            newcomers=cluster.placing.newcomers,
            redirected=cluster.placing.redirected,
            queues=cluster.broker.queue_count,
            is_draining=cluster.is_draining,
        )

    def tick(self) -> None:
        now_ms = self._cluster.broker.now_ms
        # Whether it is drained is told at once: nobody else may be, then.
        if now_ms - self._told_ms >= TELL_EVERY_MS or self._told_draining is not self._cluster.is_draining:
            self._told_ms = now_ms
            self._told_draining = self._cluster.is_draining
            for name in self._cluster.links.primaries:
                self.tell(name)
        if self._cluster.leadership.is_root:
            self._tell_roster(now_ms)
        elif not self._cluster.leadership.root and self._cluster.roster.root:
            self._cluster.roster = msgspec.structs.replace(self._cluster.roster, root="")

    def tell(self, name: str) -> None:
        self._cluster.links.send(name, Presence(info=self.current()))

    def heard(self, peer: str, message: Presence) -> None:
        if message.info.name == peer:
            self._heard[peer] = _HeardPresence(message.info, self._cluster.broker.now_ms)

    def info(self, name: str) -> BrokerInfo | None:
        """What a broker last said of itself, here or by way of the root."""
        heard = self._heard.get(name)
        return heard.info if heard is not None else self._cluster.roster.find(name)

    def gone(self, name: str) -> None:
        self._heard.pop(name, None)

    def _tell_roster(self, now_ms: int) -> None:
        """At once where somebody came or went or is drained, else once a second."""
        cluster = self._cluster
        infos = {cluster.name: self.current()}
        for name, heard in self._heard.items():
            if now_ms - heard.at_ms < SILENT_MAX_MS and cluster.is_there(name):
                hello = cluster.admission.hellos.get(name)
                infos[name] = msgspec.structs.replace(
                    heard.info, age_ms=now_ms - heard.at_ms, life=hello.life if hello is not None else ""
                )
        roster = Roster(root=cluster.name, brokers=tuple(infos[name] for name in sorted(infos)))
        before = cluster.roster
        if _places(before) != _places(roster) or now_ms - self._roster_ms >= TELL_EVERY_MS:
            self._roster_ms = now_ms
            cluster.roster = roster
            for name in cluster.links.outboxes:
                cluster.links.send(name, RosterTold(roster=roster))

    def told(self, peer: str, message: RosterTold) -> None:
        if peer == self._cluster.leadership.root:
            self._cluster.roster = message.roster
            self._cluster.refuse_twins()


def _places(roster: Roster) -> tuple[str, list[tuple[str, str, bool]]]:
    """What everybody must know at once."""
    return roster.root, [(each.name, each.life, each.is_draining) for each in roster.brokers]
