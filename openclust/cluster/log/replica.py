"""The log as this broker holds it, and its definitions as the log has made them.

The root performs a change, appends it, and feeds its followers; who asked is told when half of the defined primaries
hold it, and all that are in touch, or have had their time. Followers perform what they are fed. A follower that the
log's tail cannot bring up to date gets a snapshot, and is made equal to it: nothing changes here before all of that has
come, and then the way there is gone to its end, whatever becomes of who sent it. Meanwhile the log is as it was; who
asks for more than its entries waits, and so does a reign of this broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openclust.broker.cluster_port import Done
from openclust.broker.journal.batch import apply_work, decode_work
from openclust.broker.journal.journal import KEPT
from openclust.broker.model.change_codec import encode_change
from openclust.broker.model.changes import Change
from openclust.cluster.definitions.definitions import Definitions
from openclust.cluster.definitions.state import settled_users
from openclust.cluster.election.events import Appended
from openclust.cluster.election.view import Role
from openclust.cluster.log.catch_up import TakeOver
from openclust.cluster.log.defining import Defining
from openclust.cluster.log.followers import Followers
from openclust.cluster.log.following import Enlisting
from openclust.cluster.log.log import Log
from openclust.cluster.log.log_join import CannotUndo, Joint
from openclust.cluster.log.log_sender import Feeding
from openclust.cluster.log.rollback import Undo
from openclust.cluster.log.uncommitted import Uncommitted
from openclust.cluster.protocol.log_entry import LogEntry
from openclust.cluster.protocol.messages import Append, Arrived, Enlist, Fetch, Held, Snapshot
from openclust.cluster.protocol.status import Position
from openclust.cluster.snapshot.installing import Installing
from openclust.wire.errors import AmqpError

if TYPE_CHECKING:
    from openclust.broker.backlog.backlog import Entry as QueueEntry
    from openclust.broker.journal.journal import Sealed
    from openclust.broker.queues.queue import Queue
    from openclust.cluster.membership.membership import Membership
    from openclust.cluster.protocol.bounds import Bounds
    from openclust.cluster.shared_queues.commit_registry import Name

TAIL_BYTES_MAX = 67_108_864


class Replica:
    """Call `flush` at the end of a turn, `tick` now and then. Another turn must follow soon while it `is_busy`."""

    def __init__(self, membership: Membership, bounds: Bounds) -> None:
        self._cluster = membership
        self._broker = membership.broker
        self.log = Log(entries_max=bounds.log_entries_max, bytes_max=TAIL_BYTES_MAX)
        self.definitions = Definitions(self._broker, bounds, is_primary=membership.is_primary)
        self.hidden = self.definitions.hidden
        self.diverged = 0
        self.undo = Undo()
        self._followers = Followers(membership, self.log)
        self._feeding = Feeding(membership, self.log, self.definitions.in_passing, slice_max=bounds.slice_max)
        self._take_over = TakeOver(membership, self.log)
        self._defining = Defining(membership, self.definitions, self._followers, self._append_change)
        self._joint = Joint(membership, self.log, self.undo)
        self._installing = Installing(membership, self.definitions.follow)
        self._enlisting = Enlisting(membership, self.log)
        self._uncommitted = Uncommitted(self._broker.books)
        # The last place that is no work.
        self.changed = Position()
        # While a snapshot is installed: what waits for its end.
        self._is_to_enlist = False
        self._is_to_take_over: tuple[int, dict[str, Position]] | None = None
        self._asked: dict[str, Fetch] = {}

    @property
    def position(self) -> Position:
        return self.log.last

    @property
    def waiting(self) -> int:
        """How many changes are not known to stay."""
        return self._followers.waiting

    @property
    def is_busy(self) -> bool:
        """Whether there is something to do in another turn."""
        return self._feeding.is_busy or self.definitions.is_busy or self._installing.is_busy

    @property
    def is_installing(self) -> bool:
        """Whether what is here is on the way to a snapshot: it stands for no position then."""
        return self._installing.is_under_way

    def flush(self) -> None:
        """Feed the followers, and do a turn's part of what takes longer."""
        self._cluster.founding.look()
        if self._cluster.is_root and not self._broker.are_users_settled and not self._cluster.is_alone:
            self._settle_users()
        if self._uncommitted:
            self._uncommitted.committed(self.committed() if self._cluster.is_root else self.log.last)
        self._installing.tell_arrived(self._enlisting.heard)
        self._install_on()
        if self._enlisting.has_come_free:
            self.is_on_disk()
        self.definitions.size.measure_on()
        self._feeding.flush()

    def tick(self) -> None:
        self._followers.settle()
        if not self._installing.is_under_way:
            self._take_over.tick()

    # -- the root

    def begin_reign(self, epoch: int) -> None:
        """Be root: followers come by themselves."""
        # An operator does not wait for it.
        self._install_on(to_the_end=True)
        self._followers.end_all()
        self._feeding.end_all()
        self._installing.forget()
        self._take_over.forget()
        self.definitions.size.know()
        self._append(epoch, "opening", self._cluster.founding.begin_reign())
        self._cluster.founding.opened(self.log.last)
        for change in self._cluster.storing.begin_reign(self.log.last):
            self._append(epoch, "change", encode_change(change))

    def _settle_users(self) -> None:
        """As root of a log that does not say who the users are: they are this broker's, here and everywhere.

        A broker of one has its users file say so at each start.
        """
        for change in settled_users(self._broker):
            body = encode_change(change)
            self.definitions.size.added(body)
            self._append_change(body)
            if not self._cluster.is_root:
                # When the election hears that the log has grown, it may find that this broker is root no more.
                return
        self._broker.are_users_settled = True

    def end_reign(self, entered: list[tuple[Queue, QueueEntry]], left: list[tuple[Queue, QueueEntry]]) -> None:
        """Be root no more: who still waits asks the next one. All deliveries are back in their queues.

        What entered and left them lately is in no log: it is undone, and what entered goes to the next root.
        """
        self._cluster.handover.resign(entered, left)
        self._followers.end_all()
        self._feeding.end_all()
        self._take_over.forget()
        for each in self._followers.give_up():
            if each.change is not None:
                self._broker.define(each.change, each.done)

    def define(self, change: Change, done: Done, *, for_other: bool = False) -> None:
        """Make a change, as root; for another broker, or for an application here."""
        self._defining.define(change, done, for_other=for_other)

    def add_work(self, batch: Sealed) -> Position:
        """As root: a batch of the journal, which was done here; where it is in the log."""
        epoch, last = self._cluster.epoch, self.log.last
        position = Position(epoch, last.sequence + 1)
        self.undo.did(position, batch.left, batch.entered, batch.seen, is_own=True)
        self._cluster.asking.commits.done_before.sealed(position)
        self._append(epoch, "work", batch.shared)
        self._uncommitted.add(position, len(batch.shared))
        return self.log.last

    def _append_change(self, body: bytes) -> None:
        self._append(self._cluster.epoch, "change", body)

    def _append(self, epoch: int, kind: str, body: bytes) -> None:
        self._take(LogEntry(Position(epoch, self.log.last.sequence + 1), kind, body))
        if kind != "work":
            self._cluster.storing.urgent = self.log.last
        self.tell_position()

    def _take(self, entry: LogEntry) -> None:
        """The log goes on with it."""
        self.log.append(entry)
        self._cluster.storing.keep(entry)
        self._feeding.made(entry)
        if entry.kind != "work":
            self.changed = entry.position
        if entry.kind == "change":
            self.undo.cannot(entry.position)

    def tell_position(self) -> None:
        self._cluster.log_grew(Appended(self._broker.now_ms, self.log.last))

    def committed(self, *, on_disk: bool = False) -> Position:
        """Up to where at least half of the defined primaries hold the log, or have it on disk."""
        return self._followers.committed(on_disk=on_disk)

    def is_on_disk(self) -> None:
        """More of the log here is on disk."""
        if self._cluster.is_root:
            self._settle()
        elif self._cluster.root and not self._installing.is_under_way and not self._take_over.is_under_way:
            self._enlisting.tell_held()

    def _settle(self) -> None:
        self._followers.settle()
        self._cluster.storing.moved()
        self.undo.forget(self.committed())

    def lag(self, name: str) -> int | None:
        """How many entries a follower is behind; None where it is none."""
        return self._followers.lag(name)

    def lag_on_disk(self, name: str) -> int | None:
        """How many entries a follower has yet to bring to its disk; None where it is none."""
        return self._followers.lag_on_disk(name)

    def enlisted(self, peer: str, message: Enlist) -> None:
        """A follower comes, or says that it has missed something."""
        if not self._cluster.is_root:
            return
        common = self._feeding.begin(peer, self._cluster.epoch, message.position, message.ends)
        if common is None:
            self._followers.add(peer, Position(), Position(), is_late=True, is_pledged=message.is_pledged)
        else:
            # It holds all up to there: what it said of that may have been lost with its link.
            on_disk = min(common, message.on_disk)
            self._followers.add(peer, common, on_disk, is_late=False, is_pledged=message.is_pledged)
            self._settle()
        self._cluster.founding.tell(peer)

    def held(self, peer: str, message: Held) -> None:
        if self._cluster.is_root and message.epoch == self._cluster.epoch:
            self._followers.held(peer, message.position, message.on_disk, is_pledged=message.is_pledged)
            self._feeding.held(peer, message.position)
            self._settle()

    def arrived(self, peer: str, message: Arrived) -> None:
        self._feeding.arrived(peer, message.epoch, message.parts)

    def peer_gone(self, name: str) -> None:
        """Its link is down, or it says no more: nobody waits for it."""
        self._feeding.end(name)
        self._asked.pop(name, None)
        self._followers.remove(name)
        self._followers.settle()
        if not self._installing.is_under_way:
            self._take_over.peer_gone(name)

    # -- taking over

    def take_over(self, epoch: int, voters: dict[str, Position]) -> None:
        """Fetch what the voters hold beyond our log."""
        if self._installing.is_under_way:
            self._is_to_take_over = epoch, voters
            return
        self._installing.forget()
        self._take_over.begin(epoch, voters)

    def speaks_anew(self, name: str) -> None:
        """A peer's link to us is a new one: what it was about to tell is lost with the old one."""
        if not self._installing.is_under_way:
            self._take_over.ask_again(name)

    def fetch(self, peer: str, message: Fetch) -> None:
        """One that is to be root asks for what it lacks."""
        if self._installing.is_under_way:
            self._asked[peer] = message
        else:
            self._feeding.begin(peer, message.epoch, message.after, message.ends, is_once=True)

    # -- the follower

    def enlist(self) -> None:
        """Ask the root to be fed from where this log ends."""
        if self._installing.is_under_way:
            self._is_to_enlist = True
            return
        self._take_over.forget()
        self._installing.forget()
        self._enlisting.ask()

    def _ask_for_all(self) -> None:
        if self._take_over.is_under_way:
            self._take_over.ask_for_all()
        else:
            self._enlisting.ask_for_all()

    def _enlist_again(self) -> None:
        """What came does not fit. Who is to be root has no root to ask: it was promised a snapshot, or gives up."""
        if self._enlisting.is_due and not self._take_over.is_under_way and not self._installing.is_arriving:
            self.enlist()

    def root_is_at(self, position: Position) -> None:
        """The root's log ends there."""
        if self._enlisting.misses(position) and not self._installing.is_under_way:
            self._enlist_again()

    def append(self, peer: str, message: Append) -> None:
        if not self._expects(peer, message.epoch):
            return
        try:
            entries = self._joint.new_of(message)
        except CannotUndo:
            self._ask_for_all()
            return
        if entries is None:
            self._enlist_again()
            return
        self._take_over.spoken()
        self.undo.forget(min(message.committed, message.after))
        for entry in entries:
            if not self.log.is_next(entry.position):
                self._broker.note("error", "a root's log has a gap: asked for all of it", peer=peer)
                self._ask_for_all()
                break
            self._take(entry)
            self.apply(entry)
        self._advanced(is_urgent=message.is_urgent)

    def _expects(self, peer: str, epoch: int) -> bool:
        """Whether the log may be fed by this peer: the root of this epoch, or the voter that we asked."""
        if self._installing.is_under_way or (self._cluster.storing.disk.is_full and not self._take_over.is_under_way):
            return False
        return self._is_fed_by(peer, epoch)

    def _is_fed_by(self, peer: str, epoch: int) -> bool:
        if self._take_over.is_under_way:
            return self._take_over.expects(peer, epoch)
        return not self._cluster.is_root and peer == self._cluster.root and epoch == self._cluster.epoch

    def apply(self, entry: LogEntry) -> None:
        """Do here what an entry says."""
        if entry.kind == "opening":
            self._cluster.founding.uuid = entry.body.decode()
            return
        if entry.kind == "work":
            # Without a body it is for primaries only.
            if entry.body:
                work = decode_work(entry.body)
                applied = apply_work(self._broker, work, KEPT)
                self._cluster.asking.commits.done_before.heard(entry.position, work.commits)
                self.undo.did(entry.position, applied.left, applied.entered, applied.seen)
            return
        try:
            self.definitions.follow(entry)
        except (AmqpError, ValueError) as error:
            # The root has made it: this broker differs from it, until the snapshot that it asks for.
            self.diverged += 1
            self._broker.note("error", "a change of the root could not be made here", text=str(error))
            self._enlisting.differs()

    def _advanced(self, *, is_urgent: bool = True) -> None:
        self.tell_position()
        self._enlisting.satisfied()
        if self._take_over.is_under_way:
            self._take_over.advanced()
        else:
            if is_urgent or self._cluster.storing.on_disk == self.log.last:
                self._enlisting.tell_held()
            self._cluster.asking.log_is_at(self.log.last)
            self._cluster.handover.log_is_joined()

    # -- snapshots

    def snapshot(self, peer: str, message: Snapshot) -> None:
        """A part of one comes; with the last, all of it is used."""
        # A disk that is behind is no reason to miss a part: no more of them come than it takes.
        if self._installing.is_under_way or not self._is_fed_by(peer, message.epoch):
            return
        if not self._installing.add(peer, message):
            self._enlist_again()
            return
        self._enlisting.heard()
        self._take_over.spoken()
        if message.is_last:
            # From here on the definitions are nobody's: who takes them from this broker would get half of each.
            self._feeding.end_all()
            self._install_on()

    def _install_on(self, *, to_the_end: bool = False) -> None:
        try:
            installed = self._installing.advance(to_the_end=to_the_end)
        except (OSError, ValueError) as error:
            self._broker.note("error", "a part of a snapshot cannot be read: asked for another", text=str(error))
            # What was here is gone, in the store too: what comes next does not go on from that.
            self._begin_at(Position())
            self._is_to_enlist = True
            self._go_on()
            return
        if installed is None:
            return
        peer, last = installed
        self._cluster.founding.uuid = last.uuid or self._cluster.founding.uuid
        self._begin_at(last.position, *last.commits)
        if self._is_fed_by(peer, last.epoch):
            self._advanced()
        else:
            self.tell_position()
        self._go_on()

    def _begin_at(self, position: Position, *commits: Name) -> None:
        self.log.restart(position)
        self._cluster.asking.commits.done_before.begin_anew(position, commits)
        self.undo.cannot(position)
        self._cluster.storing.restart()

    def _go_on(self) -> None:
        """What could not be while the definitions were on their way."""
        asked, self._asked = self._asked, {}
        for peer, message in asked.items():
            self.fetch(peer, message)
        is_to_enlist, self._is_to_enlist = self._is_to_enlist, False
        if is_to_enlist and self._cluster.root and not self._cluster.is_root:
            self.enlist()
        wanted, self._is_to_take_over = self._is_to_take_over, None
        if wanted is not None:
            election = self._cluster.election
            if election.role is Role.TAKING_OVER and election.stands_in == wanted[0]:
                self.take_over(*wanted)
