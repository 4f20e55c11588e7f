"""The control messages between brokers, on `amq.cluster`: tagged structs as msgpack, the tag also as property `type`.

Names may hold any bytes, which msgpack's text may not: they travel as bytes (`encode_text`, `decode_text`).
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from openclust.broker.model.changes import Counts
from openclust.cluster.protocol.log_entry import LogEntry
from openclust.cluster.protocol.roster import BrokerInfo, Roster
from openclust.cluster.protocol.status import Position, Status

# -- who is there


class Welcome(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A primary tells a secondary the primaries, the addresses at which peers reach them, and their heartbeat."""

    primaries: dict[str, str]
    heartbeat_ms: int


class Goodbye(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The last message of a broker that stops, to every peer: it has not crashed. `reason` says who asked for it."""

    reason: str


class Presence(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A broker tells every primary about itself: a primary once a second, a secondary every heartbeat."""

    info: BrokerInfo


class RosterTold(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The root tells every broker which brokers are online."""

    roster: Roster


# -- the log


class Enlist(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A follower asks its root for the log: its own ends at `position`, and is on disk up to `on_disk`.

    `ends` are the last positions of its newest epochs: the root goes on from the newest one that its own log has too.
    A follower that `is_pledged` has voted in a later epoch, and may yet make another primary root by that: such a root
    may never get the entries that this follower holds.
    """

    position: Position
    on_disk: Position = Position()
    ends: list[Position] = []
    is_pledged: bool = False


class Append(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The root's entries that follow `after`. Entries up to `committed` are never undone.

    If it `is_urgent`, the root waits to hear that they are in the follower's memory; else, only that they are on disk.
    """

    epoch: int
    after: Position
    entries: list[LogEntry]
    committed: Position = Position()
    is_urgent: bool = True


class Snapshot(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A part of the state at `position`, for a receiver whose log is too far behind. `changes` are encoded definitions.

    Parts count from 0. Parts with definitions come first. For a primary, others follow: `work` has the contents of
    replicated queues, `entries` the log since the snapshot was begun. The first part has the newest position that the
    receiver's log has in `common` with the sender's, as far as that is known. The last part has the position, the uuid
    of the cluster, and the transactions that may not be answered yet: run, number, and the oldest number of that run.
    """

    epoch: int
    changes: list[bytes] = []
    part: int = 0
    is_last: bool = True
    position: Position = Position()
    uuid: str = ""
    common: Position = Position()
    work: bytes = b""
    entries: list[LogEntry] = []
    commits: list[tuple[bytes, int, int]] = []


class Arrived(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A follower has processed so many parts of a snapshot, and has room for more."""

    epoch: int
    parts: int


class Held(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A follower holds the log up to `position`, on disk up to `on_disk`. `is_pledged` is as in `Enlist`."""

    epoch: int
    position: Position
    on_disk: Position = Position()
    is_pledged: bool = False


class Founded(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The root tells the uuid of the cluster, once that is committed."""

    uuid: str


class Fetch(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """An elected primary asks the voter with the longest log for entries after `after`. `ends` is as in `Enlist`."""

    epoch: int
    after: Position
    ends: list[Position] = []


# -- questions to the root


class Define(msgspec.Struct, frozen=True, tag=True):
    """Make this change on all brokers."""

    change: bytes


class Purge(msgspec.Struct, frozen=True, tag=True):
    vhost: bytes
    queue: bytes


class Inspect(msgspec.Struct, frozen=True, tag=True):
    """Ask how many messages and consumers a shared queue has."""

    vhost: bytes
    queue: bytes


class Get(msgspec.Struct, frozen=True, tag=True):
    """basic.get from a shared queue. `source` is what a `Settle` of the fetched message names."""

    vhost: bytes
    queue: bytes
    source: int
    no_ack: bool


class Consume(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """basic.consume; `source` numbers the consumer among those of its broker. `arguments` are an AMQP table."""

    vhost: bytes
    queue: bytes
    source: int
    consumer_tag: bytes
    no_ack: bool
    exclusive: bool
    priority: int
    prefetch: int
    arguments: bytes


class Commit(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Do this transaction: all of it or nothing, and once.

    `run` and `number` name it among all transactions; those of the run before `oldest` are not asked for again.
    `publications` are exchange, routing key, header and body. `settled` are deliveries that came from the root of
    `epoch`: under any other root they are void. With `is_bound`, the asking broker was that root itself, and its client
    settles deliveries of its queues.
    """

    run: bytes
    number: int
    oldest: int
    epoch: int
    vhost: bytes
    publications: list[tuple[bytes, bytes, bytes, bytes]]
    settled: list[Settle]
    is_bound: bool = False


NO_CONSUMER = 0
"""The `source` of a basic.get, and of a `Settle` of what that has fetched; in a `Cancel` it stands for all sources."""

Question: TypeAlias = Define | Purge | Inspect | Get | Consume | Commit


class Ask(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    number: int
    question: Question


class Failure(msgspec.Struct, frozen=True):
    """The error that a client is to get: a connection error where it `closes_connection`, else a channel error."""

    code: int
    text: str
    closes_connection: bool = False


class FetchedMessage(msgspec.Struct, frozen=True):
    """The message of a basic.get, and how many are left. A `Settle` of it names this `number`."""

    number: int
    exchange: bytes
    routing_key: bytes
    header: bytes
    body: bytes
    deliveries: int
    left: int


class Answer(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The answer to the question of this number, by its kind.

    `count` is how many messages were purged or deleted, `counts` is how much a queue has, `fetched` a message of it.
    `unroutable` are the publishes of a transaction, counted from 0, that no queue was bound for. The answer is about
    the state at `position` of the log.
    """

    number: int
    failure: Failure | None = None
    count: int = 0
    counts: Counts | None = None
    fetched: FetchedMessage | None = None
    unroutable: list[int] = []
    position: Position = Position()


# -- lanes


class Lane(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """From now on, publishes on channel `number` of this link are of this kind.

    `flags` say what they may reach (`lanes.Reach`). With a `source` they are the deliveries to that consumer. Publishes
    of a lane that is confirmed are for the root of `epoch`, and no other broker puts them into shared queues; `run`
    tells them from those of an earlier lane of the same number. With a `queue` they are for that queue alone: a value
    that has a place from `since` on in it (if that is not 0) is newer than theirs.
    """

    number: int
    vhost: bytes
    flags: int = 0
    source: int = 0
    run: int = 0
    epoch: int = 0
    queue: bytes = b""
    since: int = 0


class Settled(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The outcome of publishes of a lane, which are counted from 1: `(first, last, accepted)`.

    `unroutable` are the numbers of those that no queue was bound for.
    """

    lane: int
    run: int
    verdicts: list[tuple[int, int, bool]]
    unroutable: list[int] = []


class Pressure(msgspec.Struct, frozen=True, tag=True):
    """The sender is, or is not any more, short of memory: publishers to its queues should wait."""

    is_high: bool


# -- questions of the management API


class Inquiry(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A question of broker `asker` to broker `target`. A primary passes on what is for a secondary."""

    number: int
    asker: str
    target: str
    body: bytes


class InquiryReply(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A part of the reply to the asker's question of this number; parts count from 0."""

    number: int
    asker: str
    replier: str
    part: int
    is_last: bool
    body: bytes


# -- meta-bindings


class Interest(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The meta-bindings of the sender. One is `(vhost, exchange, routing key, arguments as a table or empty)`.

    From a message that `is_first` to one that `is_last` all are told anew: those not among them are gone. With
    `of_others` they are the meta-bindings of all other secondaries together.
    """

    added: list[tuple[bytes, bytes, bytes, bytes]] = []
    removed: list[tuple[bytes, bytes, bytes, bytes]] = []
    is_first: bool = False
    is_last: bool = False
    of_others: bool = False


class InterestDigest(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """How many meta-bindings the sender has told, and the exclusive or of their hashes."""

    count: int
    digest: int
    of_others: bool = False


class InterestLost(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The digest differs from what the sender of this holds: tell all meta-bindings anew."""

    of_others: bool = False


# -- consumers of shared queues


class Taken(msgspec.Struct, frozen=True, tag=True):
    """Deliveries up to this number have gone on to the client: the root may send more."""

    source: int
    number: int


class Settle(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A client has settled deliveries with these numbers. `acked` are ranges, first and last in turn."""

    source: int
    acked: list[int] = []
    returned: list[int] = []
    rejected: list[int] = []


class Prefetch(msgspec.Struct, frozen=True, tag=True):
    source: int
    count: int


class Cancel(msgspec.Struct, frozen=True, tag=True):
    """The consumer is gone. Its unsettled deliveries go back, or stay with its client if that `keeps` them.

    With 0 for the source, all that the sender has consumed or fetched and not settled goes back.
    """

    source: int
    keeps: bool = False


class Cancelled(msgspec.Struct, frozen=True, tag=True):
    """The queue is gone."""

    source: int


ControlMessage: TypeAlias = (
    Status
    | Welcome
    | Goodbye
    | Presence
    | RosterTold
    | Enlist
    | Append
    | Snapshot
    | Arrived
    | Held
    | Founded
    | Inquiry
    | InquiryReply
    | Fetch
    | Ask
    | Answer
    | Lane
    | Settled
    | Pressure
    | Interest
    | InterestDigest
    | InterestLost
    | Taken
    | Settle
    | Prefetch
    | Cancel
    | Cancelled
)

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[ControlMessage] = msgspec.msgpack.Decoder(ControlMessage)


def encode(message: ControlMessage) -> bytes:
    return _encoder.encode(message)


def decode(body: bytes) -> ControlMessage:
    """ValueError where it is no message of ours."""
    return _decoder.decode(body)
