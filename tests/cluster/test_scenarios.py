"""Every scenario goes as its file says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cluster.scenario import FILES, replay


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_scenario_goes_as_its_file_says(path: Path) -> None:
    told = path.read_text()
    assert replay(told) == told, f"read the difference after: python -m tests.support.cluster.scenario --rewrite {path}"


def test_there_are_scenarios() -> None:
    assert len(FILES) > 20


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_scenario_begins_with_the_sentence_that_it_is_about(path: Path) -> None:
    first = path.read_text().splitlines()[0]
    assert first.startswith("# ") and ("Paper" in first or "Design" in first or "Known failure" in first), first
