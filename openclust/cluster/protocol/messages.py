"""What brokers say to each other on `amq.cluster`: tagged structs as msgpack, the tag also in the property `type`.

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
    """A primary tells a secondary what it could not know: the primaries, where their peers reach them, their terms."""

    primaries: dict[str, str]
    heartbeat_ms: int


class Goodbye(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A broker that ends tells every peer, as the last it says: it has not crashed. `reason` is who asked for it."""

    reason: str


class Presence(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What every broker tells every primary once a second, and a secondary every heartbeat."""

    info: BrokerInfo


class RosterTold(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The root tells everybody who is there."""

    roster: Roster


# -- the log


class Enlist(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A follower to its root: my log ends here, and so far it is on disk; feed me from there.

    `ends` are the last places of its newest epochs: from the newest one that both logs have, if that is not its end.
    One that `is_pledged` may yet make another root by a vote of before: what it holds is not sure to reach that one.
    """

    position: Position
    on_disk: Position = Position()
    ends: list[Position] = []
    is_pledged: bool = False


class Append(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The root's entries that follow `after`. What is `committed` is never undone.

    Unless it `is_urgent`, nobody waits to hear that they are in memory: that they are on disk is soon enough.
    """

    epoch: int
    after: Position
    entries: list[LogEntry]
    committed: Position = Position()
    is_urgent: bool = True


class Snapshot(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A part of all that entries up to `position` have made, for who is too far behind. `changes` are encoded ones.

    Parts count from 0. Those of definitions come first. For a primary, others follow: `work` says what replicated
    queues hold, and `entries` what the log has told meanwhile. The first part has the newest place that the receiver's
    log has in `common` with this one, as far as that is known. The last has the position, the cluster's own name, and
    the transactions that are not known to be answered: whose, its number, and the first of that one's.
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
    """A follower has so many parts of a snapshot, and needs no memory for what they hold: more may come."""

    epoch: int
    parts: int


class Held(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A follower holds the log up to here, and has it on disk up to there. `is_pledged` as it enlists."""

    epoch: int
    position: Position
    on_disk: Position = Position()
    is_pledged: bool = False


class Founded(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The root tells the cluster's own name, which is sure to stay."""

    uuid: str


class Fetch(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A root to be, to the voter that holds most: give me what comes after this. `ends` as a follower tells them."""

    epoch: int
    after: Position
    ends: list[Position] = []


# -- questions to the root


class Define(msgspec.Struct, frozen=True, tag=True):
    """Make this change, for all."""

    change: bytes


class Purge(msgspec.Struct, frozen=True, tag=True):
    vhost: bytes
    queue: bytes


class Inspect(msgspec.Struct, frozen=True, tag=True):
    """How many messages and consumers a shared queue has."""

    vhost: bytes
    queue: bytes


class Get(msgspec.Struct, frozen=True, tag=True):
    """basic.get; `source` is the number under which the answer is settled later."""

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
    """Do this transaction: all of it, or nothing, and once.

    `run` and `number` name it among all; those before `oldest` will not be asked for again. `publications` are
    exchange, routing key, header and body. `settled` is said of deliveries by the root of `epoch`, and void under any
    other; with `is_bound` that root has settled such as well, for a client of its own.
    """

    run: bytes
    number: int
    oldest: int
    epoch: int
    vhost: bytes
    publications: list[tuple[bytes, bytes, bytes, bytes]]
    settled: list[Settle]
    is_bound: bool = False


Question: TypeAlias = Define | Purge | Inspect | Get | Consume | Commit


class Ask(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    number: int
    question: Question


class Failure(msgspec.Struct, frozen=True):
    """What stood against it; `closes_connection` where a channel is not enough."""

    code: int
    text: str
    closes_connection: bool = False


class FetchedMessage(msgspec.Struct, frozen=True):
    """The message that a basic.get has fetched, and how many are left. `number` is what it is settled by."""

    number: int
    exchange: bytes
    routing_key: bytes
    header: bytes
    body: bytes
    deliveries: int
    left: int


class Answer(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """By the question: how many messages were purged or deleted, what a queue has, or a fetched message; which
    publishes of a transaction, counted from 0, no queue wanted.

    It speaks of a time when the log was at `position`.
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

    `flags` say what they may reach (`relay.Reach`). With a `source` they are the deliveries to that consumer. `run`
    tells what is confirmed on a lane from what was on one of its number before: it is for the root of that `epoch`, and
    nobody else takes it for shared queues. With a `queue` they are for that queue; values in it that have places from
    `since` on (if not 0) are later than these.
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
    """What became of the publishes of a lane, counted from 1: `(first, last, accepted)`.

    `unroutable` are those that no queue wanted.
    """

    lane: int
    run: int
    verdicts: list[tuple[int, int, bool]]
    unroutable: list[int] = []


class Pressure(msgspec.Struct, frozen=True, tag=True):
    """The sender is, or is not any more, short of memory: who publishes to its queues should wait."""

    is_high: bool


# -- meta-bindings


class Interest(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What messages the sender wants. An item is `(vhost, exchange, routing key, arguments as a table or empty)`.

    From one that `is_first` to one that `is_last` all is told anew: what is not among it is not wanted any more. With
    `of_others` it is what the other secondaries want.
    """

    added: list[tuple[bytes, bytes, bytes, bytes]] = []
    removed: list[tuple[bytes, bytes, bytes, bytes]] = []
    is_first: bool = False
    is_last: bool = False
    of_others: bool = False


class InterestDigest(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """How many items the sender has told, and all their hashes folded into one."""

    count: int
    digest: int
    of_others: bool = False


class InterestLost(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The digest did not fit: tell all anew."""

    of_others: bool = False


# -- consumers of shared queues


class Taken(msgspec.Struct, frozen=True, tag=True):
    """Deliveries up to this number have gone on to the client: more may come."""

    source: int
    number: int


class Settle(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What a client said to its deliveries, by their numbers; `acked` are ranges, first and last in turn."""

    source: int
    acked: list[int] = []
    returned: list[int] = []
    rejected: list[int] = []


class Prefetch(msgspec.Struct, frozen=True, tag=True):
    source: int
    count: int


class Cancel(msgspec.Struct, frozen=True, tag=True):
    """The consumer is gone. What it holds goes back, or stays with its client until that settles it.

    With 0 for the source, all that the sender has consumed or fetched goes back.
    """

    source: int
    keeps: bool = False


class Cancelled(msgspec.Struct, frozen=True, tag=True):
    """The queue is gone."""

    source: int


Message: TypeAlias = (
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
_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


def encode(message: Message) -> bytes:
    return _encoder.encode(message)


def decode(body: bytes) -> Message:
    """ValueError where it is no message of ours."""
    return _decoder.decode(body)
