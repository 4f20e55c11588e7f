"""How much memory there is."""

from __future__ import annotations

from pathlib import Path

import pytest

from openclust.shell.host import memory
from openclust.shell.host.memory import high_watermark_bytes, memory_bytes


@pytest.fixture
def limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A container's limit on a machine of 8 GiB."""
    monkeypatch.setattr("os.sysconf", {"SC_PAGE_SIZE": 4_096, "SC_PHYS_PAGES": 2_097_152}.__getitem__)
    monkeypatch.setattr(memory, "CGROUP_LIMITS", (str(tmp_path / "v2"), str(tmp_path / "v1")))
    return tmp_path / "v2"


def test_without_a_container_it_is_the_machines(limit: Path) -> None:
    assert memory_bytes() == 2**33
    limit.write_text("max\n")
    assert memory_bytes() == 2**33


def test_a_containers_limit_counts_where_it_is_less(limit: Path) -> None:
    limit.write_text("1073741824\n")
    assert memory_bytes() == 2**30
    limit.write_text("9223372036854771712\n")
    assert memory_bytes() == 2**33


def test_the_watermark_is_a_share_or_bytes(limit: Path) -> None:
    assert high_watermark_bytes(0.5) == 2**32
    assert high_watermark_bytes(1) == 2**33
    assert high_watermark_bytes(0) == 0
    assert high_watermark_bytes(5_000) == 5_000
