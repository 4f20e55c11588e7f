"""Files that are replaced as a whole, and how a changed one is known."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from openclust.shell.host.atomic_file import fingerprint, not_json, replace_file


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def test_a_file_is_replaced_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "vote.json"
    for data in (b"one", b"two"):
        replace_file(str(path), data)
        assert path.read_bytes() == data
    assert path.stat().st_mode & 0o777 == 0o600
    assert names(tmp_path) == ["vote.json"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    replace_file(str(tmp_path / "link"), b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


def test_a_disk_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    path = tmp_path / "vote.json"
    replace_file(str(path), b"old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        replace_file(str(path), b"new")
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["vote.json"]


def test_a_file_that_is_replaced_or_written_has_another_fingerprint(tmp_path: Path) -> None:
    path = tmp_path / "users.json"
    assert fingerprint(str(path)) is None
    replace_file(str(path), b"one")
    first = fingerprint(str(path))
    assert first == fingerprint(str(path)) is not None
    replace_file(str(path), b"two")
    second = fingerprint(str(path))
    assert second != first
    path.write_bytes(b"longer")
    assert fingerprint(str(path)) not in (first, second)


def test_a_text_that_is_no_json_is_told_with_line_and_column() -> None:
    assert not_json(b'{\n "a": }', ValueError("x")) == "line 2, column 7: Expecting value"
    assert not_json(b"\xff", ValueError("x")) == "not JSON in UTF-8"
    assert not_json(b"{}", ValueError("of another shape")) == "of another shape"
