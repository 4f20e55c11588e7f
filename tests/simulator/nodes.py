"""Whole nodes: real brokers and memberships, the bytes of their links, and applications that use them."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

from openclust.broker.amqp.connection import Connection
from openclust.broker.journal.journal import Journal
from openclust.broker.journal.store_rows import Write
from openclust.broker.model.access import Permission, User
from openclust.broker.model.effects import CheckLogin, CloseTransport, Effect, Note, Proxy, Resume, StartHeartbeats
from openclust.broker.model.limits import Limits
from openclust.broker.model.peer import Peer
from openclust.broker.server.broker import Broker as Core
from openclust.cluster.election.events import StepDown, StoreRead
from openclust.cluster.election.view import Terms, begin
from openclust.cluster.membership.membership import Membership
from openclust.cluster.protocol.bounds import Bounds
from openclust.cluster.protocol.hello import Hello, introduce
from openclust.cluster.protocol.outbox import Outbox
from openclust.cluster.protocol.status import Reign
from openclust.node import Node, perform
from openclust.wire.codec import decode_method, method_frame
from openclust.wire.frames import FRAME_HEARTBEAT, FRAME_METHOD, PROTOCOL_HEADER
from openclust.wire.handshake import State
from openclust.wire.methods import (
    ChannelOpen,
    ChannelOpenOk,
    ConnectionClose,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
)
from openclust.wire.sasl import PEER
from tests.simulator.broker import Broker, Waiting
from tests.simulator.chance import Chance
from tests.simulator.committed import Committed
from tests.simulator.disk import Disk
from tests.simulator.heard import frames, shown
from tests.simulator.host import Ear, Host, WatchingControl
from tests.simulator.invariants import Violation
from tests.simulator.ledger import Ledger
from tests.simulator.network import SILENCE_US, Pair
from tests.simulator.states import States
from tests.simulator.world import World
from tests.simulator.writing import Writing

CLUSTER_KEY = "simulated"
SECRET = "secret"
FRAME_MAX = 131_072
TURNS_MAX = 1_000
SLOW_START_US = 3_000_000
NEVER_MS = 2**61
_EVERYTHING = Permission(configure=".*", write=".*", read=".*")
_PEER = Peer("peer", 1, True, is_peer=True)
_OPENING = b"".join(
    (
        method_frame(0, ConnectionTuneOk(channel_max=2_047, frame_max=FRAME_MAX, heartbeat=10)),
        method_frame(0, ConnectionOpen()),
        method_frame(1, ChannelOpen()),
    )
)
_TO_A_PEER = (ConnectionStart, ConnectionTune, ConnectionOpenOk, ChannelOpenOk)


class _Crash(Exception):
    """The broker is gone in the middle of what it did."""


class _Turn:
    """What one turn of a broker does in the world."""

    def __init__(self, nodes: Nodes, host: Host) -> None:
        self._nodes = nodes
        self._host = host
        self.must_follow = False
        """Whether another turn must follow at once."""

    def write(self, writes: list[Write]) -> None:
        if self._host.writing is not None:
            self._host.writing.give(writes)

    def send(self, messages: list[Outbox]) -> None:
        for outbox in messages:
            data = outbox.take()
            outbox.waiting_bytes = 0
            if data:
                self._nodes.network.send((self._host.name, outbox.peer), data, self._nodes.now_us)

    def effect(self, effect: Effect) -> None:
        nodes, host = self._nodes, self._host
        match effect:
            case Note():
                nodes.note(host.name, effect)
                if effect.level == "error":
                    raise Violation(f"{host.name} notes an error: {effect.text} {effect.fields}")
            case CheckLogin():
                effect.connection.checked(effect.credentials, host.running.broker.users["guest"])
                self.must_follow = True
            case Resume():
                host.running.receive(effect.connection, b"", host.clock.monotonic_ms(nodes.now_us))
                self.must_follow = True
            case CloseTransport():
                effect.connection.append_close_ok(effect.close_ok)
                nodes.end_later(host, effect.connection, 0, 500)
            case StartHeartbeats():
                pass
            case Proxy():
                raise Violation("nobody is to be proxied")

    def flush(self, connections: list[Connection]) -> None:
        for connection in connections:
            self._nodes.write(self._host, connection)

    def farewell(self, connection: Connection) -> None:
        """Goodbye was said; it is gone when that is answered, or nobody waits any longer."""
        if isinstance(connection.transport, Ear):
            self._nodes.end_later(self._host, connection, 100, 100_000)


class Nodes(World):
    """`bounds` and `limits` are those of all brokers. Applications are the workload's: see `on_start`."""

    brokers: dict[str, Host]

    def __init__(
        self,
        seed: int,
        primaries: int,
        secondaries: int,
        *,
        bounds: Bounds,
        limits: Limits | None = None,
        start_grace_ms: int = 5_000,
        disk: type[Disk] = Disk,
        has_disks: bool = False,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        chance = Chance(seed)
        firsts = tuple(f"p{number}" for number in range(1, primaries + 1))
        others = tuple(f"s{number}" for number in range(1, secondaries + 1))
        names = firsts + others
        pairs = [(a, b) for a in names for b in names if a != b and (a in firsts or b in firsts)]
        super().__init__(chance, Terms(primaries=firsts, start_grace_ms=start_grace_ms), names, pairs, tell)
        self.has_disks = has_disks
        self.brokers = {
            name: Host(name, disk(name), chance, is_primary=name in firsts, has_disk=has_disks and name in firsts)
            for name in names
        }
        self._primaries = [host for host in self.brokers.values() if host.is_primary]
        self.bounds = bounds
        self.limits = limits or Limits()
        self.ledger = Ledger()
        self.on_start: Callable[[Host], None] = lambda host: None
        self.is_open = chance.random() < 0.5
        self.states = States()
        self.committed = Committed()
        self.has_forgotten = False
        """Whether one that has everything in memory has crashed."""

    # -- lives

    def start(self, name: str) -> None:
        host = self.brokers[name]
        if host.is_up:
            return
        now_ms = host.clock.monotonic_ms(self.now_us)
        self.note(name, f"starts with {host.disk.vote}")
        journal = Journal(has_disk=host.has_disk)
        core = Core(self.limits, random_name=host.unguessable, name=name, cluster_name=CLUSTER_KEY, journal=journal)
        core.set_clock(now_ms, host.clock.wall_ms(self.now_us))
        core.put_user(User(name="guest", permissions={"/": _EVERYTHING}))
        host.node = Node(core, self._membership(host, core, now_ms))
        if host.has_disk:
            host.writing = Writing(self, host)
            self._recover(host, host.node)
        if host.is_primary:
            host.running.membership.want_primaries({each: each for each in self.terms.primaries})
            slow = not self.is_calm and self.chance.random() < 0.1
            ready = lambda now_ms: host.running.membership.tell(StoreRead(now_ms))  # noqa: E731
            self.later(host, 100, SLOW_START_US if slow else 50_000, ready)
        else:
            for each in self.terms.primaries:
                self._dial(host, each)
        self._beat(host, host.life)
        self.on_start(host)

    def _recover(self, host: Host, node: Node) -> None:
        host.disk.store.opened()
        contents = host.disk.store.contents()
        try:
            node.membership.recover(contents, host.disk.store)
        except Exception as error:
            text = "".join(traceback.format_exception(error))
            raise Violation(f"{host.name} cannot begin with what it has kept: {text}") from error

    def _membership(self, host: Host, core: Core, now_ms: int) -> Membership:
        primaries = self.terms.primaries
        life = f"{host.name}-{host.life}"
        hello = Hello(
            cluster_key=CLUSTER_KEY, name=host.name, role="secondary", uuid=host.disk.uuid, peer=host.name, life=life
        )
        election = None
        if host.is_primary:
            election = begin(self.terms, host.name, host.clock.wall_ms(self.now_us), now_ms, host.disk.vote)
            hello = Hello(
                cluster_key=CLUSTER_KEY,
                name=host.name,
                primaries=tuple(sorted(primaries)),
                heartbeat_ms=self.terms.heartbeat_ms,
                uuid=host.disk.uuid,
                # A broker of one that nobody will ever join has no address for peers.
                peer=host.name if len(self.names) > 1 or self.is_open else "",
                life=life,
            )
        membership = Membership(
            core, hello, SECRET, election, bounds=self.bounds, save_vote=lambda vote: self._save_vote(host, vote)
        )
        membership.control_messages = WatchingControl(membership, host, self.ledger)
        return membership

    def crash(self, name: str) -> None:
        """It is gone; each peer sees it at once, after reading what was sent, or not at all for a while."""
        host = self.brokers[name]
        if not host.is_up:
            return
        if host.writing is not None:
            host.writing.ends()
        elif host.is_primary:
            self.has_forgotten = True
        if not self.has_disks:
            # Without a data directory nothing keeps it.
            host.disk.uuid = ""
        host.reset()
        self.note(name, "crashes")
        self.on_crash(host)
        for pair in self.network.links:
            if pair[0] == name:
                seen = self.chance.random()
                if seen < 0.8:
                    self.network.end(pair, self.now_us, in_order=seen < 0.4)
                self.network.drop(pair)
            elif pair[1] == name:
                self._sender_learns(pair)

    def _sender_learns(self, pair: Pair) -> None:
        """What was a link leads nowhere: its sender is told by the other machine, or gives up."""
        link = self.network.links[pair]
        if not link.is_connected:
            return
        number = link.connection
        self.network.drop(pair)

        def learn() -> None:
            if link.connection == number:
                self.lost(pair, self.now_us)

        quick = self.is_calm or (not link.is_cut and self.chance.random() < 0.8)
        self.after(50, 5_000 if quick else SILENCE_US, learn)

    def step_down(self, name: str) -> None:
        host = self.brokers[name]
        if host.is_primary and not host.is_busy(self.now_us):
            tell = lambda now_ms: host.running.membership.tell(StepDown(now_ms, "told to"))  # noqa: E731
            self.give(host, host.life, tell)

    def stop(self, name: str) -> None:
        """It takes leave of its peers, and its links end with all that was said on them; or before, for who is slow."""
        host = self.brokers[name]
        if not host.is_up or host.is_busy(self.now_us):
            return
        life = host.life
        self.note(name, "takes leave")
        self.give(host, life, lambda now_ms: host.running.leave("told to", now_ms))

        def end() -> None:
            if host.life == life:
                self.crash(name)
                if self.is_calm:
                    self.start(name)

        self.after(200, 500_000, end)

    def stall(self, name: str, for_us: int) -> None:
        self.brokers[name].stalled_us += for_us
        super().stall(name, for_us)

    def _save_vote(self, host: Host, vote: Reign) -> bool:
        """The loop stands still while the disk writes."""
        if vote == host.disk.vote:
            return True
        if host.crashes_at_vote == "before it is on disk":
            raise _Crash
        host.disk.write(vote)
        self.note(host.name, f"writes its vote for {vote.root} in epoch {vote.epoch}")
        if host.crashes_at_vote:
            raise _Crash
        write_us = self.chance.randint(*host.write_us)
        host.stalled_us += write_us
        host.stalled_until_us = max(host.stalled_until_us, self.now_us + write_us)
        life = host.life
        self.at(host.stalled_until_us, lambda: self.go_on(host, life))
        self.on_turn(host)
        return True

    def disk_fails(self, host: Host, now_ms: int) -> None:
        """The node is told that nothing can be written; when it is well again it hears that something is."""

    # -- events

    def handle(self, broker: Host, waiting: Waiting) -> None:
        self._run(broker, waiting)
        self._rest(broker)

    def go_on(self, broker: Host, life: int) -> None:
        """All that waited is taken, and then there is a turn; as where a loop finds many sockets ready."""
        while broker.life == life and broker.inbox and not broker.is_busy(self.now_us):
            self._run(broker, broker.inbox.popleft())
        if broker.life == life:
            self._rest(broker)

    def _run(self, host: Host, waiting: Waiting) -> None:
        self.steps += 1
        try:
            waiting(host.clock.monotonic_ms(self.now_us))
        except _Crash:
            self.crash(host.name)
        except Violation:
            raise
        except Exception as error:
            raise Violation(f"{host.name} fails: {''.join(traceback.format_exception(error))}") from error

    def _rest(self, host: Host) -> None:
        """A turn, unless it stands still."""
        if not host.is_up or host.is_busy(self.now_us):
            return
        try:
            self._turn(host, host.running)
        except _Crash:
            self.crash(host.name)
            return
        except Violation:
            raise
        except Exception as error:
            raise Violation(f"{host.name} fails in a turn: {''.join(traceback.format_exception(error))}") from error
        self._wake(host)
        self._check(host)

    def _turn(self, host: Host, node: Node) -> None:
        for _ in range(TURNS_MAX):
            ready = node.turn()
            host.disk.uuid = node.membership.hello.uuid
            if node.membership.links.peers_changed:
                self._sync(host)
            turn = _Turn(self, host)
            perform(ready, turn)
            node.written()
            if not turn.must_follow and not node.is_busy:
                return
            if node.membership.replica.is_busy:
                self._go_on_soon(host)
                return
        raise Violation(f"{host.name} is still busy after {TURNS_MAX} turns")

    def _go_on_soon(self, host: Host) -> None:
        """What takes many turns leaves time between them: things happen meanwhile."""
        if not host.goes_on:
            host.goes_on = True
            self.later(host, 20, 3_000, lambda now_ms: setattr(host, "goes_on", False))

    def _beat(self, host: Host, life: int) -> None:
        def beat(now_ms: int) -> None:
            next_us = host.clock.true_us(now_ms + host.running.membership.heartbeat_ms)
            self.at(next_us, lambda: self.give(host, life, beat))
            host.running.broker.set_clock(now_ms, host.clock.wall_ms(self.now_us))
            host.running.beat(now_ms)

        self.give(host, life, beat)

    def _wake(self, host: Host) -> None:
        """Somebody has to look when the lease ends, or a queue expires."""
        node = host.running
        due_ms = node.expires_ms or NEVER_MS
        lease_ends_ms = node.lease_ends_ms
        if lease_ends_ms is not None and 0 < lease_ends_ms < due_ms:
            due_ms = lease_ends_ms + 1
        if due_ms >= NEVER_MS:
            return
        due_us = max(host.clock.true_us(due_ms), self.now_us + 1)
        if self.now_us < host.wakes_at_us <= due_us:
            return
        host.wakes_at_us = due_us
        life = host.life

        def wake(now_ms: int) -> None:
            host.running.expire(now_ms, host.clock.wall_ms(self.now_us))
            host.running.look_at_lease(now_ms)

        self.at(due_us, lambda: self.give(host, life, wake))

    # -- links

    def _sync(self, host: Host) -> None:
        """Dial whom the membership wants, and no others."""
        membership = host.running.membership
        membership.links.peers_changed = False
        for name in sorted(membership.links.peers):
            link = self.network.links[host.name, name]
            if name not in host.wanted:
                self._dial(host, name)
            elif link.is_connected and name not in host.up:
                # A secondary dialled it before it knew its name.
                self._tell_up((host.name, name), link.connection)
        for name in sorted(host.wanted - membership.links.peers.keys()):
            host.wanted.discard(name)
            pair = (host.name, name)
            if self.network.links[pair].is_connected:
                self.network.end(pair, self.now_us, in_order=True)
            self.network.drop(pair)
            if name in host.up:
                host.up.discard(name)
                membership.link_down(name)

    def _dial(self, host: Host, name: str) -> None:
        host.wanted.add(name)
        self.network.dial((host.name, name), self.now_us)

    def dials(self, pair: Pair) -> bool:
        return pair[1] in self.brokers[pair[0]].wanted

    def accepts(self, pair: Pair) -> bool:
        return all(self.brokers[name].is_up and not self.brokers[name].is_busy(self.now_us) for name in pair)

    def connected(self, pair: Pair, number: int) -> None:
        """The handshake, at once; the one that dialled learns of its end a little later."""
        host = self.brokers[pair[1]]
        dialling = self.brokers[pair[0]].running.membership
        core = host.running.broker
        connection = Connection(core, _PEER)
        connection.transport = host.ears[pair, number] = Ear(pair, number, self.brokers[pair[0]].life, connection)

        def shake(now_ms: int) -> None:
            host.running.receive(connection, PROTOCOL_HEADER, now_ms)
            response = introduce(dialling.hello, connection.nonce, SECRET)
            start_ok = ConnectionStartOk(client_properties={}, mechanism=PEER, response=response, locale="en_US")
            host.running.receive(connection, method_frame(0, start_ok) + _OPENING, now_ms)

        self.note(pair[1], f"is dialled by {pair[0]}")
        self.handle(host, shake)
        if host.is_up and connection.state is State.OPEN:
            self.after(*self.network.links[pair].delay_us, lambda: self._tell_up(pair, number))

    def _tell_up(self, pair: Pair, number: int) -> None:
        host = self.brokers[pair[0]]
        link = self.network.links[pair]

        def up(now_ms: int) -> None:
            membership = host.running.membership
            is_known = pair[1] in membership.links.peers
            if link.connection == number and link.is_connected and is_known and pair[1] not in host.up:
                host.up.add(pair[1])
                self.note(pair[0], f"is linked to {pair[1]}")
                host.running.link_up(pair[1], FRAME_MAX, now_ms)

        self.give(host, host.life, up)

    def deliver(self, pair: Pair, number: int, sent: bytes) -> None:
        host = self.brokers[pair[1]]

        def hear(now_ms: int) -> None:
            ear = host.ears.get((pair, number))
            if ear is not None:
                self.note(pair[1], (pair[0], sent))
                host.heard[pair[0]] = ear.life
                host.running.receive(ear.connection, sent, now_ms)

        self.give(host, host.life, hear)

    def ended(self, pair: Pair, number: int) -> None:
        host = self.brokers[pair[1]]

        def end(now_ms: int) -> None:
            ear = host.ears.get((pair, number))
            if ear is not None:
                self.note(pair[1], f"sees the end of {pair[0]}'s link")
                self._end_connection(host, ear.connection, now_ms)

        self.give(host, host.life, end)

    def lost(self, pair: Pair, now_us: int) -> None:
        host = self.brokers[pair[0]]
        if not host.is_up or pair[1] not in host.wanted:
            self.network.drop(pair)
            return
        self.network.dial(pair, now_us)

        def down(now_ms: int) -> None:
            if pair[1] in host.up:
                host.up.discard(pair[1])
                self.note(pair[0], f"loses its link to {pair[1]}")
                host.running.link_down(pair[1], now_ms)

        self.give(host, host.life, down)

    def reconnect(self) -> None:
        for pair, link in self.network.links.items():
            host = self.brokers[pair[0]]
            deaf = (pair, link.connection) not in self.brokers[pair[1]].ears
            if host.is_up and pair[1] in host.wanted and (deaf or not link.is_connected):
                self.lost(pair, self.now_us)

    # -- connections

    def _end_connection(self, host: Host, connection: Connection, now_ms: int) -> None:
        if connection not in host.running.broker.connections:
            return
        end = connection.transport
        if isinstance(end, Ear):
            host.ears.pop((end.pair, end.number), None)
            link = self.network.links[end.pair]
            if link.connection == end.number and link.is_connected:
                self._sender_learns(end.pair)
        else:
            host.applications.pop(end, None)  # type: ignore[call-overload]
        host.running.connection_lost(connection, now_ms)
        connection.transport = None

    def end_later(self, host: Host, connection: Connection, low_us: int, high_us: int) -> None:
        self.later(host, low_us, high_us, lambda now_ms: self._end_connection(host, connection, now_ms))

    def write(self, host: Host, connection: Connection) -> None:
        data = b"".join(connection.out)
        connection.out.clear()
        connection.flushed(0)
        end = connection.transport
        if end is None:
            return
        if not isinstance(end, Ear):
            end.hear(data)  # type: ignore[attr-defined]
            return
        for kind, _, payload in frames(data):
            method = decode_method(payload) if kind == FRAME_METHOD else None
            if kind == FRAME_HEARTBEAT:
                # It asks whether the link is alive; who was started anew answers that it has none.
                link = self.network.links[end.pair]
                if end.life != self.brokers[end.pair[0]].life and not link.is_cut:
                    self.after(*link.delay_us, lambda: self.ended(end.pair, end.number))
                continue
            is_newer = isinstance(method, ConnectionClose) and method.reply_code == 320
            if self.has_forgotten and isinstance(method, ConnectionClose) and "uuid differs" in method.reply_text:
                self.after(0, 5_000, lambda: self._unite(host.name, end.pair[0]))
            elif isinstance(method, ConnectionClose) and "is taken by" in method.reply_text:
                # The end of its last life was not noticed: it dials again, until that is missed.
                continue
            elif not is_newer and not isinstance(method, _TO_A_PEER):
                raise Violation(f"{host.name} says to {end.pair[0]} on its link: {method}")

    def _unite(self, *names: str) -> None:
        """Who had the cluster's name are gone, and the next made up another: an operator starts the rest anew.

        That is who knows no root; of two such, whose name of the cluster fewer brokers have.
        """
        hosts = [self.brokers[name] for name in names]
        if all(host.is_up for host in hosts):
            all_uuids = [each.running.membership.hello.uuid for each in self.brokers.values() if each.is_up]
            uuids = {host.running.membership.hello.uuid for host in hosts}
            if len(uuids) == 2 and "" not in uuids:
                rootless = [host for host in hosts if self.reign_of(host) is None] or hosts[1:]
                name = min(rootless, key=lambda host: all_uuids.count(host.running.membership.hello.uuid)).name
                self.crash(name)
                self.after(100, 5_000, lambda: self.start(name))

    # -- what must hold

    def _check(self, host: Host) -> None:
        membership = host.running.membership
        if membership.is_root:
            epoch = membership.epoch
            known = self.roots.setdefault(epoch, host.name)
            if known != host.name:
                raise Violation(f"{host.name} and {known} are both root in epoch {epoch}")
            others = [each for each in self._primaries if each.is_root and each is not host]
            # Nearly always there are none.
            if others and host.serves(self.now_us):
                serving = [each.name for each in (host, *others) if each.serves(self.now_us)]
                if len(serving) > 1:
                    raise Violation(f"{' and '.join(serving)} are root at the same time")
            if not self.has_forgotten:
                self.committed.look_at(host)
        position = membership.replica.position
        if position != host.checked and not membership.replica.is_installing:
            host.checked = position
            self.states.look_at(host)

    # -- for people

    def reign_of(self, broker: Host) -> Reign | None:
        return broker.node.membership.reign if broker.node is not None else None

    def line(self, traced: tuple[int, str, Any]) -> str:
        at_us, who, what = traced
        if isinstance(what, tuple):
            what = f"hears of {what[0]}: {shown(what[1])}"
        elif isinstance(what, Note):
            what = f"{what.level}: {what.text} {what.fields or ''}"
        return super().line((at_us, who, what))


def host_of(broker: Broker) -> Host:
    assert isinstance(broker, Host), "these are whole nodes"
    return broker
