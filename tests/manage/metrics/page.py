"""Writes the tables of docs/metrics.md from the tables of the code: `python -m tests.manage.metrics.page`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from openclust.manage.metrics.metric import Metric
from openclust.manage.metrics.object_metrics import CUT, FAMILIES
from openclust.manage.metrics.openclust_metrics import OPENCLUST_METRICS
from openclust.manage.metrics.rabbitmq_metrics import RABBITMQ_METRICS
from tests.support.paths import ROOT

PAGE = ROOT / "docs" / "metrics.md"
HEAD = "| metric | type | labels | what it says | of |\n|---|---|---|---|---|\n"


def table(metrics: Iterable[Metric[Any]]) -> str:
    return HEAD + "".join(
        f"| `{each.name}` | {each.kind} | {', '.join(f'`{label}`' for label in each.labels)} | {each.help} "
        f"| {each.source} |\n"
        for each in metrics
    )


TABLES = {
    "rabbitmq": table(RABBITMQ_METRICS),
    "openclust": table(OPENCLUST_METRICS),
    **{name: table(metrics) for name, metrics in FAMILIES.items()},
    "cut": table((CUT,)),
}


def with_tables(text: str) -> str:
    """The page with its tables as the code has them: each stands behind a comment that names it."""
    for name, rows in TABLES.items():
        text, count = re.subn(
            rf"(<!-- table: {name} -->\n)(?:\n(?:\|.*\n)+)?", lambda found, rows=rows: f"{found[1]}\n{rows}", text
        )
        assert count == 1, f"docs/metrics.md has {count} places for the table {name}"
    return text


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
