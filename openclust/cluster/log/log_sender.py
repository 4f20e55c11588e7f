"""Sends this log to other brokers: entries, some each turn, or a snapshot and the entries behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from openclust.broker.model.changes import Change
from openclust.cluster.log.log import Log
from openclust.cluster.protocol.log_entry import LogEntry
from openclust.cluster.protocol.messages import Append, Snapshot
from openclust.cluster.protocol.status import Position
from openclust.cluster.snapshot.contents import Passing
from openclust.cluster.snapshot.snapshot import Making

if TYPE_CHECKING:
    from openclust.broker.server.broker import Broker
    from openclust.cluster.log.cluster_uuid import ClusterUuid
    from openclust.cluster.log.commit_index import CommitIndex
    from openclust.cluster.protocol.links import Links
    from openclust.cluster.transactions.commit_registry import CommitRegistry

AHEAD_BYTES_MAX = 1_048_576
"""With so many bytes in a peer's outbox, the rest of a snapshot or long log waits: heartbeats use the same link."""
LIVE_BYTES_MAX = 8_388_608
"""With so many, even the newest entries wait: a follower that takes them too slowly gets a snapshot in the end."""
PARTS_UNDER_WAY = 16
"""So many parts of a snapshot may be on their way to a follower's disk, a quarter of a megabyte each."""


class _Feed(msgspec.Struct):
    """A broker that is brought up to date, up to `sent`; None from a snapshot's first part until the broker holds it.

    `is_once`: it gets the log up to its present end only, for it is no follower.
    """

    epoch: int
    sent: Position | None
    is_once: bool
    making: Making | None = None
    passing: Passing | None = None
    part: int = 0
    arrived: int = 0
    offered: Position = Position()
    common: Position = Position()
    told_ms: int = -(2**62)
    upto: Position = Position()


