from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
import xmlschema
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.topology.random_models import broker, model_of, models
from topology.lint.check import bad_input, lint
from topology.model.graph import Model, Other
from topology.model.live_cluster import Live
from topology.output.formats import FORMATS, LintRun, named, result_of
from topology.output.github import escaped, property_escaped
from topology.output.markdown import CHARACTERS_MAX, safe
from topology.output.sarif import uri_of
from topology.rules.finding import FileReport, Finding, Severity
from topology.survive.combinations import survive

SCHEMAS = Path(__file__).parent / "schemas"
NASTY = 'a|b <script> @all "q" `c` % :,\r\n\x1b[31m ]]> & *x* \u202e é 漢'
QUICK = examples(12, suppress=[HealthCheck.too_slow])


@cache
def sarif_schema() -> Any:
    schema = json.loads((SCHEMAS / "sarif-2.1.0.json").read_text())
    return jsonschema.Draft7Validator(schema, format_checker=jsonschema.FormatChecker())


@cache
def junit_schema() -> xmlschema.XMLSchema:
    return xmlschema.XMLSchema(str(SCHEMAS / "junit-jenkins.xsd"))


def finding(code: str = "OC403", severity: Severity = Severity.ERROR, message: str = "wrong", **of: Any) -> Finding:
    return Finding(**{"code": code, "severity": severity, "message": message, "file": "a/cluster.toml", **of})


def run_of(*reports: FileReport, **of: Any) -> LintRun:
    return LintRun(results=tuple(result_of(each) for each in reports), **of)


def report_of(*findings: Finding, **of: Any) -> FileReport:
    return FileReport(
        **{"file": "a/cluster.toml", "findings": findings, "brokers": 3, "asked": ("OC201", "OC403"), **of}
    )


FULL = report_of(
    finding(line=7, column=3, brokers=("p1", "p2"), nodes=("sw1",), links=(("p1", "sw1"),), fix="Spread them."),
    finding("OC201", Severity.WARNING, NASTY, line=9, fix=NASTY),
    finding("OC206", Severity.INFO, "all on this machine"),
    ignored=(finding("OC402", Severity.WARNING, "four primaries", reason=NASTY),),
)
BAD = bad_input("bad.toml", ["bad.toml line 3, column 9: expected '='", "bad.toml line 5: unknown key 'x'"])


def everything() -> LintRun:
    model = model_of(tuple(broker(f"p{i}", zone="ab"[i % 2], connections=10) for i in range(4)), clients=25)
    survival = survive(model, 2)
    return LintRun(results=(*run_of(FULL, BAD).results, result_of(report_of(), survival=survival)))


def test_sarif_is_valid_by_the_published_schema() -> None:
    for run in (everything(), run_of(), run_of(report_of())):
        assert [each.message for each in sarif_schema().iter_errors(json.loads(FORMATS["sarif"](run)))] == []


def test_the_schema_of_sarif_would_tell() -> None:
    document = json.loads(FORMATS["sarif"](everything()))
    document["runs"][0]["results"][0]["level"] = "info"
    assert not sarif_schema().is_valid(document)


def test_junit_is_valid_by_its_schema() -> None:
    for run in (everything(), run_of(), run_of(report_of())):
        junit_schema().validate(FORMATS["junit"](run))


def test_the_schema_of_junit_would_tell() -> None:
    assert not junit_schema().is_valid(FORMATS["junit"](everything()).replace("classname=", "klass="))


def test_a_sarif_result_says_where_what_and_who() -> None:
    (run,) = json.loads(FORMATS["sarif"](run_of(FULL)))["runs"]
    first = run["results"][0]
    assert run["tool"]["driver"]["rules"][first["ruleIndex"]]["id"] == first["ruleId"] == "OC403"
    (location,) = first["locations"]
    assert location["physicalLocation"] == {
        "artifactLocation": {"uri": "a/cluster.toml"},
        "region": {"startLine": 7, "startColumn": 3},
    }
    assert [each["name"] for each in location["logicalLocations"]] == ["p1", "p2", "sw1", "p1 - sw1"]
    assert [each["level"] for each in run["results"]] == ["error", "warning", "note", "warning"]
    assert run["results"][3]["suppressions"] == [{"kind": "inSource", "justification": NASTY}]


