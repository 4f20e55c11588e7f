"""The table of rules in docs/topology.md, and the page of all rules.

`python -m topology.rules.rule_table` writes both.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from topology.rules.rule import GROUPS, all_rules

TABLE_PAGE = Path(__file__).parents[2] / "docs" / "topology.md"
WHOLE_PAGE = Path(__file__).parent / "README.md"
BEGIN, END = "<!-- rules: written by python -m topology.rules.rule_table -->", "<!-- end of rules -->"


def table() -> str:
    """All rules in the order of their ids, under their groups."""
    lines = []
    for beginning, group in GROUPS.items():
        lines += [f"### {beginning}: {group}", "", "| id | severity | finds | what to do |", "|---|---|---|---|"]
        lines += [
            f"| `{each.code}` | {each.severity.word} | {_cell(each.title)} | {_cell(each.fix)} |"
            for each in all_rules()
            if each.code.startswith(beginning)
        ]
        lines.append("")
    return "\n".join(lines)


def whole() -> str:
    """Every rule with its explanation. The headings are the ids, so that reports can link to them."""
    lines = ["# The rules of `openclust lint`", "", "Written by `python -m topology.rules.rule_table`."]
    for beginning, group in GROUPS.items():
        lines += ["", f"## {beginning}: {group}"]
        for each in all_rules():
            if each.code.startswith(beginning):
                lines += ["", f'<a id="{each.code.lower()}"></a>', "", f"### {each.code}: {each.title}", ""]
                lines += [f"Severity: {each.severity.word}. {each.why}", "", f"**What to do:** {each.fix}"]
    return "\n".join(lines) + "\n"


def replaced(page: str) -> str:
    """The page with its table replaced by the current one."""
    pattern = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    return pattern.sub(lambda _: f"{BEGIN}\n\n{table()}\n{END}", page)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main() -> int:
    TABLE_PAGE.write_text(replaced(TABLE_PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    WHOLE_PAGE.write_text(whole(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
