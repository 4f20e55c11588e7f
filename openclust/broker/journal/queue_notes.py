"""What is to be known of queues beside their messages: places that were given, places that were reached, keys seen.

It lies in the store as pages without messages: pages of many queues, in which the newest word of each counts, and pages
of one queue with the keys of its dedup window, in the order in which they came.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import msgspec

from openclust.broker.journal.store_rows import Page
from openclust.wire.text import decode_text, encode_text

if TYPE_CHECKING:
    from openclust.broker.queues.dedup import DedupWindow
    from openclust.broker.queues.queue import Queue, QueueBroker

SHEETS_MAX = 32
"""With more sheets than that, each new one takes over what still counts of the oldest."""
SLIP_KEYS = 4_096
"""A slip with fewer keys is written anew, with the next ones."""


class Sheet(msgspec.Struct, array_like=True):
    """One page of words: vhost, queue, the last place that was given, the highest that was delivered.

    Of a queue that is gone both are 0: the words of older sheets are not those of another with its name.
    The cluster's own name, and the transactions that may be asked for again, are those of the newest sheet.
    """

    uuid: str
    words: list[tuple[bytes, bytes, int, int]]
    commits: list[tuple[bytes, int, int]] = []


class Slip(msgspec.Struct, array_like=True):
    """Keys in the order in which they came, and when, by the wall clock."""

    keys: list[tuple[bytes, int]]


class _Slips:
    """The slips of one window, and how many keys had come when the last one was written."""

    def __init__(self, window: DedupWindow) -> None:
        self.window = window
        self.discarded = window.discarded
        self.told = 0
        self.slips: deque[tuple[int, int]] = deque()


_encoder = msgspec.msgpack.Encoder()
_sheet = msgspec.msgpack.Decoder(Sheet)
_slip = msgspec.msgpack.Decoder(Slip)


class Notebook:
    """`mention` queues of which there is something new."""

    def __init__(self) -> None:
        self.uuid = ""
        self.commits: list[tuple[bytes, int, int]] = []
        self._mentioned: dict[Queue, None] = {}
        self._dropped: list[Queue] = []
        self._sheets: dict[int, list[Queue]] = {}
        self._sheet_of: dict[Queue, int] = {}
        self._slips: dict[Queue, _Slips] = {}
        self._stale: list[int] = []

    def mention(self, queues: Iterable[Queue]) -> None:
        self._mentioned.update(dict.fromkeys(queues))

    def dropped(self, queue: Queue) -> list[int]:
        """A queue is gone: the pages that are of it alone."""
        self._mentioned.pop(queue, None)
        if self._sheet_of.pop(queue, None) is not None:
            self._dropped.append(queue)
        return self._drop_slips(queue)

    def _drop_slips(self, queue: Queue) -> list[int]:
        slips = self._slips.pop(queue, None)
        return [number for number, _ in slips.slips] if slips is not None else []

    def collect(
        self, uuid: str, commits: list[tuple[bytes, int, int]], next_number: Callable[[], int]
    ) -> tuple[list[Page], list[int]]:
        """New pages, and those that are gone."""
        gone, self._stale = self._stale, []
        mentioned, self._mentioned = self._mentioned, {}
        alive = [queue for queue in mentioned if queue.is_alive and queue.records]
        pages: list[Page] = []
        for queue in alive:
            if queue.dedup is not None or queue in self._slips:
                pages += self._slips_of(queue, next_number, gone)
        if len(self._sheets) >= SHEETS_MAX:
            oldest = next(iter(self._sheets))
            counting = [queue for queue in self._sheets.pop(oldest) if self._sheet_of.get(queue) == oldest]
            alive += [queue for queue in counting if queue not in mentioned]
            gone.append(oldest)
        dropped, self._dropped = self._dropped, []
        if alive or dropped or gone or uuid != self.uuid or commits != self.commits:
            self.uuid, self.commits = uuid, commits
            number = next_number()
            words = [(encode_text(queue.vhost.name), encode_text(queue.name), 0, 0) for queue in dropped]
            words += [
                (encode_text(queue.vhost.name), encode_text(queue.name), queue.next_seq, queue.reached)
                for queue in alive
            ]
            pages.append(_page(number, "", "", 0, _encoder.encode(Sheet(uuid, words, commits))))
            self._sheets[number] = alive
            self._sheet_of.update(dict.fromkeys(alive, number))
        return pages, gone

    def _slips_of(self, queue: Queue, next_number: Callable[[], int], gone: list[int]) -> list[Page]:
        slips, window = self._slips.get(queue), queue.dedup
        if slips is not None and (slips.window is not window or slips.discarded != window.discarded):
            gone += self._drop_slips(queue)
            slips = None
        if window is None:
            return []
        if slips is None:
            slips = self._slips[queue] = _Slips(window)
        new = window.added - slips.told
        if new <= 0:
            return []
        slips.told = window.added
        if slips.slips and slips.slips[-1][1] < SLIP_KEYS:
            number, count = slips.slips.pop()
            gone.append(number)
            new += count
        offset_ms = queue.vhost.broker.wall_offset_ms
        keys = [(encode_text(key), first_ms + offset_ms) for key, first_ms in window.newest(new)]
        number = next_number()
        slips.slips.append((number, len(keys)))
        while sum(count for _, count in slips.slips) - slips.slips[0][1] >= len(window):
            if len(slips.slips) == 1:
                break
            gone.append(slips.slips.popleft()[0])
        return [_page(number, queue.vhost.name, queue.name, len(keys), _encoder.encode(Slip(keys)))]

    # -- a beginning

    def found_sheet(self, broker: QueueBroker, number: int, body: bytes) -> None:
        """A page without a queue, oldest first. ValueError where it is none."""
        sheet = _sheet.decode(body)
        self.uuid, self.commits = sheet.uuid or self.uuid, sheet.commits
        queues: list[Queue] = []
        for vhost_name, name, next_seq, reached in sheet.words:
            vhost = broker.vhosts.get(decode_text(vhost_name))
            queue = vhost.queues.get(decode_text(name)) if vhost is not None else None
            if queue is not None:
                queues.append(queue)
                queue.next_seq, queue.reached = next_seq, reached
        self._sheets[number] = queues
        self._sheet_of.update(dict.fromkeys(queues, number))

    def found_slip(self, queue: Queue, number: int, body: bytes) -> None:
        """A page of a queue without messages, oldest first. ValueError where it is none."""
        keys = _slip.decode(body).keys
        if queue.dedup is None:
            self._stale.append(number)
            return
        slips = self._slips.setdefault(queue, _Slips(queue.dedup))
        slips.slips.append((number, len(keys)))
        offset_ms = queue.vhost.broker.wall_offset_ms
        for key, first_ms in keys:
            queue.dedup.seen(decode_text(key), first_ms - offset_ms)
        slips.told = queue.dedup.added


def _page(number: int, vhost: str, queue: str, size: int, body: bytes) -> Page:
    return Page(number, vhost, queue, 0, 0, 0, size, body)
