"""A snapshot: its definitions are taken part by part, while they change; and all its parts arrive at another broker."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from openclust.broker.journal.store_rows import Spool, StoreReader
from openclust.broker.model.change_codec import encode_change
from openclust.broker.model.changes import Change
from openclust.cluster.protocol.messages import Arrived, Snapshot, decode, encode
from openclust.cluster.protocol.status import Position

if TYPE_CHECKING:
    from openclust.broker.journal.page_store import PageStore
    from openclust.cluster.protocol.links import Links
    from openclust.cluster.storage.disk_health import DiskHealth
    from openclust.cluster.storage.store_writes import StoreWrites


class Making:
    """Call `advance` once a turn until it `is_made`, and `changed` for each change of a definition meanwhile.

    A definition that changes is taken as it was before or after the change. The changes follow at the end, and put the
    definitions right: the whole is the state at `position`.
    """

    def __init__(self, state: Iterator[Change], part_max: int) -> None:
        self.parts: list[list[bytes]] = []
        self.position = Position()
        self.is_made = False
        self._state = state
        self._part_max = part_max
        self._changed: list[bytes] = []

    def changed(self, body: bytes) -> None:
        """A definition has changed: this is the encoded change."""
        if not self.is_made:
            self._changed.append(body)

    def advance(self, position: Position) -> None:
        """Take the next part. `position` is the present end of the log."""
        part = [encode_change(each) for each in islice(self._state, self._part_max)]
        if len(part) == self._part_max:
            self.parts.append(part)
            return
        part += self._changed
        self.parts += [part[at : at + self._part_max] for at in range(0, len(part) or 1, self._part_max)]
        self.position = position
        self.is_made = True
        self._changed = []

    def message(self, part: int, epoch: int, uuid: str) -> Snapshot:
        """The message for one of the parts that were taken."""
        changes = self.parts[part]
        if not self.is_made or part < len(self.parts) - 1:
            return Snapshot(epoch=epoch, part=part, changes=changes, is_last=False)
        return Snapshot(epoch=epoch, part=part, changes=changes, position=self.position, uuid=uuid)


class Arriving:
    """The parts of a snapshot that have come. Definitions stay in memory, where each broker has all of them anyhow;
    other parts leave memory as soon as they are on disk. The sender is root, or was, and holds as many bytes.
    """

    def __init__(self, links: Links, page_store: PageStore, writes: StoreWrites, disk_health: DiskHealth) -> None:
        self._links = links
        self._page_store = page_store
        self._writes = writes
        self._disk_health = disk_health
        self.definitions: list[list[bytes]] = []
        # Of each other part: whether it has messages of queues, or entries of the log. And the parts that are still in
        # memory, each with the number of its write.
        self.contents: list[bool] = []
        self._in_memory: dict[int, tuple[int, bytes]] = {}
        self._count = 0
        # Parts that are not known to be on disk: the numbers of their writes, and how many parts came before each.
        self._under_way: deque[tuple[int, int]] = deque()
        self._told = 0
        self._of: tuple[str, int] = ("", 0)
        self.common = Position()

    def forget(self) -> None:
        """Drop all parts: the snapshot is asked for anew, or the log goes on without it."""
        self.definitions, self.contents, self._in_memory, self._count = [], [], {}, 0
        self._under_way.clear()
        self._told = 0

    def add(self, peer: str, message: Snapshot) -> bool:
        """Take a part; False where it is not the next one. The first begins anew, but not while the disk is full."""
        of = peer, message.epoch
        if message.part == 0:
            self.forget()
            self._of, self.common = of, message.common
        is_late = message.part == 0 and self._disk_health.is_full
        if is_late or message.part != self._count or of != self._of:
            self.forget()
            return False
        self._count += 1
        if message.changes:
            self.definitions.append(message.changes)
        if message.work or message.entries:
            self._spool(bool(message.work), message)
        return True

    @property
    def is_under_way(self) -> bool:
        """Whether parts that came are on their way to the disk."""
        return bool(self._under_way)

    def tell(self) -> bool:
        """Tell the sender how many parts are on disk. Whether that is more than it was told before."""
        under_way, done = self._under_way, self._writes.done
        while under_way and under_way[0][0] <= done:
            under_way.popleft()
        arrived = under_way[0][1] if under_way else self._count
        if arrived == self._told:
            return False
        self._told = arrived
        peer, epoch = self._of
        self._links.send(peer, Arrived(epoch=epoch, parts=arrived))
        return True

    def _spool(self, is_contents: bool, message: Snapshot) -> None:
        part, body = len(self.contents), encode(message)
        self.contents.append(is_contents)
        writes = self._writes
        writes.give(Spool(part, body))
        self._in_memory[part] = writes.given, body
        self._under_way.append((writes.given, self._count - 1))
        if writes.has_disk and self._store_reader is not None:
            for each in [each for each, (number, _) in self._in_memory.items() if number <= writes.done]:
                del self._in_memory[each]

    @property
    def _store_reader(self) -> StoreReader | None:
        return self._page_store.source

    def read(self, part: int) -> Snapshot:
        """A part with messages or entries; OSError or ValueError where it cannot be read from the disk."""
        if part in self._in_memory:
            body = self._in_memory[part][1]
        elif self._store_reader is not None:
            body = self._store_reader.spooled(part)
        else:
            raise OSError("nothing reads it")
        message = decode(body)
        if not isinstance(message, Snapshot):
            raise ValueError("it is no part of a snapshot")
        return message
