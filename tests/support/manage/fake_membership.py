"""A broker's membership of a cluster that a test makes up; what it does not say, the real one does."""

from __future__ import annotations

from typing import Any

from openclust.cluster.placing.placing import Placing
from openclust.cluster.protocol.redirect import Redirect
from openclust.cluster.protocol.roster import BrokerInfo, Roster
from openclust.shell.server import Server
from tests.support.manage.fake_member import FakeMember
from tests.support.manage.running_api import RunningApi


class FakeMembership:
    """Broker `one`, primary of three, as it sees the others."""

    def __init__(self, real: Any, roster: Roster, there: tuple[str, ...], clients: int, settings: Redirect) -> None:
        self._real = real
        self.roster = roster
        self.primaries = ("one", "p2", "p3")
        self.is_draining = False
        self.placing = Placing("one", "test", settings)
        self._there = there
        self._clients = clients

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def is_there(self, name: str) -> bool:
        return name in self._there

    def client_count(self) -> int:
        return self._clients


def put_membership(
    api: RunningApi,
    member: FakeMember,
    *,
    root: str = "p2",
    there: tuple[str, ...] = ("p2", "p3"),
    clients: int = 24,
    **settings: Any,
) -> FakeMembership:
    """Have the broker see three primaries with 24 clients at `one`, and few at p3."""
    brokers = (
        BrokerInfo(name="one", client="one.example:5672", tls="one.example:5671", connections=clients),
        BrokerInfo(name="p2", client="p2.example:5672", connections=24),
        BrokerInfo(name="p3", client="p3.example:5672", connections=3),
    )

    def put(server: Server) -> FakeMembership:
        real = server.member.membership
        fake = FakeMembership(real, Roster(root=root, brokers=brokers), there, clients, Redirect(**settings))
        member.membership = fake  # type: ignore[attr-defined]
        return fake

    return api.on_loop(put)