def test_a_sarif_fingerprint_outlives_a_moved_line_and_another_number() -> None:
    def of(**change: Any) -> str:
        told = json.loads(FORMATS["sarif"](run_of(report_of(finding(**change)))))
        return str(told["runs"][0]["results"][0]["partialFingerprints"])

    assert of(brokers=("p1",), line=1, message="1 MB") == of(brokers=("p1",), line=5, message="2 MB")
    assert of(brokers=("p1",)) != of(brokers=("p2",))
    assert of(message="one") != of(message="another")


def test_different_findings_of_one_broker_have_different_sarif_fingerprints() -> None:
    """One rule told of two settings of p1, and twice of an address: a scanner that merges them shows one of each."""
    findings = [
        finding("OC408", brokers=("p1",), message="p1: limits.connections_max differs", line=4),
        finding("OC408", brokers=("p1",), message="p1: limits.channel_max differs", line=5),
        finding("OC201", brokers=("p1", "p2"), message="p2: 10.0.0.1:5672 is that of p1 too"),
        finding("OC201", brokers=("p1", "p2"), message="p2: 10.0.0.1:5682 is that of p1 too"),
        finding("OC502", brokers=("p1",), message="p1: 20 ms", line=1),
        finding("OC502", brokers=("p1",), message="p1: 30 ms", line=2),
    ]
    told = json.loads(FORMATS["sarif"](run_of(report_of(*findings))))["runs"][0]["results"]
    prints = [each["partialFingerprints"]["openclust/v2"] for each in told]
    assert len(set(prints)) == len(prints) == 6


def test_every_rule_in_sarif_links_to_its_place_on_a_page_that_has_it() -> None:
    def links(run: LintRun) -> dict[str, str]:
        told = json.loads(FORMATS["sarif"](run))["runs"][0]["tool"]["driver"]["rules"]
        return {each["id"]: each["helpUri"] for each in told}

    assert links(run_of(FULL, docs_url="https://wiki.example/lint"))["OC403"] == "https://wiki.example/lint#oc403"
    for code, link in links(run_of(FULL)).items():
        page, _, anchor = link.partition("#")
        assert anchor == code.lower()
        assert f'<a id="{anchor}"></a>' in Path(page.removeprefix("file://")).read_text()


@pytest.mark.parametrize(
    ("file", "uri"),
    [("a b/ü.toml", "a%20b/%C3%BC.toml"), ("/x/y#1.toml", "file:///x/y%231.toml"), ("c:d.toml", "c%3Ad.toml")],
)
def test_files_in_sarif_are_uris(file: str, uri: str) -> None:
    assert uri_of(file) == uri


def test_junit_fails_at_the_level_that_fails_the_command() -> None:
    for level, failures in ((Severity.ERROR, 1), (Severity.WARNING, 2), (Severity.INFO, 3)):
        suite = ET.fromstring(FORMATS["junit"](run_of(FULL, fail_level=level)))[0]
        assert (suite.get("failures"), suite.get("errors")) == (str(failures), "0")
        assert len(suite.findall("testcase/failure")) == failures
        assert len(suite.findall("testcase/skipped")) == 1
        assert suite.get("tests") == str(len(suite.findall("testcase"))) == "4"


def test_junit_tells_of_rules_that_found_nothing_as_passed() -> None:
    suite = ET.fromstring(FORMATS["junit"](run_of(report_of(finding("OC403")))))[0]
    names = [each.get("name") or "" for each in suite.findall("testcase")]
    assert names[0] == "OC403 wrong"
    assert names[1].startswith("OC201 ") and len(names) == 2


def test_junit_does_not_show_a_rule_as_passed_that_had_nothing_to_look_at() -> None:
    brokers = tuple(broker(name) for name in ("p1", "p2", "p3"))
    live = Live(name="p1", cluster_key="test", root="p1", brokers=())

    def passed(model: Model) -> set[str]:
        suite = ET.fromstring(FORMATS["junit"](run_of(lint(model))))[0]
        assert suite.get("tests") == str(len(suite.findall("testcase")))
        return {(each.get("name") or "")[:5] for each in suite.findall("testcase")}

    alone = passed(model_of(brokers))
    assert "OC201" in alone and not {each for each in alone if each.startswith("OC8")} | {"OC704"} & alone
    config = model_of(brokers).config
    beside = passed(Model(config, brokers=brokers, others=(Other("b.toml", config),), live=live))
    assert {"OC704", "OC802", "OC807"} <= beside


