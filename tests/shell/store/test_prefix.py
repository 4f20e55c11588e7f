"""Whatever is written and whenever the power goes: what is found is what was written up to some point, and to no point
before what was told as done.

`Told` is a store as one would write it down, without a disk.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from openclust.broker.journal.store_rows import (
    Ahead,
    Checkpoint,
    Contents,
    Cut,
    Keep,
    Page,
    Restart,
    Spool,
    StoredRow,
    Write,
)
from tests.support.examples import examples
from tests.support.opened_store import Opened, found, info

MEMORY = "/dev/shm"
BODIES = st.binary(max_size=20) | st.integers(0, 40_000).map(bytes)


class Told:
    """What a store should hold."""

    def __init__(self) -> None:
        self.epoch = self.sequence = 0
        self.definitions: list[bytes] = []
        self.pages: dict[int, tuple[Page, bytes]] = {}
        self.ahead: dict[int, tuple[Page, bytes]] = {}
        self.rows: list[StoredRow] = []

    def perform(self, write: Write) -> None:
        match write:
            case Keep():
                self.rows.append(StoredRow(write, False))
            case Cut():
                self.rows = [kept for kept in self.rows if kept.row.sequence <= write.sequence]
            case Checkpoint():
                self.epoch, self.sequence = write.epoch, write.sequence
                self.rows = [StoredRow(kept.row, True) for kept in self.rows if kept.row.sequence > write.keep_after]
                if write.definitions is not None:
                    self.definitions = write.definitions
                self.pages |= {page.number: (page, b"") for page in write.pages}
                self.pages |= {number: (self.pages[number][0], dead) for number, dead in write.dead}
                for number in write.gone:
                    del self.pages[number]
            case Ahead():
                self.ahead |= {page.number: (page, b"") for page in write.pages}
            case Restart():
                there = self.pages | self.ahead
                self.__init__()  # type: ignore[misc]
                self.epoch, self.sequence = write.epoch, write.sequence
                self.pages = {number: there[number] for number in write.kept}
            case Spool():
                if write.part == 0:
                    self.ahead.clear()

    def contents(self) -> Contents:
        pages = [info(page, dead) for _, (page, dead) in sorted(self.pages.items())]
        return Contents(self.epoch, self.sequence, self.definitions, pages, list(self.rows))


@st.composite
def new_pages(draw: st.DrawFn, number: int) -> list[Page]:
    return [
        Page(number + each, "/", draw(st.sampled_from(["a", "b", "\udcff"])), 1, 2, 2, 9, draw(BODIES))
        for each in range(draw(st.integers(0, 3)))
    ]


@st.composite
def turns(draw: st.DrawFn) -> list[list[Write]]:
    """Writes as a broker makes them: sequences without a gap, numbers of pages that ascend."""
    sequence, told, pages, ahead, next_page = 0, 0, set[int](), set[int](), 1
    turns: list[list[Write]] = []
    for kinds in draw(
        st.lists(st.lists(st.sampled_from("kkkkkkllccrsaxx"), min_size=1, max_size=6), min_size=1, max_size=8)
    ):
        turn: list[Write] = []
        for kind in kinds:
            if kind == "k":
                sequence += 1
                turn.append(Keep("work", 1, sequence, draw(BODIES)))
            elif kind == "l":
                turn.append(Keep("local", 0, 0, draw(BODIES)))
            elif kind == "x":
                sequence = draw(st.integers(told, sequence))
                turn.append(Cut(sequence))
            elif kind == "s":
                part = draw(st.integers(0, 2))
                if part == 0:
                    ahead.clear()
                turn.append(Spool(part, draw(BODIES)))
            elif kind == "a":
                new = draw(new_pages(next_page))
                next_page += len(new)
                ahead |= {page.number for page in new}
                turn.append(Ahead(new))
            elif kind == "r":
                sequence = told = sequence + draw(st.integers(1, 9))
                there = sorted(pages | ahead)
                pages = draw(st.sets(st.sampled_from(there))) if there else set()
                ahead.clear()
                turn.append(Restart(2, sequence, sorted(pages)))
            else:
                told = sequence
                new = draw(new_pages(next_page))
                next_page += len(new)
                pages |= {page.number for page in new}
                gone = draw(st.sets(st.sampled_from(sorted(pages)))) if pages else set()
                pages -= gone
                dead = [(number, draw(st.binary(max_size=9))) for number in sorted(pages)[:2]]
                definitions = draw(st.none() | st.lists(st.binary(max_size=9), max_size=3))
                after = draw(st.integers(0, sequence))
                turn.append(Checkpoint(1, sequence, after, definitions, new, dead, sorted(gone)))
        turns.append(turn)
    return turns


def states(turns: list[list[Write]]) -> list[Contents]:
    """What a store should hold after each turn, beginning with none."""
    told = Told()
    result = [told.contents()]
    for turn in turns:
        for write in turn:
            told.perform(write)
        result.append(told.contents())
    return result


def settled(turns: list[list[Write]], at: int) -> int:
    """The last turn up to there after which nothing is laid ahead: a broker that dies in between forgets that."""
    told = Told()
    last = 0
    for number, turn in enumerate(turns[:at], 1):
        for write in turn:
            told.perform(write)
        if not told.ahead:
            last = number
    return last


@contextmanager
def folder() -> Iterator[Path]:
    # In memory where there is such a place: hundreds of stores, and none of them has to be on a disk.
    with tempfile.TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else None) as name:
        yield Path(name)


quick = examples(10, suppress=[HealthCheck.too_slow])


@quick
@given(turns(), st.integers(0, 8))
def test_after_a_restart_all_is_found(turns: list[list[Write]], reopened: int) -> None:
    with folder() as place:
        at = settled(turns, reopened)
        for part in (turns[:at], turns[at:]):
            opened = Opened(place, wal_bytes=30_000)
            for turn in part:
                opened.give(*turn)
            assert opened.close()
        assert found(place) == states(turns)[-1]


@quick
@given(turns(), st.integers(0, 8), st.data())
def test_after_the_power_went_a_prefix_is_found_with_all_that_was_done(
    turns: list[list[Write]], done: int, data: st.DataObject
) -> None:
    """The log is torn at any byte after what was done: so much of the rest a disk may have kept unasked."""
    done = min(done, len(turns))
    with folder() as place, folder() as copy:
        opened = Opened(place, wal_bytes=1 << 30)
        for turn in turns[:done]:
            opened.write(*turn)
        log = place / "store.sqlite-wal"
        kept_bytes = log.stat().st_size
        for turn in turns[done:]:
            opened.write(*turn)
        for name in ("store.sqlite", "store.sqlite-wal"):
            shutil.copy(place / name, copy / name)
        opened.close()
        torn = data.draw(st.integers(kept_bytes, (copy / log.name).stat().st_size))
        with (copy / log.name).open("r+b") as file:
            file.truncate(torn)
        expected = states(turns)
        assert found(copy) in expected[done:]
        assert torn > kept_bytes or found(copy) == expected[done]


@quick
@given(turns())
def test_files_copied_while_the_log_is_moved_hold_all_that_was_done(turns: list[list[Write]]) -> None:
    with folder() as place:
        opened = Opened(place, wal_bytes=30_000)
        for turn, expected in zip(turns, states(turns)[1:], strict=True):
            opened.write(*turn)
            with folder() as copy:
                for name in ("store.sqlite", "store.sqlite-wal"):
                    shutil.copy(place / name, copy / name)
                assert found(copy) == expected
        opened.close()
