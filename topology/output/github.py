"""Commands to the runner of GitHub Actions, which shows them at the lines of the file in a pull request."""

from __future__ import annotations

from topology.output.formats import LintRun
from topology.rules.finding import Finding, Severity
from topology.survive.survival_text import sentences

COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}


def commands(run: LintRun) -> str:
    lines = [_command(finding) for each in run.results for finding in each.report.findings]
    for each in run.results:
        if each.survival is not None:
            command = "error" if each.has_shortfall else "notice"
            said = escaped("\n".join(sentences(each.survival)))
            lines.append(f"::{command} file={property_escaped(each.report.file)},title=What it survives::{said}")
    return "".join(f"{line}\n" for line in lines)


def _command(finding: Finding) -> str:
    properties = {"file": finding.file}
    if finding.line:
        properties["line"] = str(finding.line)
        if finding.column:
            properties["col"] = str(finding.column)
    properties["title"] = finding.code
    told = ",".join(f"{key}={property_escaped(value)}" for key, value in properties.items())
    text = f"{finding.message}\n{finding.fix}" if finding.fix else finding.message
    return f"::{COMMANDS[finding.severity]} {told}::{escaped(text)}"


def escaped(text: str) -> str:
    """The text of a message, with line ends and percent signs escaped as the runner decodes them."""
    text = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return "".join(each if each.isprintable() else " " for each in text)


def property_escaped(text: str) -> str:
    """The value of a property, in which commas and colons are escaped, too."""
    return escaped(text).replace(":", "%3A").replace(",", "%2C")