def test_a_file_that_cannot_be_used_is_an_error_in_every_format() -> None:
    run = run_of(BAD)
    assert run.exit_code == 2
    suite = ET.fromstring(FORMATS["junit"](run))[0]
    assert (suite.get("errors"), suite.get("tests")) == ("2", "2")
    assert json.loads(FORMATS["json"](run))["exit_code"] == 2
    told = json.loads(FORMATS["sarif"](run))["runs"][0]
    assert told["invocations"][0]["executionSuccessful"] is False
    assert [each["ruleId"] for each in told["results"]] == ["OC101", "OC102"]
    assert "::error file=bad.toml,line=3,col=9,title=OC101::" in FORMATS["github"](run)
    assert "cannot be used" in FORMATS["markdown"](run)
    assert "cannot be used" in FORMATS["text"](run)


def test_json_tells_all_of_a_finding() -> None:
    told = json.loads(FORMATS["json"](everything()))
    assert told["version"] == 1
    first = told["files"][0]["findings"][0]
    assert first == {
        "code": "OC403",
        "severity": "error",
        "message": "wrong",
        "file": "a/cluster.toml",
        "line": 7,
        "column": 3,
        "brokers": ["p1", "p2"],
        "nodes": ["sw1"],
        "links": [["p1", "sw1"]],
        "fix": "Spread them.",
        "reason": "",
        "is_old": False,
    }
    assert told["files"][0]["counts"] == {"error": 1, "warning": 1, "info": 1}
    survival = told["files"][2]["survival"]
    assert (survival["no_root"]["at_least"], survival["no_root"]["count"]) == (2, 5)
    assert ["zone a", "zone b"] in survival["no_root"]["sets"]
    assert survival["groups"][0]["worst"] == ["zone a", "zone b"]


def test_github_commands_are_a_line_each_whatever_a_name_holds() -> None:
    text = FORMATS["github"](run_of(FULL))
    lines = text.splitlines()
    assert len(lines) == 3
    assert all(re.fullmatch(r"::(error|warning|notice) file=a/cluster\.toml[^:]*::.*", line) for line in lines)
    assert text.isprintable() or set(text) - {"\n"} == {each for each in text if each.isprintable()}
    assert escaped("50%\r\n") == "50%25%0D%0A"
    assert property_escaped("a:b,c") == "a%3Ab%2Cc"


def test_markdown_lets_nothing_out_of_its_cell() -> None:
    text = FORMATS["markdown"](run_of(FULL))
    (row,) = [line for line in text.splitlines() if "OC201" in line]
    assert len(re.findall(r"(?<!\\)\|", row)) == 5
    assert "<script" not in text and "@all" not in text
    assert safe("a*b|c") == "a\\*b\\|c"


def test_markdown_fits_a_comment() -> None:
    many = report_of(*(finding(message=f"number {i}: " + "x" * 100) for i in range(2_000)))
    text = FORMATS["markdown"](run_of(many))
    assert len(text) < CHARACTERS_MAX + 200 < 65_536
    assert "lines are left out" in text


def test_what_is_survived_is_told_in_every_format() -> None:
    run = everything()
    for name in FORMATS:
        assert "broker p0" in FORMATS[name](run), name


def test_files_are_named_with_or_without_their_format() -> None:
    assert named(["sarif:out.sarif", "out.txt", "./a:b", "-"]) == [
        ("sarif", "out.sarif"),
        ("", "out.txt"),
        ("", "./a:b"),
        ("", "-"),
    ]


@given(st.lists(st.text(max_size=30), min_size=4, max_size=4))
@QUICK
def test_no_text_makes_any_format_fail(texts: list[str]) -> None:
    file, message, fix, name = texts
    report = FileReport(
        file=file or "x",
        findings=(finding(message=message, fix=fix, file=file or "x", brokers=(name,)),),
        ignored=(finding(message=message, reason=name),),
    )
    run = run_of(report)
    told = {each: FORMATS[each](run) for each in FORMATS}
    assert all(text.encode() for text in told.values())
    assert sarif_schema().is_valid(json.loads(told["sarif"]))
    junit_schema().validate(told["junit"])


@given(models(), st.integers(1, 2))
@QUICK
def test_no_cluster_makes_any_format_fail(model: Any, most: int) -> None:
    run = LintRun(results=(result_of(lint(model), survival=survive(model, most)),))
    assert all(FORMATS[each](run).encode() for each in FORMATS)


def test_a_file_name_that_is_no_text_is_told_all_the_same() -> None:
    run = run_of(bad_input("a\udcff.toml", ["a\udcff.toml: no such file: a\udcff.toml"]))
    assert all(FORMATS[each](run).encode() for each in FORMATS)
