from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from openclust.bench.brokers.disk import Mount, described, folder_on_disk, forget_cached, mount_of
from openclust.bench.client.bench_errors import BenchError

ROOT, MEMORY = Mount("/", "ext4", "/dev/a"), Mount("/tmp", "tmpfs", "tmpfs")


def test_the_innermost_mount_holds_a_folder() -> None:
    assert mount_of(Path("/tmp/x"), [MEMORY, ROOT]) == MEMORY
    assert mount_of(Path("/tmpx"), [ROOT, MEMORY]) == ROOT
    assert mount_of(Path("/x"), [MEMORY]) is None


def test_data_does_not_go_to_memory_where_there_is_a_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = tmp_path / "here"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    in_memory = [Mount(place, "tmpfs", "tmpfs") for place in (tempfile.gettempdir(), "/var/tmp")]
    mounts = [ROOT, *in_memory, Mount(str(elsewhere.resolve()), "ext4", "/dev/b")]
    assert folder_on_disk(mounts=mounts) == elsewhere.resolve()


def test_without_any_disk_a_folder_must_be_named(tmp_path: Path) -> None:
    mounts = [Mount("/", "tmpfs", "tmpfs")]
    with pytest.raises(BenchError, match="--data-in DIR"):
        folder_on_disk(mounts=mounts)
    assert folder_on_disk(tmp_path, mounts) == tmp_path.resolve()
    assert "which is memory" in described(tmp_path, mounts)


def test_a_folder_that_is_not_there_is_refused() -> None:
    with pytest.raises(BenchError, match="no such directory"):
        folder_on_disk(Path("/nowhere/at/all"))


def test_the_results_name_the_file_system(tmp_path: Path) -> None:
    assert described(tmp_path, [ROOT]) == f"data in {tmp_path} (ext4 on /dev/a)"


def test_all_files_below_are_weighed(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "b").write_bytes(b"123")
    (tmp_path / "a").write_bytes(b"4")
    assert forget_cached(tmp_path) == 4
