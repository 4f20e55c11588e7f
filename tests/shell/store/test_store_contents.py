"""Damage is found when a store is read, and named with its place and the way out."""

from __future__ import annotations

from pathlib import Path

import pytest

from openclust.shell.config.schema import ConfigError
from tests.support.opened_store import change, checkpoint, found, keep, page, written

TABLES = {
    "a row that was changed": ("UPDATE rows SET body=x'00' WHERE id=5", "row 5: its checksum is wrong"),
    "a row of another epoch": ("UPDATE rows SET epoch=9 WHERE id=6", "row 6: its checksum is wrong"),
    "a told row that is gone": ("DELETE FROM rows WHERE id=3", "row 4: has sequence 4 of the log, after 2"),
    "the first row that is gone": ("DELETE FROM rows WHERE id=5", "row 5: is missing, the next is 6"),
    "a local row that is gone": ("DELETE FROM rows WHERE id=6", "row 6: is missing, the next is 7"),
    "a definition that was changed": ("UPDATE definitions SET body=x'00'", "definition 0: its checksum is wrong"),
    "a definition that is gone": ("DELETE FROM definitions WHERE id=1", "definitions: 1 of 2 are there"),
    "a page that was changed": ("UPDATE pages SET last=99 WHERE number=2", "page 2: its checksum is wrong"),
    "a page that is gone": ("DELETE FROM pages WHERE number=1", "pages: 1 of 2 are there"),
    "a page without a body": ("DELETE FROM bodies WHERE number=2", "page 2: its body is missing"),
    "what a page lost was changed": ("UPDATE dead SET sequences=x'00'", "page 1: the checksum of what it has lost"),
    "a checkpoint that was changed": ("UPDATE checkpoint SET epoch=7", "checkpoint: its checksum is wrong"),
    "a checkpoint that is gone": ("DELETE FROM checkpoint", "row 1: is missing, the next is 2"),
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Rows 2 to 4 are told, 5 to 7 are not, 6 is local."""
    told = checkpoint(4, keep_after=1, definitions=[b"a", b"b"], pages=[page(1), page(2)], dead=[(1, b"x")])
    written(tmp_path, *map(keep, (1, 2, 3, 4)), told, keep(5), keep(0), keep(6))
    found(tmp_path)
    return tmp_path


@pytest.mark.parametrize("what", TABLES)
def test_damage_is_named(place: Path, what: str) -> None:
    statement, expected = TABLES[what]
    change(place, statement)
    with pytest.raises(ConfigError) as refused:
        found(place)
    text = str(refused.value)
    assert text.startswith(f"{place}/store.sqlite: damaged: {expected}")
    assert "move the directory away" in text and "openclust store verify" in text and "\n" not in text


def test_a_log_that_begins_too_late_is_named(tmp_path: Path) -> None:
    written(tmp_path, checkpoint(4), keep(6))
    with pytest.raises(ConfigError, match="rows: the log goes on at 6, after a checkpoint at 4"):
        found(tmp_path)


def test_a_file_that_is_no_database_is_damage(place: Path) -> None:
    with (place / "store.sqlite").open("r+b") as file:
        file.write(bytes(4_096))
    with pytest.raises(ConfigError, match=r"store\.sqlite: damaged: file is not a database; in a cluster"):
        found(place)


def test_a_file_that_is_too_short_is_damage(tmp_path: Path) -> None:
    written(tmp_path, *[keep(number, bytes(20_000)) for number in range(1, 50)])
    file = tmp_path / "store.sqlite"
    with file.open("r+b") as opened:
        opened.truncate(file.stat().st_size // 2)
    with pytest.raises(ConfigError, match=r"store\.sqlite: damaged: "):
        found(tmp_path)


def test_a_page_of_the_file_that_was_overwritten_is_damage(tmp_path: Path) -> None:
    written(tmp_path, *[keep(number, bytes(20_000)) for number in range(1, 50)])
    file = tmp_path / "store.sqlite"
    with file.open("r+b") as opened:
        opened.seek(file.stat().st_size // 2)
        opened.write(b"\xff" * 8_192)
    with pytest.raises(ConfigError, match=r"store\.sqlite: damaged: "):
        found(tmp_path)


def test_a_file_that_is_gone_from_beside_its_log_is_damage(place: Path) -> None:
    (place / "store.sqlite").rename(place / "store.sqlite-wal")
    with pytest.raises(ConfigError, match=r"store\.sqlite: damaged: it is gone, but store\.sqlite-wal is there"):
        found(place)
