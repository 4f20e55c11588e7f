"""The list of primaries that a broker had when it ran last."""

from __future__ import annotations

from pathlib import Path

import pytest

from openclust.shell.cluster.last_primaries import FILE, look_at_primaries


def test_another_list_is_warned_of_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    look_at_primaries(str(tmp_path), ["p2", "p1", "p3"])
    look_at_primaries(str(tmp_path), ["p1", "p2", "p3"])
    assert caplog.messages == [], "the same in any order"
    look_at_primaries(str(tmp_path), ["p1", "p2"])
    assert caplog.messages == [
        "the primaries were p1, p2, p3, and are p1, p2 now: none of them may run with the old list (docs/operating.md)"
    ]
    look_at_primaries(str(tmp_path), ["p1", "p2"])
    assert len(caplog.messages) == 1


def test_without_a_directory_nothing_is_known(caplog: pytest.LogCaptureFixture) -> None:
    look_at_primaries(None, ["p1"])
    look_at_primaries(None, ["p2"])
    assert caplog.messages == []


@pytest.mark.parametrize("content", [b"\xff\xfe", b""])
def test_a_file_that_is_no_list_stops_no_broker(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE).write_bytes(content)
    look_at_primaries(str(tmp_path), ["p1"])
    assert (tmp_path / FILE).read_text() == "p1\n"


def test_a_file_that_cannot_be_read_or_written_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / FILE).mkdir()
    look_at_primaries(str(tmp_path), ["p1"])
    assert caplog.messages == [
        f"cannot read {tmp_path / FILE}: Is a directory",
        f"cannot write {tmp_path / FILE}: Is a directory",
    ]
