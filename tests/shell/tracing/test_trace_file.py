"""A trace's file: whole lines, whatever the disk does, and nobody waits for it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from openclust.shell.tracing import trace_file
from openclust.shell.tracing.trace_file import TraceFile


def written(path: Path, *lines: bytes) -> list[str]:
    """Why the file failed, after these lines were given to it one flush each."""
    failures: list[str] = []
    file = TraceFile(str(path), failures.append)
    for line in lines:
        file.add(line)
        file.flush()
    file.stop(wait=True)
    return failures


def test_lines_are_written_in_order(tmp_path: Path) -> None:
    path = tmp_path / "made" / "on the way" / "t.jsonl"
    assert written(path, b"1\n", b"2\n") == []
    assert path.read_bytes() == b"1\n2\n"


def test_what_was_there_stays(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    written(path, b"1\n")
    file = TraceFile(str(path), print)
    assert file.size == 2
    file.add(b"2\n")
    assert file.size == 4
    file.stop(wait=True)
    assert path.read_bytes() == b"1\n2\n"


def test_a_line_that_was_cut_off_ends_before_the_next_begins(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"whole\nha")
    written(path, b"next\n")
    assert path.read_bytes() == b"whole\nha\nnext\n"


def test_a_full_disk_is_told_once_and_leaves_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, room = tmp_path / "t.jsonl", [7]
    write = os.write

    def full(fd: int, data: bytes) -> int:
        if not room[0]:
            raise OSError(28, "No space left on device")
        count = write(fd, bytes(data[: room[0]]))
        room[0] -= count
        return count

    monkeypatch.setattr(os, "write", full)
    assert written(path, b"11\n", b"22\n", b"33\n", b"44\n") == ["No space left on device"]
    assert path.read_bytes() == b"11\n22\n"


def test_a_device_without_room_is_told_of(tmp_path: Path) -> None:
    assert written(Path("/dev/full"), b"1\n", b"2\n") == ["No space left on device"]


def test_a_pipe_that_nobody_reads_does_not_stand_in_the_way(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    written(path, b"1\n")


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        TraceFile(str(tmp_path), print)


def test_where_the_disk_does_not_keep_up_lines_are_counted_and_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_file, "UNWRITTEN_BYTES_MAX", 4)
    path = tmp_path / "t.jsonl"
    file = TraceFile(str(path), print)
    for _ in range(10):
        file.add(b"12\n")
    assert file.lost == 8, "two are taken, the second goes past the bound"
    file.stop(wait=True)
    assert path.read_bytes() == b"12\n12\n"
