"""The vote on disk."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from openclust.cluster.protocol.status import Reign
from openclust.shell.cluster.votes import Votes
from openclust.shell.config.schema import ConfigError


def test_a_vote_outlives_the_process(tmp_path: Path) -> None:
    folder = str(tmp_path / "data")
    votes = Votes(folder)
    assert votes.last is None
    votes.save(Reign(3, "p1"))
    votes.save(Reign(4, "p2"))
    assert Votes(folder).last == Reign(4, "p2")


def test_a_write_that_fails_leaves_the_old_vote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    votes = Votes(str(tmp_path))
    votes.save(Reign(3, "p1"))

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        votes.save(Reign(4, "p2"))
    assert votes.last == Votes(str(tmp_path)).last == Reign(3, "p1")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["vote.json", "vote.json.reserve"]


def test_where_the_disk_is_full_a_vote_takes_the_room_that_was_kept_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    votes = Votes(str(tmp_path))
    votes.save(Reign(3, "p1"))

    def full(**_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "mkstemp", full)
    votes.save(Reign(4, "p2"))
    assert votes.last == Votes(str(tmp_path)).last == Reign(4, "p2")
    with pytest.raises(OSError, match="No space"):
        votes.save(Reign(5, "p3"))
    assert votes.last == Votes(str(tmp_path)).last == Reign(4, "p2"), "there was room for one"
    monkeypatch.undo()
    votes.save(Reign(6, "p3"))
    monkeypatch.setattr(tempfile, "mkstemp", full)
    votes.save(Reign(7, "p1"))
    assert Votes(str(tmp_path)).last == Reign(7, "p1")


def test_without_a_directory_the_vote_is_in_memory_only() -> None:
    votes = Votes(None)
    votes.save(Reign(1, "p1"))
    assert votes.last == Reign(1, "p1")


def test_a_damaged_file_is_named_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "vote.json").write_bytes(b"{")
    with pytest.raises(ConfigError, match=r"vote\.json: not a vote.*rest of the cluster"):
        Votes(str(tmp_path))
