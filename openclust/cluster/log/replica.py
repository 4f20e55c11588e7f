"""The log as this broker holds it, and its definitions as the log has made them.

A root appends to it (`log_writer.py`), a follower is fed by its root (`following.py`), and a broker that takes over is
fed by a voter (`catch_up.py`). A follower that lacks entries which are kept no more gets a snapshot. Nothing changes
here before all parts of the snapshot have come; then it is installed to its end, whatever becomes of its sender.
Meanwhile the log is as it was: a broker that asks for entries waits, and so does a reign of this broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openclust.broker.journal.batch import apply_batch, decode_batch
from openclust.broker.journal.journal import KEPT
from openclust.cluster.election.events import Appended
from openclust.cluster.log.log_join import CannotRollBack, LogJoin
from openclust.cluster.protocol.log_entry import LogEntry
from openclust.cluster.protocol.messages import Append, Arrived, Fetch, Snapshot
from openclust.cluster.protocol.status import Position
from openclust.wire.errors import AmqpError

if TYPE_CHECKING:
    from openclust.broker.journal.queue_notes import QueueNotes
    from openclust.broker.server.broker import Broker
    from openclust.cluster.definitions.definitions import Definitions
    from openclust.cluster.election.elector import Elector
    from openclust.cluster.log.cluster_uuid import ClusterUuid
    from openclust.cluster.log.commit_index import CommitIndex
    from openclust.cluster.log.feeder import Feeder
    from openclust.cluster.log.log import Log
    from openclust.cluster.log.log_sender import LogSender
    from openclust.cluster.log.rollback import Rollback
    from openclust.cluster.snapshot.installing import Installing
    from openclust.cluster.storage.disk_health import DiskHealth
    from openclust.cluster.storage.log_store import LogStore
    from openclust.cluster.transactions.commit_registry import CommitRegistry, Name


class Replica:
    """The log of this broker and its definitions, whoever is root. A root's `LogWriter` appends to it. The `feeder` of
    a follower, or of a broker that takes over, says which entries of peers belong to it.

    Call `flush` at the end of a turn. Another turn must follow soon while it `is_busy`.
    """

    def __init__(
        self,
        broker: Broker,
        elector: Elector,
        log: Log,
        log_store: LogStore,
        log_join: LogJoin,
        sender: LogSender,
        definitions: Definitions,
        rollback: Rollback,
        installing: Installing,
        commit_index: CommitIndex,
        registry: CommitRegistry,
        cluster_uuid: ClusterUuid,
        disk_health: DiskHealth,
    ) -> None:
        self.log = log
        self.definitions = definitions
        self.sender = sender
        self.rollback = rollback
        self.feeder: Feeder | None = None
        # How many changes of a root could not be made here.
        self.diverged = 0
        self._broker = broker
        self._elector = elector
        self._log_store = log_store
        self._log_join = log_join
        self.installing = installing
        self._commit_index = commit_index
        self._registry = registry
        self._cluster_uuid = cluster_uuid
        self._disk_health = disk_health
        # Requests for entries that came while a snapshot is installed, by the peer.
        self._asked: dict[str, Fetch] = {}

    @property
    def position(self) -> Position:
        return self.log.last

    @property
    def changed(self) -> Position:
        """The position of the last entry that is a change or an opening, not work."""
        return self.sender.changed

    @property
    def is_busy(self) -> bool:
        """Whether something is left for another turn."""
        return self.sender.is_busy or self.definitions.is_busy or self.installing.is_busy

    @property
    def is_installing(self) -> bool:
        """Whether a snapshot is being installed: definitions and queues are those of no position of the log then."""
        return self.installing.is_under_way

    @property
    def is_snapshot_arriving(self) -> bool:
        """Whether parts of a snapshot have come, and not all of them are on the disk yet: more parts will follow."""
        return self.installing.is_arriving

    def flush(self) -> None:
        """Send followers their entries, and do a turn's part of longer work."""
        self.installing.tell_arrived(self._spoken)
        self._install_on()
        self.definitions.size.measure_on()
        self.sender.flush()

    def _spoken(self) -> None:
        if self.feeder is not None:
            self.feeder.spoken()

    def begin_at(self, told: Position, base: Position, notes: QueueNotes) -> None:
        """As a broker starts: its store has all up to `told`, with these notes, and the entries behind `base`."""
        self._cluster_uuid.uuid = notes.uuid or self._cluster_uuid.uuid
        self._registry.begin_anew(told, notes.commits)
        self.log.restart(base)
        self.rollback.cannot(base)

    # -- as root

    def own(self) -> None:
        """This broker is root: it writes the log, nobody feeds it, and its followers enlist anew."""
        # Only a root made by an operator can have one left: it does not wait.
        self._install_on(to_the_end=True)
        self.sender.end_all()
        self.forget_snapshot()

    def take(self, entry: LogEntry) -> None:
        """Append an entry to the log, here and in the store."""
        self.log.append(entry)
        self._log_store.keep(entry)
        self.sender.made(entry)
        if entry.kind == "change":
            self.rollback.cannot(entry.position)

    def tell_position(self) -> None:
        if self._elector.is_primary:
            self._elector.tell(Appended(self._broker.now_ms, self.log.last))

    # -- whoever asks for the log

    def arrived(self, peer: str, message: Arrived) -> None:
        self.sender.arrived(peer, message.epoch, message.parts)

    def peer_gone(self, name: str) -> None:
        """The link of a peer is down, or it is silent."""
        self.sender.end(name)
        self._asked.pop(name, None)

    def fetch(self, peer: str, message: Fetch) -> None:
        """A peer that takes over asks for the entries that it lacks."""
        if self.installing.is_under_way:
            self._asked[peer] = message
        else:
            self.sender.begin(peer, message.epoch, message.after, message.ends, is_once=True)

    # -- what comes

    def forget_snapshot(self) -> None:
        """Drop the parts of a snapshot that have come."""
        self.installing.forget()

    def is_on_disk(self) -> None:
        """More of the log here is on disk."""
        if self.feeder is not None and not self.installing.is_under_way:
            self.feeder.on_disk()

    def append(self, peer: str, message: Append) -> None:
        feeder = self._expected(peer, message.epoch)
        if feeder is None:
            return
        try:
            entries = self._log_join.new_of(message)
        except CannotRollBack:
            feeder.ask_for_all()
            return
        if entries is None:
            feeder.missed()
            return
        feeder.spoken()
        committed = min(message.committed, message.after)
        self._commit_index.advance(committed)
        self.rollback.forget(committed)
        for entry in entries:
            if not self.log.is_next(entry.position):
                self._broker.note("error", "a root's log has a gap: asked for all of it", peer=peer)
                feeder.ask_for_all()
                break
            self.take(entry)
            self.apply(entry)
        self._advanced(feeder, is_urgent=message.is_urgent)

    def _expected(self, peer: str, epoch: int) -> Feeder | None:
        """The feeder, if entries of this peer may be taken now; else None."""
        feeder = self._feeder_of(peer, epoch)
        if feeder is None or self.installing.is_under_way:
            return None
        return feeder if feeder.takes_beyond_room or not self._disk_health.is_full else None

    def _feeder_of(self, peer: str, epoch: int) -> Feeder | None:
        return self.feeder if self.feeder is not None and self.feeder.is_from(peer, epoch) else None

    def apply(self, entry: LogEntry) -> None:
        """Do what an entry of the log says."""
        if entry.kind == "opening":
            self._cluster_uuid.uuid = entry.body.decode()
            return
        if entry.kind == "work":
            # Secondaries get work without its body.
            if entry.body:
                work = decode_batch(entry.body)
                applied = apply_batch(self._broker, work, KEPT)
                self._registry.heard(entry.position, work.commits)
                self.rollback.did(entry.position, applied.left, applied.entered, applied.seen)
            return
        try:
            self.definitions.follow(entry)
        except (AmqpError, ValueError) as error:
            # The root has made this change: this broker differs from the root until it gets a snapshot.
            self.diverged += 1
            self._broker.note("error", "a change of the root could not be made here", text=str(error))
            if self.feeder is not None:
                self.feeder.differs()

    def _advanced(self, feeder: Feeder, *, is_urgent: bool = True) -> None:
        self.tell_position()
        # The election has heard of the entries, and may have given this broker another role.
        if feeder is self.feeder:
            feeder.advanced(is_urgent=is_urgent)

    # -- snapshots

    def snapshot(self, peer: str, message: Snapshot) -> None:
        """A part of a snapshot comes; with the last part, the snapshot is installed."""
        # A full disk is no reason to miss a part: no more parts come than the disk takes.
        feeder = self._feeder_of(peer, message.epoch)
        if feeder is None or self.installing.is_under_way:
            return
        if not self.installing.add(peer, message):
            feeder.missed()
            return
        feeder.spoken()
        if message.is_last:
            # From here on the definitions are a mixture: nobody may be sent a snapshot of them.
            self.sender.end_all()
            self._install_on()

    def _install_on(self, *, to_the_end: bool = False) -> None:
        try:
            installed = self.installing.advance(to_the_end=to_the_end)
        except (OSError, ValueError) as error:
            self._broker.note("error", "a part of a snapshot cannot be read: asked for another", text=str(error))
            # The queues are empty now, in the store too: this log begins at nothing.
            self._begin_at(Position())
            self._go_on(is_lost=True)
            return
        if installed is None:
            return
        peer, last = installed
        self._cluster_uuid.uuid = last.uuid or self._cluster_uuid.uuid
        self._begin_at(last.position, *last.commits)
        feeder = self._feeder_of(peer, last.epoch)
        if feeder is not None:
            self._advanced(feeder)
        else:
            self.tell_position()
        self._go_on(is_lost=False)

    def _begin_at(self, position: Position, *commits: Name) -> None:
        self.log.restart(position)
        self._commit_index.forget()
        self._registry.begin_anew(position, commits)
        self.rollback.cannot(position)
        self._log_store.restart(position)

    def _go_on(self, *, is_lost: bool) -> None:
        """The snapshot is installed or lost: serve the peers that wait for entries, and tell the feeder."""
        asked, self._asked = self._asked, {}
        for peer, message in asked.items():
            self.fetch(peer, message)
        if self.feeder is not None:
            self.feeder.installed(is_lost=is_lost)
