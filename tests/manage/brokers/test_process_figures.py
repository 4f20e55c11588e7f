"""The figures of this process are true, and are taken once a second."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path

import psutil
import pytest

from openclust.manage.brokers import process_figures
from openclust.manage.brokers.process_figures import ProcessWatch


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_the_figures_are_those_of_this_process(tmp_path: Path) -> None:
    figures = ProcessWatch(str(tmp_path), Clock())()
    process = psutil.Process()
    assert abs(figures.open_files - process.num_fds()) <= 2
    assert figures.threads == threading.active_count() <= figures.threads_max
    assert figures.resident_bytes == pytest.approx(process.memory_info().rss, rel=0.2)
    assert figures.disk_free_bytes == pytest.approx(shutil.disk_usage(tmp_path).free, rel=0.2)
    assert figures.context_switches > 0 and figures.run_queue >= 0


def test_they_are_kept_for_a_second(tmp_path: Path) -> None:
    clock = Clock()
    watch = ProcessWatch(str(tmp_path), clock)
    first = watch()
    with open(tmp_path / "one", "w"), open(tmp_path / "two", "w"):
        clock.now_s += 0.9
        assert watch() is first
        clock.now_s += 0.2
        assert watch().open_files == first.open_files + 2


def test_where_the_folder_tells_no_count_the_files_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_figures, "OPEN_FILES_FOLDER", "/nowhere")
    assert ProcessWatch(None, Clock())().open_files == psutil.Process().num_fds()


def test_a_folder_that_is_gone_has_no_space(tmp_path: Path) -> None:
    assert ProcessWatch(str(tmp_path / "gone"), Clock())().disk_free_bytes == 0


def test_without_a_data_directory_it_is_the_disk_of_the_working_directory() -> None:
    free = shutil.disk_usage(os.getcwd()).free
    assert ProcessWatch(None, Clock())().disk_free_bytes == pytest.approx(free, rel=0.2)
