"""JUnit's XML, which every CI shows: a suite a file, a case for each finding, and for each rule that found nothing.

A finding at or above the level that fails is a failure; one below is a passing case that tells it; an ignored one
is skipped; a file that cannot be used is an error.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable

from openclust import __version__
from openclust.shell.host.event_log import escape
from topology.output.formats import LintRun, Result
from topology.rules.finding import Finding
from topology.rules.rule import RULES
from topology.survive.survival_text import of_required, sentences


def document(run: LintRun) -> str:
    root = ET.Element("testsuites")
    for number, each in enumerate(run.results):
        _suite(root, number, each, run)
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _suite(root: ET.Element, number: int, result: Result, run: LintRun) -> None:
    report = result.report
    is_failure = {id(each): each.severity >= run.fail_level for each in report.findings}
    found = {each.code for each in (*report.findings, *report.ignored)}
    clean = [code for code in report.asked if code not in found]
    failures = sum(is_failure.values())
    is_required = result.survival is not None and result.survival.required > 0
    suite = ET.SubElement(
        root,
        "testsuite",
        {
            "name": clear(report.file),
            "package": "openclust.lint",
            "id": str(number),
            "timestamp": run.began,
            "hostname": "localhost",
            "tests": str(len(report.findings) + len(report.ignored) + len(clean) + is_required),
            "failures": str(0 if report.is_bad_input else failures + result.has_shortfall),
            "errors": str(len(report.findings) if report.is_bad_input else 0),
            "time": "0",
        },
    )
    properties = ET.SubElement(suite, "properties")
    ET.SubElement(properties, "property", {"name": "openclust", "value": __version__})
    for finding in report.findings:
        case = _case(suite, finding, report.file)
        if report.is_bad_input or is_failure[id(finding)]:
            kind = "error" if report.is_bad_input else "failure"
            _wrong(case, kind, finding)
        else:
            ET.SubElement(case, "system-out").text = clear(_whole(finding))
    for finding in report.ignored:
        ET.SubElement(_case(suite, finding, report.file), "skipped").text = clear(finding.reason)
    for code in clean:
        name = f"{code} {RULES[code].title}"
        ET.SubElement(suite, "testcase", {"name": name, "classname": clear(report.file), "time": "0"})
    if result.survival is not None and result.survival.required:
        name = f"survives {result.survival.required} failures"
        case = ET.SubElement(suite, "testcase", {"name": name, "classname": clear(report.file), "time": "0"})
        if result.has_shortfall:
            ET.SubElement(case, "failure", {"message": clear(of_required(result.survival))})
    told = [] if result.survival is None else sentences(result.survival)
    ET.SubElement(suite, "system-out").text = clear("\n".join(told))
    ET.SubElement(suite, "system-err")


def _case(suite: ET.Element, finding: Finding, file: str) -> ET.Element:
    name = f"{finding.code} {finding.message}"
    return ET.SubElement(suite, "testcase", {"name": clear(name), "classname": clear(file), "time": "0"})


def _wrong(case: ET.Element, kind: str, finding: Finding) -> None:
    attributes = {"type": finding.severity.word, "message": clear(finding.message)}
    ET.SubElement(case, kind, attributes).text = clear(_whole(finding))


def _whole(finding: Finding) -> str:
    return f"{finding.place}: {finding.severity.word} {finding.code} {finding.message}\n{finding.fix}"


def clear(text: str, escaped: Callable[[str], str] = escape) -> str:
    """The text for XML 1.0: control characters and surrogates, which it cannot hold, are escaped; line ends stay."""
    lines = "\n".join(escaped(line) for line in text.split("\n"))
    return "".join(each if _may_be(ord(each)) else f"\\u{ord(each):04x}" for each in lines)


def _may_be(code: int) -> bool:
    return code in (0x9, 0xA) or 0x20 <= code < 0xD800 or 0xE000 <= code < 0xFFFE or code >= 0x10000
