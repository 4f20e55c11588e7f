"""What outlives a broker: what it hands to its store, in order, and what it finds there when it starts.

The store keeps rows as they come (`Keep`). From time to time a checkpoint takes their place: the definitions, and the
messages that are still there, in pages of one queue each. A row is never changed; a page only loses messages.

All of this is bytes and numbers. Who makes and reads the bodies is `cluster/storage/batch_commit.py`.
"""

from __future__ import annotations

from typing import Protocol, TypeAlias

import msgspec


class Keep(msgspec.Struct, frozen=True):
    """A row: an entry of the log, or, with sequence 0, work that only this broker keeps."""

    kind: str
    epoch: int
    sequence: int
    body: bytes


class Cut(msgspec.Struct, frozen=True):
    """The log's rows with a higher sequence go: another root's entries take their place."""

    sequence: int


class Page(msgspec.Struct, frozen=True):
    """Messages of one queue, in their order. `number` ascends with every page of a broker, and is never used twice."""

    number: int
    vhost: str
    queue: str
    first: int
    last: int
    count: int
    size: int
    body: bytes


class Checkpoint(msgspec.Struct, frozen=True):
    """All rows before this are told by it: they go, but for those of the log with a sequence above `keep_after`.

    `definitions` take the place of those before; None leaves them. `pages` are new ones, `gone` those whose messages
    are all gone; `dead` are the sequences of the messages that are gone from a page, in bytes, which take the place
    of what was said of that page before.
    """

    epoch: int
    sequence: int
    keep_after: int
    definitions: list[bytes] | None
    pages: list[Page]
    dead: list[tuple[int, bytes]]
    gone: list[int]


class Spool(msgspec.Struct, frozen=True):
    """A part of a snapshot on its way. Part 0 begins anew: what was spooled before goes."""

    part: int
    body: bytes


class Ahead(msgspec.Struct, frozen=True):
    """Pages of a snapshot that is being put to use. None of them counts before a `Restart` keeps it: a store that is
    opened before that has none of them, nor has one in which another snapshot begins.
    """

    pages: list[Page]


class Restart(msgspec.Struct, frozen=True):
    """A snapshot is in force: all rows and definitions go, and all pages but those `kept`, which may have been laid
    ahead. The log goes on after this place.

    A checkpoint that tells the new state follows in the same turn.
    """

    epoch: int
    sequence: int
    kept: list[int] = []


Write: TypeAlias = Keep | Cut | Checkpoint | Spool | Ahead | Restart


class StoredRow(msgspec.Struct, frozen=True):
    """A row as it is found. With `is_told`, a checkpoint after it has told what it did: it is there for the log."""

    row: Keep
    is_told: bool


class PageInfo(msgspec.Struct, frozen=True):
    """A page as it is found, without its body. `dead` as the last checkpoint said."""

    number: int
    vhost: str
    queue: str
    first: int
    last: int
    count: int
    size: int
    dead: bytes


class Contents(msgspec.Struct, frozen=True):
    """All that a store holds when its broker starts: the last checkpoint, and the rows since, in their order."""

    epoch: int = 0
    sequence: int = 0
    definitions: list[bytes] = []
    pages: list[PageInfo] = []
    rows: list[StoredRow] = []


class StoreReader(Protocol):
    """Where the broker reads what it has written before."""

    def page(self, number: int) -> bytes:
        """The body of a page; OSError where it cannot be read."""

    def spooled(self, part: int) -> bytes:
        """A part of the snapshot on its way; OSError where it cannot be read."""
