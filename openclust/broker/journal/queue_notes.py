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

PLACES_PAGES_MAX = 32
"""With more pages of places than that, each new one takes over what still counts of the oldest."""
KEYS_PAGE_FULL = 4_096
"""A slip with fewer keys is written anew, with the next ones."""


class PlacesPage(msgspec.Struct, array_like=True):
    """One page of words: vhost, queue, the last place that was given, the highest that was delivered.

    Of a queue that is gone both are 0: the words of older pages of places are not those of another with its name.
    The cluster's own name, and the transactions that may be asked for again, are those of the newest places.
    """

    uuid: str
    words: list[tuple[bytes, bytes, int, int]]
    commits: list[tuple[bytes, int, int]] = []


class KeysPage(msgspec.Struct, array_like=True):
    """Keys in the order in which they came, and when, by the wall clock."""

    keys: list[tuple[bytes, int]]


class _KeysPages:
    """The keys_pages of one window, and how many keys had come when the last one was written."""

    def __init__(self, window: DedupWindow) -> None:
        self.window = window
        self.discarded = window.discarded
        self.written_count = 0
        self.pages: deque[tuple[int, int]] = deque()


_encoder = msgspec.msgpack.Encoder()
_places_decoder = msgspec.msgpack.Decoder(PlacesPage)
_keys_decoder = msgspec.msgpack.Decoder(KeysPage)


class QueueNotes:
    """`mention` queues of which there is something new."""

    def __init__(self) -> None:
        self.uuid = ""
        self.commits: list[tuple[bytes, int, int]] = []
        self._mentioned: dict[Queue, None] = {}
        self._dropped: list[Queue] = []
        self._places_pages: dict[int, list[Queue]] = {}
        self._places_page_of: dict[Queue, int] = {}
        self._keys_pages: dict[Queue, _KeysPages] = {}
        self._stale: list[int] = []

    def mention(self, queues: Iterable[Queue]) -> None:
        self._mentioned.update(dict.fromkeys(queues))

    def dropped(self, queue: Queue) -> list[int]:
        """A queue is gone: the pages that are of it alone."""
        self._mentioned.pop(queue, None)
        if self._places_page_of.pop(queue, None) is not None:
            self._dropped.append(queue)
        return self._drop_keys_pages(queue)

    def _drop_keys_pages(self, queue: Queue) -> list[int]:
        keys_pages = self._keys_pages.pop(queue, None)
        return [number for number, _ in keys_pages.pages] if keys_pages is not None else []

    def collect(
        self, uuid: str, commits: list[tuple[bytes, int, int]], next_number: Callable[[], int]
    ) -> tuple[list[Page], list[int]]:
        """New pages, and those that are gone."""
        gone, self._stale = self._stale, []
        mentioned, self._mentioned = self._mentioned, {}
        alive = [queue for queue in mentioned if queue.is_alive and queue.durability_level]
        pages: list[Page] = []
        for queue in alive:
            if queue.dedup is not None or queue in self._keys_pages:
                pages += self._keys_pages_of(queue, next_number, gone)
        if len(self._places_pages) >= PLACES_PAGES_MAX:
            oldest = next(iter(self._places_pages))
            counting = [queue for queue in self._places_pages.pop(oldest) if self._places_page_of.get(queue) == oldest]
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
            pages.append(_page(number, "", "", 0, _encoder.encode(PlacesPage(uuid, words, commits))))
            self._places_pages[number] = alive
            self._places_page_of.update(dict.fromkeys(alive, number))
        return pages, gone

    def _keys_pages_of(self, queue: Queue, next_number: Callable[[], int], gone: list[int]) -> list[Page]:
        keys_pages, window = self._keys_pages.get(queue), queue.dedup
        if keys_pages is not None and (keys_pages.window is not window or keys_pages.discarded != window.discarded):
            gone += self._drop_keys_pages(queue)
            keys_pages = None
        if window is None:
            return []
        if keys_pages is None:
            keys_pages = self._keys_pages[queue] = _KeysPages(window)
        new = window.added - keys_pages.written_count
        if new <= 0:
            return []
        keys_pages.written_count = window.added
        if keys_pages.pages and keys_pages.pages[-1][1] < KEYS_PAGE_FULL:
            number, count = keys_pages.pages.pop()
            gone.append(number)
            new += count
        offset_ms = queue.vhost.broker.wall_offset_ms
        keys = [(encode_text(key), first_ms + offset_ms) for key, first_ms in window.newest(new)]
        number = next_number()
        keys_pages.pages.append((number, len(keys)))
        while sum(count for _, count in keys_pages.pages) - keys_pages.pages[0][1] >= len(window):
            if len(keys_pages.pages) == 1:
                break
            gone.append(keys_pages.pages.popleft()[0])
        return [_page(number, queue.vhost.name, queue.name, len(keys), _encoder.encode(KeysPage(keys)))]

    # -- a beginning

    def found_places(self, broker: QueueBroker, number: int, body: bytes) -> None:
        """A page without a queue, oldest first. ValueError where it is none."""
        places = _places_decoder.decode(body)
        self.uuid, self.commits = places.uuid or self.uuid, places.commits
        queues: list[Queue] = []
        for vhost_name, name, next_seq, reached in places.words:
            vhost = broker.vhosts.get(decode_text(vhost_name))
            queue = vhost.queues.get(decode_text(name)) if vhost is not None else None
            if queue is not None:
                queues.append(queue)
                queue.next_seq, queue.reached = next_seq, reached
        self._places_pages[number] = queues
        self._places_page_of.update(dict.fromkeys(queues, number))

    def found_keys(self, queue: Queue, number: int, body: bytes) -> None:
        """A page of a queue without messages, oldest first. ValueError where it is none."""
        keys = _keys_decoder.decode(body).keys
        if queue.dedup is None:
            self._stale.append(number)
            return
        keys_pages = self._keys_pages.setdefault(queue, _KeysPages(queue.dedup))
        keys_pages.pages.append((number, len(keys)))
        offset_ms = queue.vhost.broker.wall_offset_ms
        for key, first_ms in keys:
            queue.dedup.seen(decode_text(key), first_ms - offset_ms)
        keys_pages.written_count = queue.dedup.added


def _page(number: int, vhost: str, queue: str, size: int, body: bytes) -> Page:
    return Page(number, vhost, queue, 0, 0, 0, size, body)
