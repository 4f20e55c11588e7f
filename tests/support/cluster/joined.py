"""A cluster in memory: real brokers and memberships, joined by links that are byte strings, on a clock that we move.

`Joined("p1", "p2", "p3")` are three primaries of which the first named is root. What an application says at
`client(name)` has come to rest everywhere when the call returns; after anything else, call `settle`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from openclust.broker.amqp.client_channel import ClientChannel
from openclust.broker.model.access import User
from openclust.broker.model.limits import Limits
from openclust.broker.model.peer import Peer
from openclust.broker.server.broker import Broker
from openclust.cluster.election.events import StepDown, StoreRead
from openclust.cluster.election.view import Terms, begin
from openclust.cluster.membership.membership import Membership
from openclust.cluster.protocol.bounds import Bounds
from openclust.cluster.protocol.hello import Hello, introduce
from openclust.cluster.protocol.messages import ControlMessage
from openclust.cluster.protocol.status import Reign
from openclust.node import Node
from openclust.wire.handshake import State
from tests.support.client import EVERYTHING, START_MS, Client
from tests.support.cluster.control_messages import pieces
from tests.support.driver import Driver

HEARTBEAT_MS = 100
FRAME_MAX = 131_072
SECRET = "secret"
RESTS_WITHIN = 1_000


class Wire(Client):
    """The receiving end of a peer's link."""

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker, log_in=False)
        self.connection.peer = Peer("127.0.0.1", 1, True, is_peer=True)


class Application(Client):
    """A client of one of the brokers; all of them come to rest after each thing that it says."""

    def __init__(self, joined: Joined, broker: Broker, **options: Any) -> None:
        self.joined = joined
        super().__init__(broker, **options)

    def feed(self, data: bytes) -> None:
        super().feed(data)
        self.joined.settle()

    def lose(self) -> None:
        super().lose()
        self.joined.member_of(self.broker).membership.connection_lost(self.connection)
        self.joined.settle()

    def read_on(self) -> None:
        super().read_on()
        self.joined.settle()

    def read_once(self) -> None:
        super().read_once()
        self.joined.settle()


class Member:
    """One broker of the cluster. `wires` are the links that others have to it, by their names."""

    def __init__(self, name: str, broker: Broker, membership: Membership) -> None:
        self.name = name
        self.broker = broker
        self.membership = membership
        self.driver = Driver(broker, Node(broker, membership))
        self.wires: dict[str, Wire] = {}


class Tap(Sequence[tuple[str, ControlMessage]]):
    """The control messages that a broker has sent since, each with its receiver; those in its outboxes are the last."""

    def __init__(self, joined: Joined, name: str) -> None:
        self._joined = joined
        self._name = name
        self._gone: list[tuple[str, ControlMessage]] = []

    def take(self, receiver: str, data: bytes) -> None:
        self._gone += [(receiver, each.message) for each in pieces(data) if each.message is not None]

    def clear(self) -> None:
        self._gone.clear()

    def _all(self) -> list[tuple[str, ControlMessage]]:
        outboxes = self._joined[self._name].links.outboxes if self._name in self._joined.members else {}
        waiting = (
            (peer, each.message) for peer, outbox in outboxes.items() for each in pieces(b"".join(outbox.frames))
        )
        return [*self._gone, *((peer, message) for peer, message in waiting if message is not None)]

    def __getitem__(self, index: Any) -> Any:
        return self._all()[index]

    def __len__(self) -> int:
        return len(self._all())


