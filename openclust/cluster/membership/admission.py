"""Which brokers are admitted as peers, and the connection of each."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import TYPE_CHECKING

import msgspec

from openclust.cluster.protocol.hello import Hello, Introduction, VersionTold, difference, is_proven
from openclust.cluster.protocol.peer_user import peer_name
from openclust.wire.errors import ACCESS_REFUSED, CONNECTION_FORCED, NOT_ALLOWED, SYNTAX_ERROR, ConnectionError
from openclust.wire.frames import HEARTBEAT

if TYPE_CHECKING:
    from openclust.broker.amqp.connection import Connection

SILENT_MAX_MS = 3_000
"""A broker that is silent for so long leaves the roster; if it is a secondary, its name is free again."""

SILENT_BEATS_MAX = 3
"""A primary sends something every heartbeat. After so many silent ones it is offline, and its name is free again."""


class Admission:
    """Without a secret only peers on the loopback are admitted, or those with a certificate of the cluster's own.

    `primaries` gives the names of the defined ones, on a primary.
    """

    def __init__(self, secret: str, own: Callable[[], Hello], primaries: Callable[[], Container[str]]) -> None:
        self._secret = secret
        self._own = own
        self._primaries = primaries
        self.connections: dict[str, Connection] = {}
        self.hellos: dict[str, Hello] = {}
        # How many heartbeats of this broker each peer has been silent, without time in which this broker stood still.
        self._silent_beats: dict[str, int] = {}

    def check(self, connection: Connection, response: bytes) -> Hello:
        """The hello of a peer that may be admitted; ConnectionError says why it may not."""
        try:
            version = msgspec.json.decode(response, type=VersionTold).hello
            own = self._own()
            if version.protocol != own.protocol:
                # Before the proof is checked: another protocol would prove other fields of the hello.
                text = f"protocol differs: {own.name} has {own.protocol}, {version.name} has {version.protocol}"
                raise ConnectionError(NOT_ALLOWED, f"{text}; run one version of openclust")
            introduction = msgspec.json.decode(response, type=Introduction)
        except msgspec.DecodeError as error:
            raise ConnectionError(SYNTAX_ERROR, "a peer introduced itself in another way") from error
        self._demand_proof(connection, introduction)
        hello = introduction.hello
        problem = difference(self._own(), hello) or self._misplaced(hello) or self._taken(hello)
        if problem is not None:
            raise ConnectionError(NOT_ALLOWED, problem)
        return hello

    def admit(self, connection: Connection, hello: Hello) -> None:
        """From now on this is the peer's connection."""
        older = self.connections.get(hello.name)
        self.connections[hello.name] = connection
        self.hellos[hello.name] = hello
        self._silent_beats[hello.name] = 0
        if older is not None:
            # Bytes of the old link that were not read yet are older than those of the new link.
            older.close(CONNECTION_FORCED, "CONNECTION_FORCED - a newer link of the same broker takes its place")

    def former(self, hello: Hello) -> Connection | None:
        """The connection of an earlier life of this broker, whose end was not noticed; else None."""
        known = self.hellos.get(hello.name)
        return self.connections[hello.name] if known is not None and known.life != hello.life else None

    def heard(self, name: str) -> None:
        """A peer has said something."""
        self._silent_beats[name] = 0

    def beat(self) -> None:
        """A heartbeat of this broker has passed."""
        for name in self._silent_beats:
            self._silent_beats[name] += 1

    def _taken(self, hello: Hello) -> str | None:
        """Why the name is taken: another life of the broker is heard. After a crash that falls silent in time."""
        known = self.hellos.get(hello.name)
        if known is None or known.life == hello.life:
            return None
        beats_max = SILENT_BEATS_MAX
        if known.role == "secondary":
            beats_max = max(beats_max, SILENT_MAX_MS // self._own().heartbeat_ms)
        if self._silent_beats[hello.name] > beats_max:
            return None
        older = self.connections[hello.name]
        # If the process of the other life is gone, its machine answers this with a reset, which ends the connection.
        older.send(HEARTBEAT)
        host = older.peer.host
        return taken(hello.name, f"{host}, its peers at {known.peer}" if known.peer else host)

    def _misplaced(self, hello: Hello) -> str | None:
        """Why the name does not fit: primaries have the names of the list, and secondaries have others."""
        if self._own().role == "secondary" or (hello.name in self._primaries()) is (hello.role == "primary"):
            return None
        if hello.role == "primary":
            return f"{hello.name!r} is no primary of this cluster"
        return f"{hello.name!r} is a primary's name: a secondary needs another"

    def _demand_proof(self, connection: Connection, introduction: Introduction) -> None:
        if connection.peer.certificate_name:
            # TLS has checked that the cluster's authority signed it.
            return
        if self._secret:
            if not is_proven(introduction, connection.nonce, self._secret):
                raise ConnectionError(ACCESS_REFUSED, "the peer does not hold this cluster's secret")
        elif not connection.peer.is_loopback:
            raise ConnectionError(ACCESS_REFUSED, "without a cluster secret, peers are admitted from the loopback only")

    def lost(self, connection: Connection) -> Hello | None:
        """A connection has ended: the hello of its peer, if the peer has no newer connection; else None."""
        name = peer_name(connection)
        if self.connections.get(name) is not connection:
            return None
        del self.connections[name], self._silent_beats[name]
        return self.hellos.pop(name)


def taken(name: str, place: str) -> str:
    """The error text for the second of two brokers with one name."""
    return f"the name {name!r} is taken by a broker at {place}: give one of the two another name, or stop it"
