"""A broker as a member of its cluster: it admits peers, hears what they say, and takes part in the election.

Performs nothing itself: what the election wants done gathers in `effects`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from openclust.broker.access import Permission, User
from openclust.broker.cluster_port import Done, Standalone
from openclust.cluster.election import step
from openclust.cluster.events import Effect, Event, PeerLost, StatusHeard
from openclust.cluster.hello import Hello, Introduction, difference, is_proven
from openclust.cluster.placing import Placing
from openclust.cluster.redirect import Redirect
from openclust.cluster.roster import Roster
from openclust.cluster.status import Status
from openclust.cluster.view import Election
from openclust.wire.errors import (
    ACCESS_REFUSED,
    CONNECTION_FORCED,
    NOT_ALLOWED,
    SYNTAX_ERROR,
    ChannelError,
    ConnectionError,
)

if TYPE_CHECKING:
    from openclust.broker.broker import Broker
    from openclust.broker.changes import Change
    from openclust.broker.connection import Connection
    from openclust.broker.placement import Placement

PEER_PREFIX = "peer:"
"""Logins of brokers are named so: no user of the users file can be mistaken for one."""

_EVERYTHING = {"/": Permission(configure="^$", write="^amq\\.cluster$", read="^$")}


class Membership:
    """The broker's `ClusterPort`. Without a secret only peers on the loopback are admitted.

    Definitions are still each broker's own: they go to a `Standalone`.
    """

    def __init__(
        self, broker: Broker, hello: Hello, secret: str, election: Election, redirect: Redirect | None = None
    ) -> None:
        self.hello = hello
        self.election = election
        self.effects: list[Effect] = []
        self.roster = Roster()
        self.is_draining = False
        self.placing = Placing(hello.name, hello.cluster_key, redirect or Redirect())
        self._broker = broker
        self._secret = secret
        self._alone = Standalone(broker)
        self._connections: dict[str, Connection] = {}

    # -- the broker's questions

    def define(self, change: Change, done: Done) -> None:
        self._alone.define(change, done)

    def virtual_host(self, connection: Connection, name: str) -> str:
        return self.placing.virtual_host(connection, name)

    def place(self, connection: Connection) -> Placement | None:
        self.placing.heard(self.roster, self._broker.now_ms)
        return self.placing.place(connection, self.client_count(), is_draining=self.is_draining)

    def known_hosts(self, connection: Connection) -> str:
        self.placing.heard(self.roster, self._broker.now_ms)
        return self.placing.known_hosts(connection.peer.is_tls)

    def client_count(self) -> int:
        """How many connections are open here that are not a peer's link."""
        return max(0, self._broker.open_count() - len(self._connections))

    def admit(self, connection: Connection, response: bytes) -> User:
        """The user that a peer is from now on; ConnectionError names what is wrong with it."""
        try:
            introduction = msgspec.json.decode(response, type=Introduction)
        except msgspec.DecodeError as error:
            raise ConnectionError(SYNTAX_ERROR, "a peer introduced itself in another way") from error
        if self._secret:
            if not is_proven(introduction, connection.nonce, self._secret):
                raise ConnectionError(ACCESS_REFUSED, "the peer does not hold this cluster's secret")
        elif not connection.peer.is_loopback:
            raise ConnectionError(ACCESS_REFUSED, "without a cluster secret, peers are admitted from the loopback only")
        problem = difference(self.hello, introduction.hello)
        if problem is not None:
            raise ConnectionError(NOT_ALLOWED, problem)
        name = introduction.hello.name
        if name not in self.election.terms.primaries:
            raise ConnectionError(NOT_ALLOWED, f"{name!r} is no primary of this cluster")
        older = self._connections.get(name)
        self._connections[name] = connection
        if older is not None:
            # What is still to be read of it is older than what the new link brings.
            older.close(CONNECTION_FORCED, "CONNECTION_FORCED - a newer link of the same broker takes its place")
        return User(name=PEER_PREFIX + name, type="cluster", permissions=_EVERYTHING)

    def control(self, user: User, body: bytes) -> None:
        """A peer says something on `amq.cluster`."""
        try:
            status = msgspec.msgpack.decode(body, type=Status)
        except msgspec.DecodeError as error:
            raise ChannelError(ACCESS_REFUSED, f"not a control message: {error}") from error
        if PEER_PREFIX + status.name != user.name:
            raise ChannelError(ACCESS_REFUSED, f"{user.name} speaks for {status.name}")
        self.tell(StatusHeard(self._broker.now_ms, status))

    # -- the shell's news

    def tell(self, event: Event) -> None:
        self.election, effects = step(self.election, event)
        self.effects += effects

    def connection_lost(self, connection: Connection) -> None:
        """A connection has ended; perhaps it was a peer's link to us."""
        for name, known in list(self._connections.items()):
            if known is connection:
                del self._connections[name]
                self.tell(PeerLost(self._broker.now_ms, name))
