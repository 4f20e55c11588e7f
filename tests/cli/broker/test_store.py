"""`openclust store`: looking at, checking and compacting what a broker keeps."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from openclust.broker.journal.store_rows import Checkpoint, Cut, Keep, Page
from openclust.cli.main import openclust
from openclust.cluster.protocol.status import Reign
from openclust.shell.cluster.votes import Votes
from openclust.shell.store import SqliteStore, open_store
from openclust.shell.store.tables import Tables, Written

PAGES = [Page(number, "/", "orders" if number < 3 else "b\udcff", 1, 9, 9, 600, bytes(600)) for number in (1, 2, 3)]
WRITES: list[Written] = [
    *[Keep("work", 1, number, b"x" * 50) for number in (1, 2, 3)],
    Checkpoint(1, 3, 1, [b"a"], PAGES, [(1, b"dead")], []),
    Keep("opening", 2, 4, b""),
    Keep("work", 2, 5, b"y" * 70),
    Keep("work", 0, 0, b"local"),
    Keep("work", 2, 6, b"cut"),
    Cut(5),
]


@pytest.fixture
def place(tmp_path: Path) -> str:
    opened(tmp_path).close()
    return str(tmp_path)


def opened(place: Path) -> SqliteStore:
    store = open_store(str(place), cluster_key="shop", name="b1")
    Tables(store._connection).perform(WRITES)
    return store


@pytest.fixture
def running(tmp_path: Path) -> Iterator[str]:
    store = opened(tmp_path)
    yield str(tmp_path)
    store.close()


def change(place: str, statement: str) -> None:
    with closing(sqlite3.connect(f"{place}/store.sqlite", isolation_level=None)) as connection:
        assert connection.execute(statement).rowcount


def store(*arguments: str) -> Result:
    return CliRunner().invoke(openclust, ["store", *arguments], prog_name="openclust")


def test_inspect_shows_what_is_inside(place: str) -> None:
    Votes(place).save(Reign(2, "b3"))
    result = store("inspect", place)
    assert result.exit_code == 0, result.output
    lines = [" ".join(line.split()) for line in result.output.splitlines()]
    for line in (
        "cluster shop",
        "broker b1",
        "checkpoint sequence 3 of epoch 1, 1 definitions",
        "log up to sequence 5 of epoch 2",
        "2 work 100 told by the checkpoint",
        "1 opening 0 since then",
        "2 work 75 since then",
        "/ orders 2 18 1,200",
        r"/ b\udcff 1 9 600",
        "vote b3 in epoch 2",
        "in use by nobody",
    ):
        assert line in lines, result.output


def test_inspect_tells_programs_the_same(place: str) -> None:
    shown = json.loads(store("inspect", "--json", place).stdout)
    assert (shown["cluster_key"], shown["last_epoch"], shown["last_sequence"]) == ("shop", 2, 5)
    assert (shown["vote"], shown["process"]) == (None, None)
    assert sum(queue["messages"] for queue in shown["queues"]) == 27
    assert {row["kind"] for row in shown["rows"]} == {"work", "opening"}
    assert shown["file_bytes"] > 0


def test_a_store_in_use_can_be_inspected_and_nothing_else(running: str) -> None:
    shown = store("inspect", running)
    assert f"process {os.getpid()}" in shown.output
    assert "sequence 5 of epoch 2" in shown.output
    for command in ("verify", "compact"):
        result = store(command, running)
        assert result.exit_code == 2
        assert f"in use by process {os.getpid()}; stop it" in result.stderr


def test_a_damaged_vote_does_not_hide_the_rest(place: str) -> None:
    Path(place, "vote.json").write_text("{")
    result = store("inspect", place)
    assert result.exit_code == 0
    assert "vote.json: not a vote" in result.output


def test_a_sound_store_is_told_so(place: str) -> None:
    result = store("verify", place)
    assert (result.exit_code, result.output) == (0, f"{place} is sound: 1 definitions, 3 pages, 5 rows.\n")
    assert json.loads(store("verify", place, "--json").stdout) == {"is_sound": True, "damage": []}


def test_every_damaged_thing_is_named(place: str) -> None:
    change(place, "UPDATE rows SET body=x'00' WHERE id IN (2, 5)")
    change(place, "UPDATE bodies SET body=x'00' WHERE number=2")
    change(place, "DELETE FROM bodies WHERE number=3")
    result = store("verify", place)
    assert result.exit_code == 1
    assert result.output.splitlines()[:-1] == [
        "damaged: page 3: its body is missing",
        "damaged: row 2: its checksum is wrong",
        "damaged: row 5: its checksum is wrong",
        "damaged: page 2: the checksum of its body is wrong",
    ]
    assert "the others bring it up to date" in result.output.splitlines()[-1]
    assert len(json.loads(store("verify", "--json", place).stdout)["damage"]) == 4


@pytest.mark.parametrize("where", [0, 8_192, 16_384, 24_576])
def test_a_file_with_a_hole_is_damaged_not_a_mistake_of_ours(place: str, where: int) -> None:
    with open(f"{place}/store.sqlite", "r+b") as file:
        file.seek(where)
        file.write(b"\xff" * 8_192)
    result = store("verify", place)
    assert result.exit_code == 1, result.stderr
    assert "damaged: " in result.output
    assert "mistake in openclust" not in result.stderr


def test_compacting_gives_back_what_is_free(place: str) -> None:
    change(place, "INSERT INTO spool VALUES (1, 0, zeroblob(5000000))")
    change(place, "DELETE FROM spool")
    result = store("compact", place)
    assert result.exit_code == 0, result.output
    assert result.output.startswith(f"Compacted {place}: 5,")
    assert Path(place, "store.sqlite").stat().st_size < 200_000
    assert store("verify", place).exit_code == 0


@pytest.mark.parametrize("command", ["inspect", "verify", "compact"])
def test_a_directory_without_a_store_is_refused(tmp_path: Path, command: str) -> None:
    for place in (tmp_path, tmp_path / "none"):
        result = store(command, str(place))
        assert result.exit_code == 2
        assert f"{place}: holds no store: there is no store.sqlite in it" in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["inspect", "verify", "compact"])
def test_a_file_of_another_program_is_refused(tmp_path: Path, command: str) -> None:
    with closing(sqlite3.connect(tmp_path / "store.sqlite")) as connection:
        connection.execute("CREATE TABLE songs(title)")
    result = store(command, str(tmp_path))
    assert result.exit_code == 2
    assert "store.sqlite: is not a store of openclust" in result.stderr


@pytest.mark.parametrize("command", ["inspect", "verify", "compact"])
def test_a_newer_format_is_left_alone(place: str, command: str) -> None:
    change(place, "UPDATE meta SET value='9' WHERE name='format'")
    result = store(command, place)
    assert result.exit_code == 2
    assert "has format 9, and this openclust knows 2" in result.stderr
