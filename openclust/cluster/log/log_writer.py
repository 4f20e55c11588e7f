"""The root writes the log: it appends entries, followers get those that they lack, and waiting clients are answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openclust.broker.model.change_codec import encode_change
from openclust.broker.model.changes import Change
from openclust.cluster.definitions.state import settled_users
from openclust.cluster.log.defining import Defining
from openclust.cluster.log.followers import Followers
from openclust.cluster.log.uncommitted import Uncommitted
from openclust.cluster.protocol.log_entry import LogEntry
from openclust.cluster.protocol.status import Position

if TYPE_CHECKING:
    from openclust.broker.cluster_port import Done
    from openclust.broker.journal.journal import Sealed
    from openclust.broker.server.broker import Broker
    from openclust.cluster.election.elector import Elector
    from openclust.cluster.log.cluster_uuid import ClusterUuid
    from openclust.cluster.log.commit_index import CommitIndex
    from openclust.cluster.log.replica import Replica
    from openclust.cluster.protocol.leadership import Leadership
    from openclust.cluster.protocol.links import Links
    from openclust.cluster.protocol.messages import Enlist, Held
    from openclust.cluster.storage.log_store import LogStore
    from openclust.cluster.transactions.commit_registry import CommitRegistry


class LogWriter:
    """Call `begin` once, `flush` at the end of a turn, `tick` every heartbeat, and `give_up` when the reign is over."""

    def __init__(
        self,
        epoch: int,
        broker: Broker,
        links: Links,
        leadership: Leadership[object],
        elector: Elector,
        replica: Replica,
        log_store: LogStore,
        commit_index: CommitIndex,
        registry: CommitRegistry,
        cluster_uuid: ClusterUuid,
        *,
        wait_ms: int,
    ) -> None:
        self._epoch = epoch
        self._broker = broker
        self._links = links
        self._leadership = leadership
        self._replica = replica
        self._commit_index = commit_index
        self._registry = registry
        self._cluster_uuid = cluster_uuid
        log = replica.log
        self._followers = Followers(broker, links, elector, log, log_store, commit_index, wait_ms=wait_ms)
        self._defining = Defining(broker, log, epoch, replica.definitions, self._followers, self.append_change)
        self._uncommitted = Uncommitted(self._broker.memory_accounts)

    @property
    def waiting(self) -> int:
        """How many changes are not known to stay."""
        return self._followers.waiting

    def begin(self) -> None:
        """Append the opening entry of this reign. Followers enlist by themselves."""
        replica, uuid = self._replica, self._cluster_uuid
        replica.definitions.size.know()
        self._append("opening", uuid.begin_reign())
        uuid.opened(replica.log.last)

    def give_up(self) -> list[tuple[Change, Done]]:
        """The reign is over. Returns the changes of clients here that were not answered, for the next root."""
        self._uncommitted.forget()
        return [(each.change, each.done) for each in self._followers.give_up() if each.change is not None]

    # -- entries

    def define(self, change: Change, done: Done, *, for_other: bool = False) -> None:
        """Make a change, for a client here or, with `for_other`, for another broker."""
        self._defining.define(change, done, for_other=for_other)

    def add_work(self, batch: Sealed) -> Position:
        """Append a batch of the journal, whose work was done here. Returns its position."""
        replica = self._replica
        position = Position(self._epoch, replica.log.last.sequence + 1)
        replica.rollback.did(position, batch.left, batch.entered, batch.seen, is_own=True)
        self._registry.sealed(position)
        # Before the entry is appended: when the election hears of that, it may find that this broker is root no more.
        self._uncommitted.add(position, len(batch.shared))
        self._append("work", batch.shared)
        if batch.is_urgent:
            replica.sender.urgent = replica.log.last
        return replica.log.last

    def append_change(self, body: bytes) -> None:
        self._append("change", body)

    def _append(self, kind: str, body: bytes) -> None:
        replica = self._replica
        replica.take(LogEntry(Position(self._epoch, replica.log.last.sequence + 1), kind, body))
        if kind != "work":
            replica.sender.urgent = replica.log.last
        # Half of two primaries is this broker alone. This comes first: the election may end the reign by the entry.
        self._followers.advance()
        replica.tell_position()

    def _settle_users(self) -> None:
        """The log does not say yet who the users are: from now on, those of this broker are the users everywhere.

        In a cluster of one broker this is not needed: its users file says so at each start.
        """
        for change in settled_users(self._broker):
            body = encode_change(change)
            self._replica.definitions.size.added(body)
            self.append_change(body)
            if not self._leadership.is_root:
                # When the election hears that the log has grown, it may find that this broker is root no more.
                return
        self._broker.are_users_settled = True

    # -- followers

    def settle(self) -> None:
        """Followers, or the disk here, have come further: answer those who wait for that."""
        self._followers.advance()
        self._followers.settle()
        self._replica.rollback.forget(self._commit_index.memory)

    def enlisted(self, peer: str, message: Enlist) -> None:
        """A follower asks for entries: it is new, or has missed some."""
        common = self._replica.sender.begin(peer, self._epoch, message.position, message.ends)
        if common is None:
            self._followers.add(peer, Position(), Position(), is_late=True, is_pledged=message.is_pledged)
        else:
            # It holds the log up to there. It may have said so on a link that was lost.
            on_disk = min(common, message.on_disk)
            self._followers.add(peer, common, on_disk, is_late=False, is_pledged=message.is_pledged)
            self.settle()
        self._cluster_uuid.tell(peer)

    def held(self, peer: str, message: Held) -> None:
        """A follower tells how much of this reign's log it holds."""
        if message.epoch == self._epoch:
            self._followers.held(peer, message.position, message.on_disk, is_pledged=message.is_pledged)
            self._replica.sender.held(peer, message.position)
            self.settle()

    def peer_gone(self, name: str) -> None:
        """A follower's link is down, or it is silent: nobody waits for it."""
        self._followers.remove(name)
        self._followers.settle()

    def lag(self, name: str) -> int | None:
        """How many entries a follower is behind; None where it is none."""
        return self._followers.lag(name)

    def lag_on_disk(self, name: str) -> int | None:
        """How many entries a follower has yet to bring to its disk; None where it is none."""
        return self._followers.lag_on_disk(name)

    # -- turns and time

    def flush(self) -> None:
        if not self._broker.are_users_settled and not self._links.is_alone:
            self._settle_users()
        if self._uncommitted:
            self._uncommitted.committed(self._commit_index.memory)

    def tick(self) -> None:
        self._followers.settle()
