"""A broker as a member of its cluster: the broker's `ClusterPort`, and where the parts of the cluster layer meet.

A primary elects; a secondary watches. Either way the broker is something at each moment: see `roles/`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Literal, assert_never

from openclust.cluster.definitions.definitions import Definitions
from openclust.cluster.election import events
from openclust.cluster.election.elector import Elector
from openclust.cluster.election.events import ElectionEffect, Event
from openclust.cluster.election.lease import serves
from openclust.cluster.election.view import Election, ElectionRole
from openclust.cluster.election.watch import Watch
from openclust.cluster.inquiries.inquiries import Inquiries
from openclust.cluster.log.cluster_uuid import ClusterUuid
from openclust.cluster.log.commit_index import CommitIndex
from openclust.cluster.log.log import Log
from openclust.cluster.log.log_join import LogJoin
from openclust.cluster.log.log_sender import LogSender
from openclust.cluster.log.replica import Replica
from openclust.cluster.log.rollback import Rollback
from openclust.cluster.membership.admission import Admission, taken
from openclust.cluster.membership.control import Control
from openclust.cluster.membership.port import Port
from openclust.cluster.membership.presences import Presences
from openclust.cluster.membership.readiness import Readiness
from openclust.cluster.membership.root_changes import RootChanges
from openclust.cluster.membership.twins import Twins
from openclust.cluster.placing.placing import Placing
from openclust.cluster.protocol.bounds import Bounds
from openclust.cluster.protocol.hello import Hello
from openclust.cluster.protocol.leadership import Leadership
from openclust.cluster.protocol.links import Links
from openclust.cluster.protocol.messages import Goodbye, Pressure, Welcome
from openclust.cluster.protocol.peer_user import login
from openclust.cluster.protocol.redirect import Redirect
from openclust.cluster.protocol.status import Reign, Status
from openclust.cluster.relay.meta_bindings import MetaBindings
from openclust.cluster.relay.relay import Relay
from openclust.cluster.roles.follower import Follower
from openclust.cluster.roles.lasting import Lasting
from openclust.cluster.roles.leaderless import Leaderless
from openclust.cluster.roles.role import Role
from openclust.cluster.roles.root import Root
from openclust.cluster.roles.taking_over import TakingOver
from openclust.cluster.shared_queues.consumer_proxies import ConsumerProxies
from openclust.cluster.shared_queues.forwarding import Forwarding
from openclust.cluster.shared_queues.handover import Handover
from openclust.cluster.shared_queues.remote_consumers import RemoteConsumers
from openclust.cluster.shared_queues.root_answers import RootAnswers
from openclust.cluster.shared_queues.root_requests import RootRequests
from openclust.cluster.snapshot.installing import Installing
from openclust.cluster.snapshot.snapshot import Arriving
from openclust.cluster.storage.batch_commit import BatchCommit
from openclust.cluster.storage.checkpointing import Checkpointing
from openclust.cluster.storage.disk_health import DiskHealth
from openclust.cluster.storage.log_store import LogStore
from openclust.cluster.storage.recovery import recover
from openclust.cluster.storage.store_writes import StoreWrites
from openclust.cluster.transactions.commit_registry import CommitRegistry
from openclust.cluster.transactions.transactions import Transactions
from openclust.wire.errors import CONNECTION_FORCED, NOT_ALLOWED, ConnectionError

if TYPE_CHECKING:
    from openclust.broker.amqp.connection import Connection
    from openclust.broker.backlog.backlog import Entry
    from openclust.broker.journal.store_rows import Contents, StoreReader
    from openclust.broker.model.access import User
    from openclust.broker.queues.queue import Queue
    from openclust.broker.server.broker import Broker


class Membership(Port):
    """`election` is None for a secondary. `save_vote` says whether a vote is on disk now; nothing is told before.

    The shell calls `link_up` and `link_down` for its links to `peers`, `connection_lost` for any connection,
    `begin_turn` before the broker settles, `end_turn` after, and `tick` every heartbeat. Then it sends what is `dirty`.
    """

    def __init__(
        self,
        broker: Broker,
        hello: Hello,
        secret: str,
        election: Election | None,
        *,
        redirect: Redirect | None = None,
        bounds: Bounds | None = None,
        save_vote: Callable[[Reign], bool] = lambda vote: True,
    ) -> None:
        bounds = bounds or Bounds()
        self.broker = broker
        self.name = hello.name
        self.is_primary = election is not None
        self.watch = Watch(hello.heartbeat_ms)
        self.elector = Elector(election, self)
        # Who is root, and the role of this broker.
        self.leadership: Leadership[Role] = Leadership()
        self.root_changes = RootChanges(broker.now_ms)
        primaries = election.terms.primaries if election is not None else ()
        self.links = Links(
            hello.name,
            primaries,
            self.leadership,
            heartbeat_ms=hello.heartbeat_ms,
            is_alone=len(primaries) == 1 and not hello.peer,
            outbox_bytes_max=bounds.outbox_bytes_max,
        )
        self.inquiries = Inquiries(self.links)
        # Where clients reach the primaries that have not told this broker themselves.
        self.client_addresses: dict[str, str] = {}
        broker.journal.mode = "alone" if self.is_alone else "shared"
        broker.journal.is_in_charge = self.is_alone
        self.placing = Placing(hello.name, hello.cluster_key, redirect or Redirect())
        self.admission = Admission(secret, lambda: self.hello, lambda: self.primaries)
        self.twins = Twins()
        self.presences = Presences(
            broker, self.links, self.leadership, self.elector, self.admission, self.placing, self._refuse_twins
        )
        self._make_log(bounds, hello)
        self.readiness = Readiness(
            broker,
            self.links,
            self.leadership,
            self.elector,
            self.watch,
            self.presences,
            self.replica.log,
            self.disk_health,
            cluster_key=hello.cluster_key,
            wait_ms=bounds.root_wait_ms,
            is_in_touch=lambda: self.is_in_touch,
        )
        self._make_shared_queues(bounds)
        self.lasting = self._make_lasting()
        self.control_messages = Control(
            self.lasting, self.leadership, self.relay, self.inquiries, self.admission, self.presences, self
        )
        self.leadership.role = Leaderless(self.lasting)
        self._save_vote = save_vote
        self._was_pressed = False

    def _make_log(self, bounds: Bounds, hello: Hello) -> None:
        """Make the log, the definitions, and the parts that write both to the store."""
        broker, links, leadership, elector = self.broker, self.links, self.leadership, self.elector
        log = Log(entries_max=bounds.log_entries_max)
        rollback = Rollback()
        definitions = Definitions(broker, bounds, is_primary=self.is_primary)
        self.commit_index = CommitIndex()
        self.commit_registry = registry = CommitRegistry(leadership, self.commit_index)
        self.cluster_uuid = ClusterUuid(broker, links, leadership, self.commit_index, hello)
        self.store_writes = writes = StoreWrites(broker.journal)
        self.disk_health = DiskHealth(broker, links, elector, writes, bounds)
        self.checkpoints = checkpoints = Checkpointing(
            broker,
            writes,
            log,
            rollback,
            definitions,
            registry,
            self.cluster_uuid,
            bounds,
            is_alone=self.is_alone,
        )
        self.log_store = LogStore(writes, checkpoints)
        log_join = LogJoin(log, self.log_store, rollback, self.commit_index, registry, self._keep_strays)
        sender = LogSender(
            broker,
            links,
            log,
            self.commit_index,
            registry,
            self.cluster_uuid,
            definitions.in_passing,
            slice_max=bounds.slice_max,
        )
        arriving = Arriving(links, broker.journal.page_store, writes, self.disk_health)
        installing = Installing(broker, arriving, definitions, rollback, writes, checkpoints, self._keep_strays)
        self.replica = Replica(
            broker,
            elector,
            log,
            self.log_store,
            log_join,
            sender,
            definitions,
            rollback,
            installing,
            self.commit_index,
            registry,
            self.cluster_uuid,
            self.disk_health,
        )
        self.batch_commit = BatchCommit(
            broker,
            links,
            leadership,
            writes,
            self.log_store,
            checkpoints,
            self.disk_health,
            self.replica,
            self.commit_index,
            bounds,
        )

    def _keep_strays(self, strays: list[tuple[Queue, Entry]]) -> None:
        self.handover.keep(strays)

    def _make_shared_queues(self, bounds: Bounds) -> None:
        """Make the parts by which messages, consumers and requests reach the root and other brokers."""
        broker, links, leadership, replica = self.broker, self.links, self.leadership, self.replica
        self.meta_bindings = MetaBindings(broker, links, leadership, is_primary=self.is_primary)
        self.relay = Relay(broker, links, leadership)
        self.root_requests = RootRequests(
            broker,
            links,
            leadership,
            replica,
            unanswerable=lambda: self.readiness.unanswerable,
            wait_ms=bounds.root_wait_ms,
        )
        self.forwarding = Forwarding(
            broker,
            links,
            leadership,
            self.relay.lanes,
            is_primary=self.is_primary,
            unanswerable=lambda: self.readiness.unanswerable,
            waiting_bytes_max=bounds.waiting_bytes_max,
            wait_ms=bounds.root_wait_ms,
        )
        self.handover = Handover(
            broker, links, leadership, replica.rollback, self.commit_registry, is_in_touch=lambda: self.is_in_touch
        )
        self.consumer_proxies = ConsumerProxies(broker, links, self.admission.connections)
        self.remote_consumers = RemoteConsumers(broker, links, leadership, self.root_requests, self.consumer_proxies)
        self.transactions = Transactions(
            broker, self.name, leadership, self.commit_registry, self.consumer_proxies, self.root_requests.ask
        )
        self.root_answers = RootAnswers(broker, replica, self.consumer_proxies, self.transactions)

    def _make_lasting(self) -> Lasting:
        return Lasting(
            broker=self.broker,
            links=self.links,
            leadership=self.leadership,
            elector=self.elector,
            peer_connections=self.admission.connections,
            replica=self.replica,
            log_store=self.log_store,
            disk_health=self.disk_health,
            batch_commit=self.batch_commit,
            commit_index=self.commit_index,
            commit_registry=self.commit_registry,
            cluster_uuid=self.cluster_uuid,
            meta_bindings=self.meta_bindings,
            root_requests=self.root_requests,
            root_answers=self.root_answers,
            transactions=self.transactions,
            forwarding=self.forwarding,
            handover=self.handover,
            remote_consumers=self.remote_consumers,
            consumer_proxies=self.consumer_proxies,
        )

    def recover(self, contents: Contents, reader: StoreReader | None = None) -> None:
        """Begin with what the store has kept: see `recover` in `storage/recovery.py`."""
        recover(
            self.broker,
            self.replica,
            self.log_store,
            self.checkpoints,
            self.batch_commit,
            contents,
            reader,
            is_alone=self.is_alone,
        )

    @property
    def election(self) -> Election:
        return self.elector.election

    def is_there(self, name: str) -> bool:
        """Whether a peer speaks to this broker."""
        return self.presences.is_there(name)

    # -- peers come and go

    def admit(self, connection: Connection, response: bytes) -> User:
        """The user that a peer is from now on; ConnectionError names what is wrong with it."""
        hello = self.admission.check(connection, response)
        if self.twins.is_refused(hello):
            raise self._twin_of(hello.name)
        former = self.admission.former(hello)
        if former is not None:
            # The last life of that broker died unnoticed: its consumers and meta-bindings here end with it.
            self.broker.note("info", "a broker was started again, and the link of its last life is silent", former)
            self.connection_lost(former)
        self.admission.admit(connection, hello)
        if former is not None:
            former.close(CONNECTION_FORCED, "CONNECTION_FORCED - the link was silent, and its broker was started again")
        self.cluster_uuid.met(hello.uuid)
        self.links.fresh.add(hello.name)
        self.links.stopped.discard(hello.name)
        if hello.role == "secondary" and self.is_primary:
            self.links.want_peer(hello.name, hello.peer)
        return login(hello.name)

    def _twin_of(self, name: str) -> ConnectionError:
        known = self.presences.roster.find(name)
        place = known.client if known is not None else ""
        return ConnectionError(NOT_ALLOWED, taken(name, f"{place}, says the root {self.root}"))

    def _refuse_twins(self) -> None:
        """The root has told its roster: end links of brokers that share their name with another one there."""
        for name in self.twins.told(self.presences.roster, self.admission.hellos, self.broker.now_ms):
            connection = self.admission.connections[name]
            self.connection_lost(connection)
            connection.fail(self._twin_of(name), 0, 0)

    def want_primaries(self, addresses: dict[str, str]) -> None:
        """Dial the other primaries, at these addresses."""
        for name, address in sorted(addresses.items()):
            if name != self.name:
                self.links.want_peer(name, address)

    def link_up(self, peer: str, frame_max: int) -> None:
        """This broker's link to a peer is there: tell the peer what it must know."""
        self.links.outbox(peer).open(frame_max)
        if self.is_primary and self.links.is_secondary(peer):
            addresses = {name: address for name, address in self.links.peers.items() if name in self.primaries}
            self.links.send(
                peer, Welcome(primaries={**addresses, self.name: self.hello.peer}, heartbeat_ms=self.heartbeat_ms)
            )
            self.links.send(peer, self.election.status())
        if peer in self.primaries:
            self.presences.tell(peer)
        self.meta_bindings.tell_all(peer)
        self.links.send(peer, Pressure(self.broker.memory_accounts.alarm))
        self.role.link_up(peer)
        self._look_for_root(peer)
        self.broker.topology_changed()

    def link_down(self, peer: str) -> None:
        """This broker's link to a peer is gone, with all messages that were on it."""
        self.links.outbox(peer).close()
        self.meta_bindings.link_down(peer)
        self.replica.peer_gone(peer)
        self.consumer_proxies.peer_gone(peer)
        self.role.peer_gone(peer)
        if peer not in self.links.peers:
            del self.links.outboxes[peer]
        self.broker.topology_changed()

    def connection_lost(self, connection: Connection) -> None:
        """A connection has ended; perhaps it was a peer's link to this broker."""
        self.forwarding.forget(connection)
        hello = self.admission.lost(connection)
        if hello is None:
            return
        name = hello.name
        if not self.links.is_leaving and name not in self.links.stopped:
            self.broker.note("warning", f"lost {hello.role} {name}: its link to this broker has ended", connection)
        self.links.fresh.discard(name)
        self.links.stopped.discard(name)
        self.meta_bindings.gone(name)
        self.presences.gone(name)
        self.links.pressed.discard(name)
        self.consumer_proxies.peer_gone(name)
        if self.links.is_secondary(name):
            self.links.forget_peer(name)
        if name == self.root:
            self.remote_consumers.root_lost()
        self._silent(name)

    def leave(self, reason: str) -> None:
        """This broker stops, for this reason: as root it resigns at once, and peers do not take it for a crash."""
        if self.is_primary and not self.is_alone:
            self.tell(events.StepDown(self.broker.now_ms, f"this broker stops ({reason})"))
        self.links.is_leaving = True
        for name in sorted(self.links.outboxes):
            self.links.send(name, Goodbye(reason=reason))

    def left(self, name: str, reason: str) -> None:
        """A peer has said goodbye: it sends nothing more, and its links are about to end."""
        self.broker.note("info", f"{name} has stopped: {reason}")
        self.links.stopped.add(name)
        outbox = self.links.outboxes.get(name)
        if outbox is not None:
            outbox.peer_has_stopped = True
        self._silent(name)

    def _silent(self, name: str) -> None:
        """A peer is not heard any more, until it comes back."""
        if self.is_primary:
            self.tell(events.PeerLost(self.broker.now_ms, name))
        else:
            self.watch.lost(name)
            self._follow_watch()

    def peer_speaks(self, name: str) -> None:
        """The first message on a peer's new link has come: links in both directions are there now."""
        if name in self.links.fresh:
            self.links.fresh.discard(name)
            self.role.speaks_anew(name)
            self._look_for_root(name)

    def _look_for_root(self, peer: str) -> None:
        """A link to or from this peer is there: if it is the root, messages and requests that waited are sent."""
        if peer == self.root and self.links.root_outbox() is not None:
            self.role.met()

    def welcomed(self, message: Welcome) -> None:
        """A primary has told this secondary which primaries to dial."""
        if self.is_primary:
            return
        self.links.primaries = tuple(sorted(message.primaries))
        self.links.heartbeat_ms = self.watch.heartbeat_ms = message.heartbeat_ms
        self.want_primaries(message.primaries)

    # -- turns and time

    def begin_turn(self) -> None:
        """Call it before anything is confirmed: a root whose lease has run out resigns, and confirms nothing."""
        if self.leadership.is_root and not serves(self.election, self.broker.now_ms):
            self.tell(events.Tick(self.broker.now_ms))
            for connection in self.broker.connections:
                for channel in connection.channels.values():
                    if channel.confirms is not None:
                        channel.confirms.refuse_unsent()

    def end_turn(self) -> None:
        self.batch_commit.flush()
        self.cluster_uuid.look()
        self.leadership.role.flush()
        self.replica.flush()
        self.meta_bindings.flush()
        self.remote_consumers.flush()
        self.consumer_proxies.flush()
        self.forwarding.flush()
        self.inquiries.flush()
        if self.broker.memory_accounts.alarm is not self._was_pressed:
            self._was_pressed = self.broker.memory_accounts.alarm
            for peer in self.links.outboxes:
                self.links.send(peer, Pressure(self._was_pressed))

    def tick(self) -> None:
        """A heartbeat has passed."""
        self.admission.beat()
        if self.is_primary:
            self.tell(events.Tick(self.broker.now_ms))
        else:
            self._follow_watch()
        self.role.tick()
        self.root_requests.tick()
        self.forwarding.tick()
        self.inquiries.tick(self.broker.now_ms)
        self.presences.tick()
        self.readiness.look()

    def tell_digests(self) -> None:
        """Call it once in a while: peers compare the meta-bindings that they hold with what this broker told."""
        self.meta_bindings.tell_digests()

    # -- the election

    def tell(self, event: Event) -> None:
        """Something has happened that the election must know; all its effects are done before this returns."""
        self.elector.tell(event)

    def performed(self) -> None:
        """The effects of the last event are done. An election that gave up taking over has no effect that says so."""
        if isinstance(self.role, TakingOver) and self.election.role is not ElectionRole.TAKING_OVER:
            self.become(Leaderless(self.lasting))

    def become(self, role: Role) -> None:
        """End the old role, and begin this one."""
        leadership = self.leadership
        before, leadership.role = leadership.role, role
        leadership.lead(role.reign, is_root=role.is_root)
        self.root_changes.follow(role.reign, self.broker.now_ms, is_own=role.is_root)
        before.leave()
        self.broker.topology_changed()
        role.enter()

    def status_heard(self, status: Status) -> None:
        """A primary tells its status. If it is the root, its log may be ahead of this one."""
        if self.is_primary:
            self.tell(events.StatusHeard(self.broker.now_ms, status))
        else:
            self.watch.heard(status, self.broker.now_ms)
            self._follow_watch()
        if status.name == self.root and status.reign == self.reign:
            self.role.root_is_at(status.position)

    def perform(self, effect: ElectionEffect) -> None:
        """Do one thing that the election wants done."""
        note = self.broker.note
        match effect:
            case events.ClocksDiffer():
                text = (
                    f"clocks of the primaries differ by {effect.by_ms / 1_000:.1f} s: by its own this broker would be"
                )
                note("warning", f"{text} senior to {effect.name}, which was there before; it goes behind that")
            case events.PersistVote():
                self._is_on_disk(effect.vote)
            case events.Tell():
                self._say(effect.status, self.links.outboxes)
            case events.TellPeer():
                self._say(effect.status, (effect.name,))
            case events.TakeOver():
                if self._is_on_disk(self.election.vote):
                    self.become(TakingOver(self.lasting, effect.epoch, effect.voters))
            case events.Serve():
                note("info", f"root of epoch {effect.epoch}")
                self.become(Root(self.lasting, effect.epoch))
            case events.Resign():
                if not self.links.is_leaving:
                    note("warning", f"no root any more, of epoch {effect.epoch}: {effect.reason}")
                self.become(Leaderless(self.lasting))
            case events.Follow():
                self._follow(effect.reign)
            case events.NoRoot():
                self._miss_root(effect)
            case _:
                assert_never(effect)

    def _is_on_disk(self, vote: Reign | None) -> bool:
        return vote is None or self._save_vote(vote)

    def _say(self, status: Status, peers: Iterable[str]) -> None:
        if not self.links.is_leaving and self._is_on_disk(status.vote):
            for peer in peers:
                self.links.send(peer, status)

    def _follow(self, reign: Reign) -> None:
        self.broker.note("info", f"{reign.root} is root of epoch {reign.epoch}")
        self.become(Follower(self.lasting, reign))

    def _miss_root(self, lost: events.NoRoot) -> None:
        if not self.links.is_leaving:
            level: Literal["info", "warning"] = "info" if lost.is_told else "warning"
            self.broker.note(level, f"the root {lost.last.root} of epoch {lost.last.epoch} {lost.how}")
        self.become(Leaderless(self.lasting))

    def _follow_watch(self) -> None:
        """On a secondary: look whether the root is still the same."""
        now_ms = self.broker.now_ms
        passed_ms = self.watch.look(now_ms)
        reign = self.watch.reign(now_ms)
        if reign == self.reign:
            return
        if self.reign is not None:
            self._miss_root(self.watch.lost_root(self.reign, now_ms, passed_ms))
        if reign is not None:
            self._follow(reign)
