"""The page on the election says what the code does."""

from __future__ import annotations

import re

from openclust.cluster.election.election import TRANSITIONS, Trigger
from openclust.cluster.election.view import Terms
from tests.support.paths import ROOT, TESTS

PAGE = (ROOT / "docs" / "election.md").read_text(encoding="utf-8")


def table() -> str:
    """The table of transitions as the page has to show it."""
    lines = ["| role | when | becomes |", "|---|---|---|"]
    lines += [f"| {role.value} | {trigger.value} | {after.value} |" for (role, trigger), after in TRANSITIONS.items()]
    return "\n".join(lines)


def test_the_page_shows_the_table_of_transitions() -> None:
    assert table() in PAGE, f"docs/election.md has to show:\n{table()}"


def test_every_trigger_is_in_the_table() -> None:
    assert {trigger for _, trigger in TRANSITIONS} == set(Trigger)


def test_the_page_gives_the_default_terms() -> None:
    terms = Terms(primaries=("a", "b", "c"))
    told = {name: int(ms.replace(",", "")) for name, ms in re.findall(r"^\| ([a-z ]+) \| ([\d,]+) ms \|", PAGE, re.M)}
    assert told == {
        "heartbeat": terms.heartbeat_ms,
        "lease": terms.lease_ms,
        "wait": terms.wait_ms,
        "offline": terms.offline_ms,
        "grace": terms.start_grace_ms,
    }


def test_every_scenario_that_the_page_names_is_there() -> None:
    folder = TESTS / "scenarios"
    named = re.findall(r"`(\w+)\.txt`", PAGE)
    assert named and all((folder / f"{name}.txt").exists() for name in named)
