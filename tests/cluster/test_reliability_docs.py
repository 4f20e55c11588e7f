"""The page on reliability names tests and scenarios that are there, and numbers that are the code's."""

from __future__ import annotations

import re
from functools import cache

import pytest

from openclust.broker.model.limits import Limits
from openclust.cluster.protocol.bounds import Bounds
from tests.support.paths import TESTS

PAGE = (TESTS.parent / "docs" / "reliability.md").read_text(encoding="utf-8")
LIMITS = ("LM1a", "LM1b", "LM2", "LC6", "LC7", "LC8", "LC9", "exactly one broker takes over", "reconnect storms")


@cache
def names_there() -> frozenset[str]:
    files = TESTS.rglob("test_*.py")
    return frozenset(name for file in files for name in re.findall(r"\bdef (test_\w+)\(", file.read_text("utf-8")))


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(test_\w+)`", PAGE))))
def test_a_test_that_the_page_names_is_there(name: str) -> None:
    assert name in names_there()


def test_files_and_scenarios_that_the_page_names_are_there() -> None:
    files = re.findall(r"`(test_\w+\.py)`", PAGE)
    scenarios = re.findall(r"`(\w+\.txt)`", PAGE)
    assert files and scenarios
    assert not [name for name in files if not list(TESTS.rglob(name))]
    assert not [name for name in scenarios if not (TESTS / "scenarios" / name).exists()]


def rows(title: str) -> list[list[str]]:
    """The cells of the first table under a heading, without its head."""
    table = PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]
    lines = [line for line in table.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


def test_every_limit_has_a_row_and_every_row_a_test() -> None:
    limits = rows("What others could not do")
    assert set(LIMITS) <= {row[0] for row in limits}
    assert not [row[0] for row in limits if not re.search(r"`(test_\w+|\w+\.txt)`", row[3])]


def test_every_fault_is_tested_by_something() -> None:
    assert not [row[0] for row in rows("Faults") if not re.search(r"`test_\w+(\.py)?`|torture|simulator", row[2])]


def test_the_bounds_are_those_of_the_code() -> None:
    bounds = Bounds()
    assert f"`cluster.root_wait_ms` ({bounds.root_wait_ms // 1_000} s)" in PAGE
    assert f"`cluster.disk_stall_ms` ({bounds.disk_stall_ms // 1_000} s)" in PAGE
    assert f"`limits.unwritten_bytes_max` ({Limits().unwritten_bytes_max >> 20} MB)" in PAGE


def test_all_four_levels_are_there() -> None:
    levels = [row[0] for row in rows("Four levels")]
    assert levels == ["fully transient", "reliable transient", "persistent", "reliable persistent"]