class LogSender:
    """Call `flush` once a turn, and `made` for every new entry. Another turn must follow soon while it `is_busy`.

    Brokers that need a snapshot at the same time share one.
    """

    def __init__(
        self,
        broker: Broker,
        links: Links,
        log: Log,
        commit_index: CommitIndex,
        registry: CommitRegistry,
        cluster_uuid: ClusterUuid,
        state: Callable[[], Iterator[Change]],
        *,
        slice_max: int,
    ) -> None:
        self.is_busy = False
        # The open batch must end with the next turn: a follower waits for its end, and others for the follower.
        self.awaits_batch = False
        # The last entry that somebody waits for until half of the primaries have it in memory.
        self.urgent = Position()
        # The last entry that is no work.
        self.changed = Position()
        self._broker = broker
        self._links = links
        self._log = log
        self._commit_index = commit_index
        self._registry = registry
        self._cluster_uuid = cluster_uuid
        self._state = state
        self._slice_max = slice_max
        self._feeds: dict[str, _Feed] = {}
        # Snapshots that were sent to their end.
        self.snapshots_sent = 0
        self._making: Making | None = None

    def begin(
        self, name: str, epoch: int, after: Position, ends: Sequence[Position] = (), *, is_once: bool = False
    ) -> Position | None:
        """Send a broker all entries behind `after`, or behind the last one that this log shares with `ends`.

        Returns the position after which the entries begin; None where the broker needs a snapshot.
        """
        common = after
        if after != Position() and self._log.tail(after, 0) is None:
            common = self._log.common(ends)
        feed = self._feeds[name] = _Feed(epoch, common, is_once, common=common)
        # A broker with an empty log may have any definitions: it needs a snapshot.
        if common != Position() and self._log.tail(common, 0) is not None:
            return common
        self._offer(feed)
        return None

    def _offer(self, feed: _Feed) -> None:
        making = self._making
        if making is None or (making.is_made and self._log.tail(making.position, 0) is None):
            making = self._making = Making(self._state(), self._slice_max)
        feed.making, feed.passing, feed.part, feed.sent = making, None, 0, None
        feed.arrived = 0

    def held(self, name: str, position: Position) -> None:
        """A broker holds the log up to there: once its snapshot is installed, it gets the entries behind that."""
        feed = self._feeds.get(name)
        if feed is None or feed.sent is not None or feed.making is not None or feed.passing is not None:
            return
        if position >= feed.offered:
            feed.sent = position

    def arrived(self, name: str, epoch: int, parts: int) -> None:
        """So many parts of its snapshot are on the disk of that broker."""
        feed = self._feeds.get(name)
        if feed is not None and feed.epoch == epoch and parts <= feed.part:
            feed.arrived = max(feed.arrived, parts)

    def end(self, name: str) -> None:
        """Send this broker nothing more: its link is down."""
        self._feeds.pop(name, None)

    def end_all(self) -> None:
        """Send nothing more to anybody: the log here is about to become another."""
        self._feeds.clear()
        self._making = None

    def made(self, entry: LogEntry) -> None:
        if entry.kind != "work":
            self.changed = entry.position
        if self._making is not None and entry.kind == "change":
            self._making.changed(entry.body)

    def flush(self) -> None:
        if not self._feeds:
            # Most brokers feed nobody, and this is asked in every turn.
            self._making = None
            self.is_busy = False
            return
        making = self._making
        if making is not None and not making.is_made:
            making.advance(self._log.last)
        self.is_busy = making is not None and not making.is_made
        for name, feed in list(self._feeds.items()):
            if feed.making is not None:
                self.is_busy |= self._send_parts(name, feed, feed.making)
            elif feed.passing is not None:
                self.is_busy |= self._send_contents(name, feed, feed.passing)
            else:
                self.is_busy |= self._send_log(name, feed)
        if not any(feed.making is self._making for feed in self._feeds.values()):
            # Whoever comes next has one made anew: it would be as large as the state.
            self._making = None

    def _send_log(self, name: str, feed: _Feed) -> bool:
        """Whether there is more to be sent at once."""
        if feed.sent is not None and feed.sent != self._log.last:
            if not self._is_due(name, feed, feed.sent):
                return False
            entries = self._log.tail(feed.sent, self._slice_max)
            if not entries:
                self._offer(feed)
                return True
            if name not in self._links.primaries:
                # A secondary gets no messages, but every position of the log.
                entries = [LogEntry(each.position, "work", b"") if each.kind == "work" else each for each in entries]
            entries = _some(entries)
            is_end = entries[-1].position == self._log.last
            if not self._has_room(name, LIVE_BYTES_MAX if is_end else AHEAD_BYTES_MAX):
                return False
            committed = self._commit_index.memory
            is_urgent = self.urgent > feed.sent
            append = Append(
                epoch=feed.epoch, after=feed.sent, entries=entries, committed=committed, is_urgent=is_urgent
            )
            self._links.send(name, append)
            feed.sent, feed.told_ms = entries[-1].position, self._broker.now_ms
        if feed.is_once and feed.sent == self._log.last:
            del self._feeds[name]
        return feed.sent is not None and feed.sent != self._log.last

    def _is_due(self, name: str, feed: _Feed, sent: Position) -> bool:
        """Whether entries go now: a broker that gets no messages hears of work once a heartbeat, of changes at once."""
        links = self._links
        if name in links.primaries or feed.is_once or sent < max(self.changed, feed.upto):
            return True
        if self._broker.now_ms - feed.told_ms < links.heartbeat_ms // 2:
            return False
        feed.upto = self._log.last
        return True

    def _send_parts(self, name: str, feed: _Feed, making: Making) -> bool:
        """Send parts of a snapshot's definitions. Whether there is more to be sent at once."""
        if feed.part == len(making.parts) or not self._may_send(name, feed):
            return False
        message = making.message(feed.part, feed.epoch, "")
        is_primary = name in self._links.primaries
        if not message.is_last or is_primary:
            message = msgspec.structs.replace(message, is_last=False, common=feed.common)
            self._links.send(name, message)
            feed.part += 1
        else:
            self._send_last(name, feed, making.position, message.changes)
        if not making.is_made or feed.part < len(making.parts):
            return feed.part < len(making.parts)
        feed.making = None
        if is_primary:
            feed.passing, feed.offered = Passing(self._broker), making.position
        return is_primary

    def _send_contents(self, name: str, feed: _Feed, passing: Passing) -> bool:
        """Send parts of the queues' messages, each behind the entries of the log that came before it was taken.

        Whether there is more to be sent at once.
        """
        if not self._may_send(name, feed):
            return False
        if feed.offered != self._log.last:
            entries = self._log.tail(feed.offered, self._slice_max)
            if not entries:
                self._offer(feed)
                return True
            entries = _some(entries)
            self._send_part(name, feed, Snapshot(epoch=feed.epoch, entries=entries, is_last=False))
            feed.offered = entries[-1].position
            return True
        body = passing.next()
        if body == b"":
            return False
        if body is not None:
            self._send_part(name, feed, Snapshot(epoch=feed.epoch, work=body, is_last=False))
            return True
        if not passing.is_settled():
            # The batches under way may be those that wait for this follower.
            self.awaits_batch = True
            return True
        self._send_last(name, feed, self._log.last, [])
        feed.passing = None
        return False

    def _send_part(self, name: str, feed: _Feed, message: Snapshot) -> None:
        self._links.send(name, msgspec.structs.replace(message, part=feed.part))
        feed.part += 1

    def _send_last(self, name: str, feed: _Feed, position: Position, changes: list[bytes]) -> None:
        commits = self._registry.names(position)
        uuid = self._cluster_uuid.uuid
        last = Snapshot(
            epoch=feed.epoch, changes=changes, position=position, uuid=uuid, common=feed.common, commits=commits
        )
        self._send_part(name, feed, last)
        self.snapshots_sent += 1
        feed.offered = position
        if feed.is_once:
            del self._feeds[name]

    def _may_send(self, name: str, feed: _Feed) -> bool:
        """Whether another part of a snapshot may go: a follower with a slow disk would have all parts in memory."""
        return feed.part - feed.arrived < PARTS_UNDER_WAY and self._has_room(name)

    def _has_room(self, name: str, bytes_max: int = AHEAD_BYTES_MAX) -> bool:
        outbox = self._links.outboxes.get(name)
        return outbox is not None and outbox.size + outbox.waiting_bytes < bytes_max


def _some(entries: list[LogEntry]) -> list[LogEntry]:
    """The first entries, as many as fit into one message; at least one."""
    size = 0
    for count, entry in enumerate(entries):
        size += len(entry.body)
        if count and size > AHEAD_BYTES_MAX:
            return entries[:count]
    return entries
