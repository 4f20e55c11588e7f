"""Which broker a client should use: this one, the one with the fewest clients for its weight, or the root."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from openclust.broker.amqp.placement import PROXIED, REDIRECTED, Placement
from openclust.cluster.placing.load_estimate import LoadEstimate
from openclust.cluster.protocol.redirect import Redirect
from openclust.cluster.protocol.roster import BrokerInfo, Roster
from openclust.wire.errors import INVALID_PATH, ConnectionError

if TYPE_CHECKING:
    from openclust.broker.amqp.connection import Connection

SHORT_STRING_BYTES_MAX = 255
LENIENCE = 1 / 3
"""This part of the clients that others are only assumed to have counts in this broker's favour.

Without it, brokers that each have exactly their share would go on exchanging newcomers for ever once they began.
"""
NOBODY: Mapping[str, int] = {}


class Newcomer(msgspec.Struct, frozen=True, kw_only=True):
    """A client that opens a connection. It `stays` here if it asks to, or if it is no application."""

    stays: bool = False
    is_redirected: bool = False
    wants_root: bool = False
    is_tls: bool = False


class Placing:
    """Decides for one broker where clients go. Tell it the roster by `heard` before every question.

    `own` is how many clients are here now. Without a root the roster is not kept up, so no client is sent to a broker
    that may be gone. `newcomers` counts the clients that came by themselves, `redirected` those that another broker
    has sent here: the presence of this broker tells both. `sent_away` counts those that were told to go elsewhere.
    """

    def __init__(self, name: str, cluster_key: str, settings: Redirect) -> None:
        self.settings = settings
        self.newcomers = 0
        self.redirected = 0
        self.sent_away = 0
        self._name = name
        self._cluster_key = cluster_key
        self._roster = Roster()
        self._underway = LoadEstimate()
        self._known_hosts: dict[bool, str] = {}

    def heard(self, roster: Roster, now_ms: int) -> None:
        self._underway.heard(roster, now_ms)
        if roster is not self._roster:
            self._roster = roster
            self._known_hosts.clear()

    # -- who belongs here

    def virtual_host(self, connection: Connection, name: str) -> str:
        """The virtual host that a client means. The cluster key stands for `/`, unless a virtual host has that name.

        Raises 402 where the client names another cluster, or names none though `require_key` is on.
        """
        if connection.user.type == "cluster":
            return name
        key = self._cluster_key
        given = connection.client_properties.get("cluster_key")
        if given is not None and given != key:
            raise ConnectionError(INVALID_PATH, f"cluster key {given!r} is wrong: this is a broker of another cluster")
        if self.settings.require_key and given is None and name != key:
            text = "this cluster wants its key, as virtual host or as client property cluster_key"
            raise ConnectionError(INVALID_PATH, f"{text}; '{name}' is not its key")
        return "/" if name == key and name not in connection.broker.vhosts else name

    def place(self, connection: Connection, own: int, *, is_draining: bool) -> Placement | None:
        """Which broker a client that opens should use; None is this one."""
        client = newcomer(connection)
        self.came(client)
        target = self.choose(client, own, is_draining=is_draining)
        if target is None:
            return None
        self.sent(target)
        is_tls = connection.peer.is_tls
        return Placement(
            name=target.name,
            address=address(target, is_tls),
            known_hosts=self._hosts([target, *(each for each in self._by_load() if each is not target)], is_tls),
            # A client that a draining broker accepts would have to go again at once.
            fallback="close" if is_draining else self.settings.fallback,
            reason="draining" if is_draining else "placing",
        )

    def choose(
        self, client: Newcomer, own: int, *, is_draining: bool = False, taken: Mapping[str, int] = NOBODY
    ) -> BrokerInfo | None:
        """The broker for a newcomer; None is this one. `taken`: how many more clients to assume at the others."""
        if client.stays or not self._roster.root:
            return None
        if is_draining:
            return self.best(client.is_tls)
        if self.settings.mode == "off":
            return None
        if client.wants_root or self.settings.mode == "active-passive":
            return self._root(client.is_tls)
        if client.is_redirected:
            return None
        best = self._least_loaded(client.is_tls, taken)
        if best is None or own + 1 <= self._share(own + 1, client.is_tls, taken):
            return None
        moved, stayed = self._load(best, taken.get(best.name, 0) + 1), (own + 1) / self.settings.weight
        return best if moved + self.settings.threshold <= stayed else None

    def best(self, is_tls: bool) -> BrokerInfo | None:
        """The broker for a client that cannot stay here; None where there is no other."""
        if not self._roster.root:
            return None
        root = self._root(is_tls) if self.settings.mode == "active-passive" else None
        return root or self._least_loaded(is_tls)

    def plan(self, count: int, own: int, is_tls: bool = False) -> list[BrokerInfo]:
        """The brokers to which so many clients would go, one after another, if they left and came back as newcomers.

        The list ends with the first client that would come back here: moving that one would be for nothing.
        """
        planned: list[BrokerInfo] = []
        taken: dict[str, int] = {}
        for number in range(count):
            target = self.choose(Newcomer(is_tls=is_tls), own - number - 1, taken=taken)
            if target is None:
                break
            planned.append(target)
            taken[target.name] = taken.get(target.name, 0) + 1
        return planned

    def came(self, client: Newcomer, count: int = 1) -> None:
        """Count clients like this one that have come here, wherever they are sent."""
        if client.is_redirected:
            self.redirected += count
        else:
            self.newcomers += count

    def sent(self, target: BrokerInfo) -> None:
        """Count a client that is told to go there."""
        self.sent_away += 1
        self._underway.sent(target.name)

    def known_hosts(self, is_tls: bool) -> str:
        """All brokers that take clients, the least loaded first; empty for a broker that is alone."""
        known = self._known_hosts.get(is_tls)
        if known is None:
            alone = len(self._roster.brokers) < 2
            known = self._known_hosts[is_tls] = "" if alone else self._hosts(self._by_load(), is_tls)
        return known

    # -- the brokers

    def _root(self, is_tls: bool) -> BrokerInfo | None:
        """The root, if it is another broker that takes clients."""
        return next((each for each in self._targets(is_tls) if each.name == self._roster.root), None)

    def _least_loaded(self, is_tls: bool, taken: Mapping[str, int] = NOBODY) -> BrokerInfo | None:
        def place(each: BrokerInfo) -> tuple[float, str]:
            return self._load(each, taken.get(each.name, 0) + 1), each.name

        return min(self._targets(is_tls), key=place, default=None)

    def _share(self, own: int, is_tls: bool, taken: Mapping[str, int]) -> float:
        """This broker's share of all clients: for the sum, it does not matter which broker sends a client to which."""
        weight, weights, total = self.settings.weight, self.settings.weight, float(own)
        for each in self._targets(is_tls):
            clients, expected = self._underway.clients(each.name), self._underway.expected(each.name)
            total += clients + taken.get(each.name, 0) + LENIENCE * expected
            weights += each.weight
        return total * weight / weights

    def _targets(self, is_tls: bool) -> list[BrokerInfo]:
        return [each for each in self._takers() if each.name != self._name and address(each, is_tls)]

    def _by_load(self) -> list[BrokerInfo]:
        return sorted(self._takers(), key=lambda each: (self._load(each), each.name))

    def _takers(self) -> list[BrokerInfo]:
        return [each for each in self._roster.brokers if not each.is_draining]

    def _load(self, broker: BrokerInfo, more: int = 0) -> float:
        """Clients per weight by now, with `more` added."""
        return (self._underway.clients(broker.name) + more) / broker.weight

    @staticmethod
    def _hosts(brokers: list[BrokerInfo], is_tls: bool) -> str:
        """The addresses, as many as a short string holds."""
        text = ""
        for each in brokers:
            longer = ",".join(filter(None, (text, address(each, is_tls))))
            if len(longer.encode()) > SHORT_STRING_BYTES_MAX:
                break
            text = longer
        return text


def newcomer(connection: Connection) -> Newcomer:
    """The `Newcomer` that a client is when it opens."""
    said = connection.client_properties
    user = connection.user
    return Newcomer(
        stays=connection.stays or user.type != "normal" or connection.peer.is_peer or said.get(PROXIED) is True,
        is_redirected=said.get(REDIRECTED) is True or said.get(PROXIED) is True,
        wants_root=said.get("connect_to") == "root",
        is_tls=connection.peer.is_tls,
    )


def address(broker: BrokerInfo, is_tls: bool) -> str:
    """The address of a broker for clients with or without TLS; empty where it has none."""
    return broker.tls if is_tls else broker.client
