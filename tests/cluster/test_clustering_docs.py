"""The pages on clustering name tests that are there, and every test of the paper's rules has its row."""

from __future__ import annotations

import re

import pytest

from openclust.cluster.protocol.bounds import Bounds
from openclust.cluster.relay.lanes import Reach
from openclust.cluster.shared_queues.consumer_proxy import AHEAD_BYTES_MAX, AHEAD_MAX
from tests.support.paths import ROOT, TESTS

DOCS = ROOT / "docs"
PAGE = (DOCS / "clustering.md").read_text(encoding="utf-8")
MESSAGES = (DOCS / "messages.md").read_text(encoding="utf-8")
RULES = "test_paper_rules.py"


def names_in(file: str) -> set[str]:
    texts = (path.read_text(encoding="utf-8") for path in (TESTS / "cluster").rglob(file))
    return {name for text in texts for name in re.findall(r"^def (test_\w+)\(", text, re.MULTILINE)}


def named() -> list[tuple[str, str]]:
    """The tests that the page names, each with its file."""
    found = re.findall(r"`(?:(test_\w+\.py)::)?(test_\w+)`", PAGE)
    return [(file or RULES, test) for file, test in found]


@pytest.mark.parametrize(("file", "test"), sorted(set(named())))
def test_a_test_that_the_page_names_is_there(file: str, test: str) -> None:
    assert test in names_in(file)


def test_every_test_of_the_papers_rules_has_a_row() -> None:
    assert names_in(RULES) == {test for file, test in named() if file == RULES}


def test_scenarios_that_the_page_names_are_there() -> None:
    scenarios = re.findall(r"`(\w+)\.txt`", PAGE)
    assert scenarios and all((TESTS / "scenarios" / f"{name}.txt").exists() for name in scenarios)


def test_every_rule_is_shown_by_a_test() -> None:
    rows = [line for line in PAGE.partition("## The paper's rules")[2].splitlines() if line.startswith("| ")]
    rules = [row for row in rows if not row.startswith("| rule")]
    assert len(rules) > 40
    assert not [row for row in rules if not re.search(r"`\w+(\.txt|\.py::test_\w+)?` \|$", row)]


def test_the_bounds_are_those_of_the_code() -> None:
    bounds, text = Bounds(), re.sub(r",(?=\d{3})", "", PAGE)
    for key, value in (
        ("state_max_mb", f"{bounds.state_bytes_max >> 20} MB"),
        ("log_tail_max", str(bounds.log_entries_max)),
        ("root_wait_ms", f"{bounds.root_wait_ms // 1_000} s"),
        ("waiting_mb_max", f"{bounds.waiting_bytes_max >> 20} MB"),
        ("link_outbox_mb_max", f"{bounds.outbox_bytes_max >> 20} MB"),
    ):
        assert re.search(rf"^\|[^|]*\| `cluster\.{key}`, {value}", text, re.MULTILINE), key
    assert f"{AHEAD_MAX} or {AHEAD_BYTES_MAX >> 20} MiB" in text


def glossary() -> list[tuple[str, list[str]]]:
    """The words of the page, each with the files and folders of its row."""
    table = PAGE.partition("## Words")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")][1:]
    return [(word, re.findall(r"`([\w/.]+)`", code)) for words, _, code in rows for word in words.split(", ")]


def test_every_word_is_used_where_the_glossary_says() -> None:
    wrong = []
    for word, places in glossary():
        files = [
            file
            for place in places
            for file in [ROOT / "openclust" / place, *(ROOT / "openclust" / place).rglob("*.py")]
        ]
        texts = [str(file) + file.read_text(encoding="utf-8") for file in files if file.is_file()]
        stem = re.sub(r"[ -]|(y|ing)$", "", word)
        if not any(stem in re.sub(r"[ _\n-]", "", text).lower() for text in texts):
            wrong.append(word)
    assert not wrong, f"docs/clustering.md has words that the code does not use there: {', '.join(wrong)}"


def test_every_folder_of_the_cluster_has_a_word() -> None:
    told = {place for _, places in glossary() for place in places}
    folders = {f"cluster/{path.name}" for path in (ROOT / "openclust" / "cluster").iterdir() if path.name[0] != "_"}
    assert folders <= told


def test_every_flag_of_a_lane_is_explained() -> None:
    assert re.findall(r"^\| ([A-Z_]+) \|", MESSAGES, re.MULTILINE) == [flag.name for flag in Reach]
