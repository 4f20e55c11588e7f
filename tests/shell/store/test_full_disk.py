"""A real disk that is full, and has room again."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from openclust.shell.config.schema import ConfigError
from tests.support.opened_store import Opened, checkpoint, found, keep, kept

pytestmark = pytest.mark.sockets

DISK_BYTES = 4 << 20


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(place)]
    try:
        mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount command here")
    if mounted.returncode:
        pytest.skip(f"a file system cannot be mounted here: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)  # lazily: a test that failed may hold it


def fill(place: Path, but: int) -> Path:
    """A file that takes all the room there is, but for so much."""
    ballast = place / "ballast"
    room = os.statvfs(place)
    ballast.write_bytes(bytes(room.f_bavail * room.f_bsize - but))
    return ballast


def test_a_full_disk_is_named_and_nothing_is_lost_when_it_has_room_again(disk: Path) -> None:
    opened = Opened(disk)
    opened.write(keep(1))
    ballast = fill(disk, 300_000)
    rows = [keep(1), *[keep(number, bytes([number]) * 20_000) for number in range(2, 60)]]
    for row in rows[1:]:
        opened.give(row)
    opened.wait(lambda: bool(opened.failures))
    assert opened.failures == [f"{disk}: cannot write: No space left on device"]
    assert opened.done[-1] < 59
    ballast.unlink()
    opened.write()
    assert opened.store.failing == ""
    assert opened.close()
    assert found(disk).rows == kept(*rows)


def test_what_was_done_is_there_after_a_broker_died_on_a_full_disk(disk: Path) -> None:
    opened = Opened(disk)
    rows = [keep(number, bytes(10_000)) for number in range(1, 20)]
    opened.write(*rows)
    ballast = fill(disk, 0)
    opened.give(*[keep(number, bytes(10_000)) for number in range(20, 400)])
    opened.wait(lambda: bool(opened.failures))
    assert not opened.close(wait_s=0.01)
    ballast.unlink()
    assert found(disk).rows == kept(*rows)


def test_a_checkpoint_makes_room_in_a_store_that_fills_its_disk(disk: Path) -> None:
    opened = Opened(disk, wal_bytes=100_000)
    for number in range(1, 300):
        opened.write(keep(number, bytes(20_000)))
        if number % 20 == 0:
            opened.write(checkpoint(number))
    assert opened.failures == []  # 6 MB went through 4
    opened.close()


def test_a_store_that_cannot_be_made_is_refused_with_the_reason(disk: Path) -> None:
    fill(disk, 0)
    with pytest.raises(ConfigError, match=r"No space left on device"):
        Opened(disk)