class Joined:
    """`held` are pairs of names: what the first says to the second waits until `let_go`."""

    def __init__(
        self,
        *primaries: str,
        secondaries: Iterable[str] = (),
        bounds: Bounds | None = None,
        wait_for_root: bool = True,
        settled_users: bool = True,
        **limits: Any,
    ) -> None:
        self.now_ms = START_MS
        self.primaries = primaries
        self.members: dict[str, Member] = {}
        self.cuts: set[frozenset[str]] = set()
        # What is on the disks.
        self.votes: dict[str, Reign] = {}
        self.held: dict[tuple[str, str], bytes] = {}
        self._taps: dict[str, Tap] = {}
        self._dropped: dict[str, tuple[type[ControlMessage], ...]] = {}
        self._bounds = bounds
        self._limits = limits
        self._has_settled_users = settled_users
        self._stamps = itertools.count(1)
        self._lives = itertools.count(1)
        for name in primaries:
            self.make(name, is_primary=True)
        for name in secondaries:
            self.make(name, is_primary=False)
        for name in self.members:
            self.begin(name)
        self.settle()
        if wait_for_root:
            self.await_root()

    def __getitem__(self, name: str) -> Membership:
        return self.members[name].membership

    def member_of(self, broker: Broker) -> Member:
        return next(each for each in self.members.values() if each.broker is broker)

    def broker(self, name: str) -> Broker:
        return self.members[name].broker

    # -- brokers come

    def make(self, name: str, *, is_primary: bool) -> None:
        """A broker that nobody knows of yet: `begin` joins it to the others."""
        life, numbers = next(self._lives), itertools.count(1)
        broker = Broker(Limits(**self._limits), random_name=lambda: f"{name}-{life}-{next(numbers)}", name=name)
        broker.now_ms = self.now_ms
        for user in ("guest", "other"):
            broker.put_user(User(name=user, permissions={"/": EVERYTHING}))
        # Else the log of every test would begin with them.
        broker.are_users_settled = self._has_settled_users
        election = None
        hello = Hello(cluster_key="k", name=name, role="secondary", peer=f"{name}:5673", life=f"{name}-{life}")
        if is_primary:
            # As if it had been started a millisecond after the last one: who is named first is most senior.
            terms = Terms(primaries=tuple(sorted(self.primaries)), heartbeat_ms=HEARTBEAT_MS, start_grace_ms=500)
            election = begin(terms, name, self.now_ms + next(self._stamps), self.now_ms, self.votes.get(name))
            hello = Hello(
                cluster_key="k",
                name=name,
                primaries=tuple(sorted(self.primaries)),
                heartbeat_ms=HEARTBEAT_MS,
                peer=f"{name}:5673",
                life=f"{name}-{life}",
            )

        def save(vote: Reign) -> bool:
            self.votes[name] = vote
            return True

        membership = Membership(broker, hello, SECRET, election, bounds=self._bounds, save_vote=save)
        if is_primary:
            membership.want_primaries({each: f"{each}:5673" for each in self.primaries})
        self.members[name] = Member(name, broker, membership)

    def begin(self, name: str) -> None:
        """Dial the others, and be dialled by them."""
        for other in list(self.members):
            if other != name and not self._is_linked(name, other):
                self._join(name, other)
        membership = self[name]
        if membership.is_primary:
            membership.tell(StoreRead(self.now_ms))

    def start(self, name: str) -> None:
        """A broker that was killed comes back with nothing but its vote, or a new secondary comes."""
        self.make(name, is_primary=name in self.primaries)
        self.begin(name)
        self.settle()

    def _is_linked(self, one: str, other: str) -> bool:
        if one not in self.primaries and other not in self.primaries:
            # Secondaries do not know each other.
            return True
        return frozenset((one, other)) in self.cuts or other in self.members[one].wires

    def _join(self, one: str, other: str) -> None:
        # A primary does not know of a secondary before that has dialled it.
        first, second = (one, other) if other in self.primaries else (other, one)
        self.link(first, second)
        self.link(second, first)

    def link(self, dialling: str, dialled: str) -> None:
        """What the shell's link and the listener do, until the first word."""
        member = self.members[dialled]
        wire = Wire(member.broker)
        connection = wire.connection
        connection.nonce = f"nonce of {dialled}"
        response = introduce(self[dialling].hello, connection.nonce, SECRET)
        connection.user = member.membership.admit(connection, response)
        connection.vhost = member.broker.peer_vhost
        connection.state = State.OPEN
        connection.frame_max = connection.reader.frame_max = FRAME_MAX
        connection.channels[1] = ClientChannel(connection, 1)
        member.broker.logged_in(connection)
        member.wires[dialling] = wire
        self[dialling].link_up(dialled, FRAME_MAX)

    # -- brokers and links go

    def cut(self, one: str, other: str) -> None:
        """Both links between two brokers end, with all that was under way, and cannot be made again."""
        self.cuts.add(frozenset((one, other)))
        self._unlink(one, other)
        self._unlink(other, one)
        self.settle()

    def mend(self, one: str, other: str) -> None:
        self.cuts.discard(frozenset((one, other)))
        self._join(one, other)
        self.settle()

    def unlink(self, dialling: str, dialled: str) -> None:
        """One link ends, with all that was under way on it."""
        self._unlink(dialling, dialled)
        self.settle()

    def redial(self, dialling: str, dialled: str) -> None:
        """One link ends, and is made again at once."""
        self._unlink(dialling, dialled)
        self.link(dialling, dialled)
        self.settle()

    def replace_link(self, dialling: str, dialled: str) -> None:
        """One link is made again before the other side has noticed that the old one has ended."""
        member = self.members[dialled]
        self[dialling].link_down(dialled)
        old = member.wires.pop(dialling)
        self.link(dialling, dialled)
        self.settle()
        old.lose()
        member.membership.connection_lost(old.connection)
        self.settle()

    def _unlink(self, dialling: str, dialled: str) -> None:
        self.held.pop((dialling, dialled), None)
        if dialling in self.members:
            self[dialling].link_down(dialled)
        member = self.members[dialled]
        wire = member.wires.pop(dialling, None)
        if wire is not None:
            wire.lose()
            member.membership.connection_lost(wire.connection)

    def kill(self, name: str) -> None:
        """A broker is gone, with its clients and all it knew."""
        del self.members[name]
        for other in self.members:
            self[other].link_down(name)
            self.held.pop((other, name), None)
            self._unlink(name, other)
        self.cuts = {pair for pair in self.cuts if name not in pair}
        self.settle()

    def vanish(self, name: str) -> dict[str, Wire]:
        """A broker is gone, and no other notices the end of its links, which are returned by the others' names."""
        del self.members[name]
        wires = {}
        for other in self.members:
            self[other].link_down(name)
            self.held.pop((other, name), None)
            if name in self.members[other].wires:
                wires[other] = self.members[other].wires.pop(name)
        self.settle()
        return wires

    def hold(self, sender: str, receiver: str) -> None:
        """What the one says to the other stays on its way."""
        self.held.setdefault((sender, receiver), b"")

    def let_go(self, sender: str, receiver: str) -> None:
        data = self.held.pop((sender, receiver))
        self._deliver(sender, receiver, data)
        self.settle()

    def tap(self, name: str) -> Tap:
        """All control messages that a broker sends from now on."""
        self._taps[name] = Tap(self, name)
        return self._taps[name]

    def drop(self, *kinds: type[ControlMessage], to: str) -> None:
        """Control messages of these kinds do not reach a broker from now on; of no kind: all do."""
        self._dropped[to] = kinds

    def _arriving(self, sender: str, receiver: str, data: bytes) -> bytes:
        """The bytes without the messages that are dropped."""
        if sender in self._taps:
            self._taps[sender].take(receiver, data)
        kinds = self._dropped.get(receiver, ())
        return b"".join(part for message, part in pieces(data) if not isinstance(message, kinds)) if kinds else data

    def step_down(self, name: str) -> None:
        """The root resigns; there is none until some heartbeats have passed."""
        self[name].tell(StepDown(self.now_ms, "told to"))
        self.settle()

    # -- turns and time

    def settle(self) -> None:
        """ConsumerRotation on all brokers, and bytes between them, until nothing moves."""
        for _ in range(RESTS_WITHIN):
            moved = False
            for member in list(self.members.values()):
                moved |= self.turn(member)
            if not moved:
                return
        raise AssertionError("a thousand turns, and the cluster is still busy")

    def turn(self, member: Member) -> bool:
        """One turn of one broker, and its bytes to the others; whether anything moved."""
        driver = member.driver
        member.broker.now_ms = self.now_ms
        driver.turn()
        moved = driver.is_busy
        messages, driver.messages = driver.messages, []
        for outbox in messages:
            data = outbox.take()
            outbox.waiting_bytes = 0
            moved |= bool(data)
            self._deliver(member.name, outbox.peer, self._arriving(member.name, outbox.peer, data))
        return moved

    def _deliver(self, sender: str, receiver: str, data: bytes) -> None:
        if (sender, receiver) in self.held:
            self.held[sender, receiver] += data
            return
        member = self.members.get(receiver)
        wire = None if member is None else member.wires.get(sender)
        if wire is None or member is None or not data:
            return
        member.broker.now_ms = self.now_ms
        wire.connection.receive(data)
        assert wire.connection.state is State.OPEN, f"{receiver} has closed the link of {sender}"

    def tick(self, ms: int = HEARTBEAT_MS) -> None:
        """So much time passes, a heartbeat at a time."""
        end_ms = self.now_ms + ms
        while self.now_ms < end_ms:
            self.now_ms = min(end_ms, self.now_ms + HEARTBEAT_MS)
            for member in list(self.members.values()):
                member.broker.tick(self.now_ms)
                member.membership.tick()
            self.settle()

    def await_root(self, within_ms: int = 5_000) -> str:
        """Let time pass until all follow one root; its name."""
        for _ in range(within_ms // HEARTBEAT_MS):
            roots = {each.membership.root for each in self.members.values()}
            if len(roots) == 1 and "" not in roots:
                return roots.pop()
            self.tick()
        raise AssertionError(f"no common root: { ({name: self[name].root for name in self.members}) }")

    @property
    def root(self) -> str:
        """Who serves."""
        return next((each.name for each in self.members.values() if each.membership.is_root), "")

    # -- applications

    def client(self, name: str, **options: Any) -> Application:
        """An application that is connected to that broker."""
        return Application(self, self.broker(name), **options)
