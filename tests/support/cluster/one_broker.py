"""A broker of one in memory, with a disk that does what it is told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from openclust.broker.journal.journal import Journal
from openclust.broker.journal.store_rows import Contents, Keep, StoredRow
from openclust.broker.server.broker import Broker
from openclust.cluster.election.events import StoreRead
from openclust.cluster.election.view import Terms, begin
from openclust.cluster.membership.membership import Membership
from openclust.cluster.protocol.bounds import Bounds
from openclust.cluster.protocol.hello import Hello
from openclust.node import Node
from openclust.wire.methods import (
    BasicAck,
    BasicNack,
    ConfirmSelect,
    ConfirmSelectOk,
    Method,
    QueueDeclare,
    QueueDeclareOk,
)
from tests.support.client import Client, new_broker
from tests.support.cluster.joined import HEARTBEAT_MS
from tests.support.driver import Driver

WAIT_MS = 30_000
UNWRITTEN_MAX = 4_000

T = TypeVar("T", bound=Method)


class Disk:
    """What is to be written, until it is told to have been."""

    def __init__(self, broker: Broker, membership: Membership) -> None:
        self.node = Node(broker, membership)
        self.driver = Driver(broker, self.node)
        self.broker = broker
        self.membership = membership
        self.failure = ""
        self.notes: list[str] = []
        self.written: list[StoredRow] = []
        broker.note = self._note  # type: ignore[method-assign]

    def _note(self, level: str, event: str, *_: Any, **fields: Any) -> None:
        self.notes.append(event)

    def size(self) -> int:
        return sum(len(getattr(write, "body", b"")) for write in self.driver.writes)

    def failed(self, why: str) -> None:
        self.failure = why
        self.look()

    def write(self) -> None:
        """All that waits gets there."""
        self.failure = ""
        self.driver.write(self.membership.store_writes.take_writes())
        self.written += [StoredRow(write, is_told=False) for write in self.driver.writes if isinstance(write, Keep)]
        self.driver.writes.clear()
        self.node.stored(self.membership.store_writes.given, self.broker.now_ms)

    def look(self) -> None:
        self.node.disk_is(self.failure, self.size(), self.broker.now_ms)


class One:
    """A broker of one with a disk, which has a durable queue `q` and a client that wants confirms.

    Its disk has `rows`, or a log that ends at `base`.
    """

    def __init__(self, rows: Sequence[StoredRow] = (), base: int = 0, **limits: Any) -> None:
        self.broker = new_broker(journal=Journal(has_disk=True), unwritten_bytes_max=UNWRITTEN_MAX, **limits)
        now_ms = self.broker.now_ms
        hello = Hello(cluster_key="k", name="one")
        election = begin(Terms(primaries=("one",), heartbeat_ms=HEARTBEAT_MS), "one", now_ms, now_ms)
        self.membership = Membership(self.broker, hello, "", election, bounds=Bounds(root_wait_ms=WAIT_MS))
        self.base = base
        self.disk = Disk(self.broker, self.membership)
        self.disk.written += rows
        self.membership.recover(Contents(epoch=min(base, 1), sequence=base, rows=list(rows)))
        self.membership.tell(StoreRead(now_ms))
        self.rest()
        assert self.membership.is_root
        self.disk.write()
        self.client = Client(self.broker)
        self.call(QueueDeclare(queue="q", durable=True), QueueDeclareOk)
        self.client.call(ConfirmSelect(), ConfirmSelectOk)
        self.disk.notes.clear()

    def rest(self) -> None:
        for _ in range(3):
            self.disk.driver.turn()

    def tick(self, ms: int, *, writes: bool = False) -> None:
        """So much time passes, a heartbeat at a time."""
        for _ in range(ms // HEARTBEAT_MS):
            self.broker.tick(self.broker.now_ms + HEARTBEAT_MS)
            if writes:
                self.disk.write()
            self.disk.look()
            self.membership.tick()
            self.rest()

    def call(self, method: Method, want: type[T]) -> T:
        """The answer, for which all that waits is written."""
        self.client.send(method)
        self.rest()
        self.disk.write()
        self.rest()
        answer: T = self.client.reply(1, want)
        return answer

    def restarted(self) -> One:
        """What has become of it after a kill -9: nothing that was not written."""
        return One(self.disk.written, self.base)

    def publish(self, body: bytes = b"x", *, mode: int = 2) -> None:
        self.client.publish("q", body, delivery_mode=mode)
        self.rest()
        self.disk.look()
        self.rest()

    def confirms(self) -> list[tuple[type, int]]:
        found, self.client.confirms = self.client.confirms, []
        return [(type(each), each.delivery_tag) for each in found if isinstance(each, BasicAck | BasicNack)]
