"""The root's followers: how much of the log each holds, and which changes wait until enough followers hold them."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import msgspec

from openclust.broker.cluster_port import Done
from openclust.broker.model.changes import Change
from openclust.cluster.log.commit_index import CommitIndex
from openclust.cluster.log.log import Log
from openclust.cluster.protocol.status import Position
from openclust.wire.errors import RESOURCE_ERROR, ChannelError

if TYPE_CHECKING:
    from openclust.broker.server.broker import Broker
    from openclust.cluster.election.elector import Elector
    from openclust.cluster.protocol.links import Links
    from openclust.cluster.storage.log_store import LogStore

PATIENCE_BEATS = 3
"""A change waits so many heartbeats for a follower that has a link but does not answer."""


class Waiting(msgspec.Struct):
    """A change that waits. `change` is None where another broker asked for it: that broker asks the next root."""

    change: Change | None
    position: Position
    done: Done
    result: Any
    since_ms: int


class _Follower(msgspec.Struct):
    """How far a follower says that it holds the log, in memory and on its disk.

    `is_late`: it is being sent a snapshot, or a change has waited for it in vain. Nobody waits for it until it has
    caught up. `is_pledged`: its vote may still make another root, which would not see entries that it took since it
    voted. So it does not count for what is committed.
    """

    held: Position
    on_disk: Position
    is_late: bool = False
    is_pledged: bool = False


def _not_on_disk(wait_ms: int) -> ChannelError:
    """The change is made, and may come to the disks yet; but whoever asked for it does not wait for ever."""
    text = f"made, but the disks of half of the primaries have not had it for {wait_ms} ms (cluster.root_wait_ms)"
    return ChannelError(RESOURCE_ERROR, text)


class Followers:
    """Call `advance` when the log here, its disk or a follower has come further, then `settle` for those who wait."""

    def __init__(
        self,
        broker: Broker,
        links: Links,
        elector: Elector,
        log: Log,
        log_store: LogStore,
        commit_index: CommitIndex,
        *,
        wait_ms: int,
    ) -> None:
        self._broker = broker
        self._links = links
        self._elector = elector
        self._log = log
        self._log_store = log_store
        self._commit_index = commit_index
        self._wait_ms = wait_ms
        self._followers: dict[str, _Follower] = {}
        self._waiting: deque[Waiting] = deque()

    @property
    def waiting(self) -> int:
        """How many changes are not known to be committed."""
        return len(self._waiting)

    def add(self, name: str, held: Position, on_disk: Position, *, is_late: bool, is_pledged: bool) -> None:
        self._followers[name] = _Follower(held, on_disk, is_late, is_pledged)

    def remove(self, name: str) -> None:
        self._followers.pop(name, None)

    def end_all(self) -> None:
        self._followers.clear()

    def held(self, name: str, position: Position, on_disk: Position, *, is_pledged: bool) -> None:
        follower = self._followers.get(name)
        if follower is not None:
            follower.is_pledged = is_pledged
            follower.held = max(follower.held, position)
            follower.on_disk = max(follower.on_disk, on_disk)
            if follower.held == self._log.last:
                follower.is_late = False

    def lag(self, name: str) -> int | None:
        """How many entries a follower is behind; None where it is none."""
        follower = self._followers.get(name)
        return None if follower is None else self._log.last.sequence - follower.held.sequence

    def lag_on_disk(self, name: str) -> int | None:
        """How many entries a follower has yet to bring to its disk; None where it is none."""
        follower = self._followers.get(name)
        return None if follower is None else self._log.last.sequence - follower.on_disk.sequence

    def advance(self) -> None:
        """Count up to where at least half of the defined primaries hold the log, and have it on disk."""
        primaries = self._links.primaries
        needed = 1 if self._elector.is_forced else (len(primaries) + 1) // 2
        held, on_disk = [self._log.last], [self._log_store.on_disk]
        for name, each in self._followers.items():
            if name in primaries and not each.is_pledged:
                held.append(each.held)
                on_disk.append(each.on_disk)
        if len(held) >= needed:
            held.sort(reverse=True)
            on_disk.sort(reverse=True)
            self._commit_index.advance(held[needed - 1], on_disk[needed - 1])

    def wait(self, waiting: Waiting) -> None:
        """Let a change wait: `settle` tells whoever asked for it."""
        self._waiting.append(waiting)

    def give_up(self) -> deque[Waiting]:
        """The changes that wait. This broker is root no more: it cannot tell whether they are committed."""
        waiting, self._waiting = self._waiting, deque()
        return waiting

    def settle(self) -> None:
        """Tell all whose change is committed by now, or has waited too long."""
        if not self._waiting:
            return
        committed = self._commit_index.disk
        wait_ms = self._wait_ms
        while self._waiting:
            first = self._waiting[0]
            is_given_up = first.position > committed and self._broker.now_ms - first.since_ms > wait_ms
            if not is_given_up and (first.position > committed or self._is_awaited(first)):
                return
            self._waiting.popleft()
            first.done(_not_on_disk(wait_ms) if is_given_up else first.result)

    def _is_awaited(self, change: Waiting) -> bool:
        """Whether a follower that usually answers in time may still answer for this change."""
        lacking = [each for each in self._followers.values() if each.held < change.position and not each.is_late]
        if self._broker.now_ms - change.since_ms < PATIENCE_BEATS * self._links.heartbeat_ms:
            return bool(lacking)
        for follower in lacking:
            follower.is_late = True
        return False
