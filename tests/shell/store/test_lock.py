"""The lock of a data directory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from openclust.shell.config.schema import ConfigError
from openclust.shell.store.lock import DirectoryLock, holder_of


def test_a_directory_in_use_is_refused_with_the_process_that_uses_it(tmp_path: Path) -> None:
    lock = DirectoryLock(str(tmp_path))
    assert holder_of(str(tmp_path)) == str(os.getpid())
    with pytest.raises(ConfigError, match=f"in use by process {os.getpid()}; stop it, or take another directory"):
        DirectoryLock(str(tmp_path))
    lock.release()


def test_a_released_directory_is_free(tmp_path: Path) -> None:
    lock = DirectoryLock(str(tmp_path))
    lock.release()
    lock.release()
    assert holder_of(str(tmp_path)) == ""
    DirectoryLock(str(tmp_path)).release()


def test_a_directory_that_no_broker_ever_used_has_no_holder(tmp_path: Path) -> None:
    assert holder_of(str(tmp_path)) == ""
