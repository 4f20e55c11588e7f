"""Every cluster file that we ship or show is sound, and the page of rules is what the rules are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from openclust.shell.config.load import load
from tests.support.paths import ROOT
from tests.support.topology.files import report_of
from topology.lint.check import check, check_all
from topology.model.template import Plan, text_of
from topology.rules.finding import Severity
from topology.rules.rule import RULES, all_rules
from topology.rules.rule_table import TABLE_PAGE, WHOLE_PAGE, replaced, whole
from topology.simulate.input.workload_file import read_workload

WORKLOADS = sorted([*(ROOT / "conf" / "workloads").glob("*.toml"), ROOT / "topology" / "simulate" / "validate.toml"])
SHIPPED = sorted({*(ROOT / "conf").rglob("*.toml")} - {*WORKLOADS})
OF_WORKLOADS = re.compile(r"^\[+(topics\.|subscribers|publishers|queues\b)", re.M)
SHOWN = [
    (f"{page.relative_to(ROOT)}:{number}", block)
    for page in sorted([*(ROOT / "docs").glob("*.md"), ROOT / "README.md"])
    for number, block in enumerate(re.findall(r"^```toml\n(.*?)^```", page.read_text("utf-8"), re.M | re.S), start=1)
]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_shipped_file_is_sound(path: Path) -> None:
    report, _ = check(path)
    assert [each.message for each in report.findings if each.severity > Severity.INFO] == []
    assert not report.is_bad_input


def test_the_shipped_files_are_clusters_apart() -> None:
    told = [each for report, _ in check_all(SHIPPED) for each in report.findings]
    assert [each.message for each in told if each.severity > Severity.INFO] == []


@pytest.mark.parametrize("path", WORKLOADS, ids=lambda path: path.name)
def test_a_shipped_workload_can_be_used(path: Path) -> None:
    assert read_workload(path).groups


@pytest.mark.parametrize(("place", "text"), SHOWN, ids=[place for place, _ in SHOWN])
def test_an_example_of_the_docs_is_sound(place: str, text: str, tmp_path: Path) -> None:
    if OF_WORKLOADS.search(text):
        path = tmp_path / "workload.toml"
        path.write_text(text, encoding="utf-8")
        assert read_workload(path).groups
        return
    assert [each.message for each in report_of(text).findings if each.severity > Severity.INFO] == []


def test_there_are_examples() -> None:
    assert len(SHIPPED) >= 6 and len(SHOWN) >= 3 and len(WORKLOADS) >= 3


def test_the_page_has_the_rules_as_they_are() -> None:
    page = TABLE_PAGE.read_text(encoding="utf-8")
    assert page == replaced(page), "run: python -m topology.rules.rule_table"
    assert WHOLE_PAGE.read_text(encoding="utf-8") == whole(), "run: python -m topology.rules.rule_table"
    assert all(f"`{code}`" in page for code in RULES)


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.code)
def test_a_rule_explains_itself(rule) -> None:  # type: ignore[no-untyped-def]
    assert rule.title[0].isupper() and not rule.title.endswith(".")
    assert rule.why.endswith((".", "?")) and rule.fix.endswith((".", ")"))


@pytest.mark.parametrize("primaries", range(1, 10))
@pytest.mark.parametrize("zones", [[], ["a"], ["a", "b"], ["a", "b", "c"], ['q"uo\\te', "ü", "z z", "d", "e"]])
def test_a_new_file_passes(tmp_path: Path, primaries: int, zones: list[str]) -> None:
    path = tmp_path / "cluster.toml"
    path.write_text(text_of(Plan(primaries=primaries, secondaries=5, zones=zones)), encoding="utf-8")
    report, model = check(path)
    assert report.exit_code() == 0, report.findings
    if primaries % 2 and zones:
        assert report.findings == ()
    if primaries < 3:
        assert "OC401" in {each.code for each in report.ignored}, "it was asked for, and is told all the same"
    if len(zones) in (1, 2) and primaries > len(zones):
        assert "OC403" in {each.code for each in report.ignored}
    (tmp_path / "cluster.secret").write_text("x" * 64)
    config = load(path, environ={"OPENCLUST_NAME": f"p{primaries}"}).config
    assert config.listen.host == f"p{primaries}.example"
    assert model is not None and len(model.secondaries) == 5
