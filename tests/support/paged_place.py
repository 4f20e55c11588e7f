"""A queue whose backlog is paged, and the disk that has its pages."""

from __future__ import annotations

from openclust.broker.backlog.backlog import Entry, FifoBacklog
from openclust.broker.backlog.page import PageState, decode_page, found_page
from openclust.broker.backlog.paged_backlog import PagedBacklog, UnloadedEntries
from openclust.broker.journal.journal import KEPT, Journal
from openclust.broker.journal.page_store import PageStore
from openclust.broker.model.message import Message, delivery_suffix
from openclust.broker.queues.queue import Queue
from openclust.broker.server.broker import Broker
from openclust.wire.methods import QueueDeclare, QueueDeclareOk
from openclust.wire.properties import Properties, encode_header
from tests.support.client import Client, new_broker


class Disk:
    """The pages of one broker."""

    def __init__(self) -> None:
        self.pages: dict[int, bytes] = {}
        self.page_states: dict[int, PageState] = {}
        self.reads = 0
        self.is_broken = False

    def page(self, number: int) -> bytes:
        if self.is_broken:
            raise OSError(5, "input/output error")
        self.reads += 1
        return self.pages[number]

    def spooled(self, part: int) -> bytes:
        raise OSError(2, "no such part")


class Place:
    """A queue whose backlog is paged, and its disk."""

    def __init__(self) -> None:
        self.broker: Broker = new_broker(journal=Journal(has_disk=True))
        Client(self.broker).call(QueueDeclare(queue="q", durable=True), QueueDeclareOk)
        self.queue: Queue = self.broker.vhosts["/"].queues["q"]
        self.disk = Disk()
        self.page_store: PageStore = self.broker.journal.page_store
        self.page_store.source = self.disk
        self.backlog = PagedBacklog(self.queue, self.page_store, FifoBacklog(), self.broker.memory_accounts)
        self.queue.backlog = self.backlog
        self.seq = 0

    def entry(self, *, recorded: int = -KEPT, expires_ms: int = 0, size: int = 10) -> Entry:
        self.seq += 1
        header = encode_header(Properties(delivery_mode=2), size)
        body = b"%d" % self.seq + bytes(size)
        message = Message("", "q", header, body, delivery_suffix("", "q"))
        return Entry(message, self.seq, expires_ms, recorded=recorded)

    def push(self, count: int, **options: int) -> list[Entry]:
        entries = [self.entry(**options) for _ in range(count)]
        for one in entries:
            self.broker.memory_accounts.hold(one.message)
            self.backlog.push(one)
            if one.recorded:
                self.page_store.entered(self.queue, one)
        return entries

    def settle(self, count: int) -> list[Entry]:
        """So many are delivered, and acknowledged."""
        taken = [one for _ in range(count) if (one := self.backlog.pop()) is not None]
        for one in taken:
            self.page_store.left(self.queue, one)
        return taken

    def put_back(self, entry: Entry) -> None:
        entry.recorded = -KEPT
        self.page_store.entered(self.queue, entry)
        self.backlog.put_back(entry)

    def undo(self, seq: int) -> None:
        """It leaves by a batch that is abandoned: of that nobody tells the page store."""
        one = self.backlog.find(seq)
        if one is not None and one.recorded and not isinstance(one, UnloadedEntries):
            self.queue.reinstate(self.queue.detach(one))
            # Who follows asks for places: from then on it is among those that may leave memory.
            assert self.backlog.find(seq) is not None

    def checkpoint(self) -> None:
        found = self.page_store.collect(0, 0, "", [])
        disk = self.disk
        disk.pages.update({page.number: page.body for page in found.pages})
        disk.page_states.update(
            {
                each.number: found_page(each.number, each.first, each.last, each.count, each.size, b"")
                for each in found.pages
                if each.count
            }
        )
        for number, notes in found.dead:
            each = disk.page_states[number]
            disk.page_states[number] = found_page(number, each.first, each.last, 1, 0, notes)
        for number in found.gone:
            del disk.pages[number]
            disk.page_states.pop(number, None)
        self.page_store.written(1)

    def found(self) -> dict[int, bytes]:
        """What a broker would find that starts with this disk."""
        found: dict[int, bytes] = {}
        for number, each in self.disk.page_states.items():
            for one in decode_page(each, each.alive, self.disk.pages[number], -KEPT, 0):
                assert one.seq not in found, "it is in two pages"
                found[one.seq] = one.message.body
        return found

    def unload(self) -> int:
        return self.backlog.unload(2**40, 1)
