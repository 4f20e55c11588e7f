"""The log as this broker holds it, and its definitions as the log has made them.

The root performs a change, appends it, and feeds its followers; who asked is told when half of the defined primaries
hold it, and all that are in touch, or have had their time. Followers perform what they are fed. A follower that the
log's tail cannot bring up to date gets a snapshot, and is made equal to it.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import msgspec

from openclust.broker.change_codec import decode_change, encode_change
from openclust.broker.changes import Change, DeclareExchange, DeclareQueue, holds, unconditional
from openclust.broker.cluster_port import Done
from openclust.broker.limits import Limits
from openclust.cluster.events import Appended, CaughtUp, StepDown
from openclust.cluster.hidden import Hidden
from openclust.cluster.log import Entry, Log
from openclust.cluster.messages import Append, Enlist, Fetch, Held, Message, Snapshot
from openclust.cluster.state import reconcile, shared_state
from openclust.cluster.status import Position
from openclust.wire.errors import PRECONDITION_FAILED, RESOURCE_ERROR, AmqpError, ChannelError

if TYPE_CHECKING:
    from openclust.cluster.membership import Membership

PATIENCE_BEATS = 3
"""For so many heartbeats a change waits for a follower that is in touch but does not answer."""
TAKE_OVER_BEATS = 50
ENLIST_BEATS = 50
"""For so many heartbeats a follower does not ask again for what it has asked for: a snapshot may take its time."""
APPEND_ENTRIES_MAX = 5_000
TAIL_BYTES_MAX = 67_108_864

_UNBOUNDED = 2**62


class _Waiting(msgspec.Struct):
    """`change` is None where another broker asked for it: it will ask the next root by itself."""

    change: Change | None
    position: Position
    done: Done
    result: Any
    since_ms: int


class _Follower(msgspec.Struct):
    """Up to where it was sent the log, and up to where it says that it holds it.

    One that is late gets a snapshot, or has let a change wait in vain: nobody waits for it before it has caught up.
    """

    sent: Position
    held: Position
    is_late: bool = False


class _Fetching(msgspec.Struct):
    epoch: int
    voter: str
    goal: Position
    since_ms: int


class Replica:
    """Call `flush` at the end of a turn, `tick` now and then."""

    def __init__(self, membership: Membership, *, entries_max: int, state_bytes_max: int) -> None:
        self._cluster = membership
        self._broker = membership.broker
        self.log = Log(entries_max=entries_max, bytes_max=TAIL_BYTES_MAX)
        self.hidden = Hidden(self._broker)
        self.diverged = 0
        self._followers: dict[str, _Follower] = {}
        self._waiting: deque[_Waiting] = deque()
        self._fetching: _Fetching | None = None
        self._after: list[Change] | None = None
        self._state_bytes = 0
        self._state_bytes_max = state_bytes_max
        self._bounds: Limits | None = None
        self._asked_all_ms = -(2**62)
        self._enlisted_ms = -(2**62)
        self._snapshot_at = Position()
        self._snapshot_changes: list[bytes] = []

    @property
    def position(self) -> Position:
        return self.log.last

    # -- the root

    def begin_reign(self, epoch: int) -> None:
        """Be root: followers come by themselves."""
        self._followers.clear()
        self._fetching = None
        self._measure()
        self._append(epoch, "opening", self._cluster.founding.begin_reign())
        self._cluster.founding.opened(self.log.last)

    def end_reign(self) -> None:
        """Be root no more: who still waits asks the next one."""
        self._followers.clear()
        self._fetching = None
        waiting, self._waiting = self._waiting, deque()
        for each in waiting:
            if each.change is not None:
                self._broker.define(each.change, each.done)

    def define(self, change: Change, done: Done, *, for_other: bool = False) -> None:
        """Make a change, as root; for another broker, or for an application here."""
        if self._after is not None:
            # One that the change under way brings with it: after it, in the log too.
            self._after.append(change)
            return
        change, wanted = unconditional(change), change
        is_new = not holds(self._broker, wanted)
        if is_new and isinstance(change, DeclareQueue | DeclareExchange) and self._is_full():
            limit = self._state_bytes_max // 1_048_576
            done(ChannelError(RESOURCE_ERROR, f"the cluster's definitions fill the {limit} MB they may (state_max_mb)"))
            return
        self._after = []
        try:
            body = encode_change(change)
            result = self.hidden.decide(wanted)
        except ValueError as error:
            done(ChannelError(PRECONDITION_FAILED, str(error)))
            return
        except AmqpError as error:
            done(error)
            return
        finally:
            after, self._after = self._after, None
        epoch, last = self._cluster.epoch, self.log.last
        position = Position(epoch, last.sequence + 1) if is_new else last
        # Before it is in the log: when the election hears of that, it may find that this broker is root no more.
        self._waiting.append(_Waiting(None if for_other else wanted, position, done, result, self._broker.now_ms))
        if is_new:
            self._state_bytes += len(body)
            self._append(epoch, "change", body)
        for each in after:
            self._broker.define(each)
        self._settle()

    def _append(self, epoch: int, kind: str, body: bytes) -> None:
        self.log.append(Entry(Position(epoch, self.log.last.sequence + 1), kind, body))
        self._tell_position()

    def _tell_position(self) -> None:
        self._cluster.log_grew(Appended(self._broker.now_ms, self.log.last))

    def committed(self) -> Position:
        """Up to where at least half of the defined primaries hold the log."""
        needed = 1 if self._cluster.commits_alone else (len(self._cluster.primaries) + 1) // 2
        held = [self.log.last]
        held += [each.held for name, each in self._followers.items() if name in self._cluster.primaries]
        return sorted(held, reverse=True)[needed - 1] if len(held) >= needed else Position()

    def _settle(self) -> None:
        """Tell who waited for what is committed by now."""
        if not self._waiting:
            return
        committed = self.committed()
        while self._waiting:
            first = self._waiting[0]
            if first.position > committed or self._is_awaited(first):
                return
            self._waiting.popleft()
            first.done(first.result)

    def _is_awaited(self, change: _Waiting) -> bool:
        """Whether a follower that usually answers in time may still do so."""
        lacking = [each for each in self._followers.values() if each.held < change.position and not each.is_late]
        if self._broker.now_ms - change.since_ms < PATIENCE_BEATS * self._cluster.heartbeat_ms:
            return bool(lacking)
        for follower in lacking:
            follower.is_late = True
        return False

    def lag(self, name: str) -> int | None:
        """How many entries a follower is behind; None where it is none."""
        follower = self._followers.get(name)
        return None if follower is None else self.log.last.sequence - follower.held.sequence

    def enlisted(self, peer: str, message: Enlist) -> None:
        """A follower comes, or says that it has missed something."""
        if not self._cluster.is_root:
            return
        at = message.position
        if self._lacks(at):
            self._cluster.send(peer, self._snapshot(self._cluster.epoch))
            self._followers[peer] = _Follower(self.log.last, Position(), is_late=True)
        else:
            # It holds all up to there: what it said of that may have been lost with its link.
            self._followers[peer] = _Follower(at, at)
            self._settle()
        self._cluster.founding.tell(peer)
        self.flush()

    def _lacks(self, at: Position) -> bool:
        """Whether the log here does not tell what came after; one that is empty may stand for any definitions."""
        return at == Position() or self.log.tail(at, 0) is None

    def held(self, peer: str, message: Held) -> None:
        follower = self._followers.get(peer)
        if follower is not None and self._cluster.is_root and message.epoch == self._cluster.epoch:
            follower.held = max(follower.held, message.position)
            if follower.held == self.log.last:
                follower.is_late = False
            self._settle()

    def peer_gone(self, name: str) -> None:
        """Its link is down, or it says no more: nobody waits for it."""
        self._followers.pop(name, None)
        self._settle()
        if self._fetching is not None and self._fetching.voter == name:
            self._give_up(f"{name}, whose log it needs, is gone")

    def flush(self) -> None:
        """Feed the followers."""
        self._cluster.founding.look()
        for name, follower in self._followers.items():
            while follower.sent != self.log.last:
                entries = self.log.tail(follower.sent, APPEND_ENTRIES_MAX)
                if not entries:
                    self._cluster.send(name, self._snapshot(self._cluster.epoch))
                    follower.sent = self.log.last
                    break
                self._cluster.send(name, Append(epoch=self._cluster.epoch, after=follower.sent, entries=entries))
                follower.sent = entries[-1].position

    def tick(self) -> None:
        self._settle()
        fetching = self._fetching
        if fetching is None:
            return
        if self._broker.now_ms - fetching.since_ms > TAKE_OVER_BEATS * self._cluster.heartbeat_ms:
            self._give_up(f"{fetching.voter} did not send the log it holds")

    # -- taking over

    def take_over(self, epoch: int, voters: dict[str, Position]) -> None:
        """Fetch what the voters hold beyond our log; any of it may have been confirmed."""
        best = max(sorted(voters), key=lambda name: voters[name], default="")
        if not best or voters[best] <= self.log.last:
            self._cluster.tell(CaughtUp(self._broker.now_ms, epoch))
            return
        self._fetching = _Fetching(epoch, best, voters[best], self._broker.now_ms)
        if not self._cluster.send(best, Fetch(epoch=epoch, after=self.log.last)):
            self._give_up(f"there is no link to {best}, whose log it needs")

    def speaks_anew(self, name: str) -> None:
        """A peer's link to us is a new one: if it had answered, that is lost with the old one."""
        fetching = self._fetching
        if fetching is not None and fetching.voter == name:
            self._cluster.send(name, Fetch(epoch=fetching.epoch, after=self.log.last))

    def fetch(self, peer: str, message: Fetch) -> None:
        """One that is to be root asks for what it lacks."""
        answer: Message
        if self._lacks(message.after):
            answer = self._snapshot(message.epoch)
        else:
            answer = Append(epoch=message.epoch, after=message.after, entries=self.log.tail(message.after) or [])
        self._cluster.send(peer, answer)

    def _give_up(self, reason: str) -> None:
        self._fetching = None
        self._cluster.tell(StepDown(self._broker.now_ms, reason))

    # -- the follower

    def enlist(self) -> None:
        """Ask the root to be fed from where this log ends."""
        self._enlisted_ms = self._broker.now_ms
        self._cluster.send(self._cluster.root, Enlist(position=self.log.last))

    def _enlist_again(self) -> None:
        """What came does not fit; unless what was asked for is still on its way."""
        if self._broker.now_ms - self._enlisted_ms > ENLIST_BEATS * self._cluster.heartbeat_ms:
            self.enlist()

    def root_is_at(self, position: Position) -> None:
        """The root's log ends there, as it said after all that it sent before: what is not here by now was lost."""
        if position == self.log.last:
            self._enlisted_ms = -(2**62)
        else:
            self._enlist_again()

    def append(self, peer: str, message: Append) -> None:
        if not self._expects(peer, message.epoch):
            return
        entries = message.entries
        if message.after != self.log.last:
            entries = [each for each in entries if each.position > self.log.last] if self._overlaps(message) else []
            if not entries:
                self._enlist_again()
                return
        self._be_unbounded()
        try:
            for entry in entries:
                if not self._follows(entry.position):
                    self._broker.note("error", "a root's log has a gap: asked for all of it", peer=peer)
                    self._cluster.send(peer, Enlist(position=Position()))
                    break
                self.log.append(entry)
                self._apply(entry)
        finally:
            self._be_bounded()
        self._advanced(peer, message.epoch)

    def _follows(self, position: Position) -> bool:
        last = self.log.last
        return position.sequence == last.sequence + 1 and position.epoch >= last.epoch

    def _overlaps(self, message: Append) -> bool:
        """Whether the entries go on from here, though they begin before."""
        return any(each.position == self.log.last for each in message.entries)

    def snapshot(self, peer: str, message: Snapshot) -> None:
        if not self._expects(peer, message.epoch):
            return
        self._be_unbounded()
        try:
            reconcile(self._broker, self.hidden.restart(decode_change(each) for each in message.changes))
        finally:
            self._be_bounded()
        self.log.restart(message.position)
        self._cluster.founding.uuid = message.uuid or self._cluster.founding.uuid
        self._advanced(peer, message.epoch)

    def _expects(self, peer: str, epoch: int) -> bool:
        """Whether the log may be fed by this peer: the root of this epoch, or the voter that we asked."""
        fetching = self._fetching
        if fetching is not None:
            return peer == fetching.voter and epoch == fetching.epoch
        return not self._cluster.is_root and peer == self._cluster.root and epoch == self._cluster.epoch

    def _apply(self, entry: Entry) -> None:
        if entry.kind == "opening":
            self._cluster.founding.uuid = entry.body.decode()
            return
        try:
            self.hidden.follow(decode_change(entry.body))
        except (AmqpError, ValueError) as error:
            # The root has made it: this broker differs from it, until the snapshot that it asks for.
            self.diverged += 1
            self._broker.note("error", "a change of the root could not be made here", text=str(error))
            if self._broker.now_ms - self._asked_all_ms > PATIENCE_BEATS * self._cluster.heartbeat_ms:
                self._asked_all_ms = self._broker.now_ms
                self._cluster.send(self._cluster.root, Enlist(position=Position()))

    def _advanced(self, peer: str, epoch: int) -> None:
        self._tell_position()
        self._enlisted_ms = -(2**62)
        fetching = self._fetching
        if fetching is None:
            self._cluster.send(peer, Held(epoch=epoch, position=self.log.last))
            self._cluster.asking.log_is_at(self.log.last)
        elif self.log.last >= fetching.goal:
            self._fetching = None
            self._cluster.tell(CaughtUp(self._broker.now_ms, epoch))

    def _be_unbounded(self) -> None:
        """What the root has granted is not refused here: private queues count differently on each broker."""
        limits = self._broker.limits
        self._bounds = limits
        self._broker.limits = msgspec.structs.replace(
            limits, queues_max=_UNBOUNDED, exchanges_max=_UNBOUNDED, bindings_max=_UNBOUNDED
        )

    def _be_bounded(self) -> None:
        assert self._bounds is not None, "unbounded before"
        self._broker.limits = self._bounds

    # -- state

    def _state(self) -> list[Change]:
        return shared_state(self._broker) + self.hidden.changes()

    def _snapshot(self, epoch: int) -> Snapshot:
        if self._snapshot_at != self.log.last or not self._snapshot_changes:
            # Kept for the next who comes: it takes a second for 200,000 definitions.
            self._snapshot_at = self.log.last
            self._snapshot_changes = [encode_change(each) for each in self._state()]
        return Snapshot(
            epoch=epoch, position=self.log.last, changes=self._snapshot_changes, uuid=self._cluster.founding.uuid
        )

    def _measure(self) -> None:
        self._state_bytes = sum(len(encode_change(each)) for each in self._state())

    def _is_full(self) -> bool:
        if self._state_bytes > self._state_bytes_max:
            # Deleted things were only ever added to the sum.
            self._measure()
        return self._state_bytes > self._state_bytes_max
