"""The cluster UUID on disk."""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path

import pytest

from openclust.shell.cluster.cluster_uuid_file import ClusterUuidFile
from openclust.shell.config.schema import ConfigError


def test_the_uuid_outlives_the_process(tmp_path: Path) -> None:
    first = ClusterUuidFile(str(tmp_path))
    assert first.uuid == ""
    first.save("c0ffee")
    assert first.uuid == ClusterUuidFile(str(tmp_path)).uuid == "c0ffee"


def test_without_a_directory_it_is_in_memory_only() -> None:
    file = ClusterUuidFile(None)
    file.save("c0ffee")
    assert file.uuid == "c0ffee"


def test_a_disk_that_fails_is_logged_and_the_next_try_writes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(**_: object) -> None:
        raise OSError(28, "No space left on device")

    file = ClusterUuidFile(str(tmp_path))
    monkeypatch.setattr(tempfile, "mkstemp", full)
    with caplog.at_level(logging.ERROR):
        file.save("c0ffee")
    assert caplog.messages == [f"cannot write {tmp_path / 'cluster-uuid'}: No space left on device"]
    assert file.uuid == ""
    monkeypatch.undo()
    file.save("c0ffee")
    assert ClusterUuidFile(str(tmp_path)).uuid == "c0ffee"


def test_a_file_that_is_no_text_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "cluster-uuid").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="cluster-uuid: is not text"):
        ClusterUuidFile(str(tmp_path))
