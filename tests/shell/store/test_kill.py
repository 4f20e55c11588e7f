"""A process that writes is killed: all that it was told as done is there, and no gap before it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.opened_store import Opened, checkpoint, keep, page
from tests.support.paths import ROOT

pytestmark = pytest.mark.sockets

EVERY = 50


def body_of(sequence: int) -> bytes:
    return b"%d " % sequence * (sequence * 37 % 4_000)


def write_without_end(place: Path) -> None:
    """The child: prints the highest sequence that is done, whenever it is told."""
    opened = Opened(place, wal_bytes=1 << 20)
    sequence = told = 0
    while True:
        sequence += 1
        opened.give(keep(sequence, body_of(sequence)))
        if sequence % EVERY == 0:  # it counts as a write, so that there is one more every 50
            opened.give(checkpoint(sequence, keep_after=sequence - 20, pages=[page(sequence, body=body_of(sequence))]))
        opened.wait(lambda: opened.store.waiting_bytes < 1 << 20)
        if opened.done and opened.done[-1] > told:
            told = opened.done[-1]
            print(told - told // (EVERY + 1), flush=True)


@pytest.mark.parametrize("lines", [1, 10, 100])
def test_what_was_told_as_done_outlives_kill_9(tmp_path: Path, lines: int) -> None:
    code = f"from tests.shell.store.test_kill import *; write_without_end(Path({str(tmp_path)!r}))"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=ROOT) as child:
        assert child.stdout is not None
        told = [int(child.stdout.readline()) for _ in range(lines)]
        child.kill()
        told += [int(line) for line in child.stdout.read().splitlines()]

    opened = Opened(tmp_path)
    rows = [kept.row for kept in opened.contents.rows]
    last = rows[-1].sequence
    assert last >= told[-1]
    assert rows == [keep(number, body_of(number)) for number in range(rows[0].sequence, last + 1)]
    assert opened.contents.sequence in (last // EVERY * EVERY, last // EVERY * EVERY - EVERY)
    pages = [page.number for page in opened.contents.pages]
    assert pages == list(range(EVERY, opened.contents.sequence + 1, EVERY))
    assert [opened.store.page(number) for number in pages] == [body_of(number) for number in pages]
    opened.close()
