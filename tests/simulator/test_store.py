"""The model of a store is held against the real one: the same writes, the same contents."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator

import pytest

from openclust.broker.journal.store_rows import Ahead, Checkpoint, Cut, Keep, Page, Restart, Spool, Write
from openclust.shell.store.store_contents import read_contents
from openclust.shell.store.store_schema import TABLES
from openclust.shell.store.tables import Tables
from tests.simulator.store import ModelStore

GROUPS = 60


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.executescript(TABLES)
    yield connection
    connection.close()


class _Writes:
    """Writes as a broker may give them."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._last = 0
        self._number = 0
        self._pages: list[int] = []
        self._ahead: list[int] = []

    def any(self) -> Write:
        chance = self._chance
        kind = chance.randrange(20)
        if kind < 10:
            self._last += 1
            return Keep(chance.choice(("work", "change")), 1, self._last, chance.randbytes(3))
        if kind < 14:
            return Keep("own", 0, 0, chance.randbytes(3))
        if kind < 15:
            self._last = chance.randint(max(0, self._last - 2), self._last)
            return Cut(self._last)
        if kind < 16:
            part = chance.choice((0, 1, 2, 3))
            if part == 0:
                self._ahead.clear()
            return Spool(part, b"part")
        if kind < 17:
            pages = [self._page() for _ in range(chance.randrange(3))]
            self._ahead += [page.number for page in pages]
            return Ahead(pages)
        if kind < 18:
            there = self._pages + self._ahead
            self._pages = [number for number in there if chance.random() < 0.5]
            self._ahead.clear()
            self._last = chance.randint(0, 9)
            return Restart(2, self._last, list(self._pages))
        return self._checkpoint()

    def _checkpoint(self) -> Checkpoint:
        chance = self._chance
        gone = [number for number in self._pages if chance.random() < 0.3]
        self._pages = [number for number in self._pages if number not in gone]
        pages = [self._page() for _ in range(chance.randrange(3))]
        self._pages += [page.number for page in pages]
        dead = [(number, chance.randbytes(2)) for number in self._pages if chance.random() < 0.3]
        definitions = [b"a", b"b"] if chance.random() < 0.5 else None
        keep_after = chance.randint(0, self._last)
        return Checkpoint(1, self._last, keep_after, definitions, pages, dead, gone)

    def _page(self) -> Page:
        self._number += 1
        return Page(self._number, "/", "q\udcff", 1, 9, 2, 17, b"body %d" % self._number)


@pytest.mark.parametrize("seed", range(20))
def test_the_model_of_a_store_holds_what_the_real_one_does(seed: int, connection: sqlite3.Connection) -> None:
    chance = random.Random(seed)
    writes = _Writes(chance)
    model, tables = ModelStore(), Tables(connection)
    for _ in range(GROUPS):
        group = [writes.any() for _ in range(chance.randint(1, 3))]
        tables.perform(group)
        model.perform(group)
        # What is damaged is no matter here: these writes make little sense.
        contents = read_contents(connection, lambda text: None)
        assert model.contents() == contents
        for page in contents.pages:
            assert connection.execute("SELECT body FROM bodies WHERE number=?", (page.number,)).fetchone() == (
                model.page(page.number),
            )
        for part, body in connection.execute("SELECT part, body FROM spool").fetchall():
            assert model.spooled(part) == body
