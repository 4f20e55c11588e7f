"""The queries of the alerts and of the board in conf/."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

from tests.support.paths import ROOT

RULES = ROOT / "conf" / "prometheus" / "openclust.rules.yml"
BOARD = ROOT / "conf" / "grafana" / "openclust.json"

_ALERT = re.compile(
    r"- alert: (?P<name>\w+)\n\s+expr: (?P<expression>.+)\n(?:\s+for: \w+\n)?\s+labels:\n"
    r"\s+severity: (?P<severity>\w+)\n\s+annotations:\n\s+summary: .+\n\s+page: (?P<page>\S+)"
)
_WORDS = frozenset(
    ("sum", "max", "min", "rate", "increase", "histogram_quantile", "predict_linear", "time", "unless", "or", "and")
)


class Alert(NamedTuple):
    name: str
    expression: str
    severity: str
    page: str


def alerts() -> list[Alert]:
    text = RULES.read_text(encoding="utf-8")
    found = [Alert(*each.groups()) for each in _ALERT.finditer(text)]
    assert len(found) == text.count("- alert:"), "an alert is written in another way than the others"
    return [each._replace(expression=each.expression.strip("'")) for each in found]


def board_queries() -> Iterator[tuple[str, str]]:
    """The title of each panel, and its queries; then those of the choices above the panels."""
    board = json.loads(BOARD.read_text(encoding="utf-8"))
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]
    for choice in board["templating"]["list"]:
        if choice["type"] == "query":
            yield choice["name"], re.sub(r"label_values\((.+), \w+\)", r"\1", choice["definition"])


def concrete(query: str) -> str:
    """The query with all of each choice, as Prometheus takes it."""
    return query.replace("$cluster", ".*").replace("$instance", ".*").replace("$__rate_interval", "1m")


def selectors(query: str) -> list[str]:
    """The metrics of a query, each with the labels that it asks for."""
    found = re.findall(r"\b([a-zA-Z_]\w*)(\{[^}]*\})?", concrete(query))
    return [name + labels for name, labels in found if name in names_in(query)]


def names_in(query: str) -> set[str]:
    """The names of the metrics that a query asks for."""
    bare = re.sub(r"\{[^}]*\}|\[[^\]]*\]|\"[^\"]*\"|\b(by|on|group_left) *\([^)]*\)", " ", query)
    return {word for word in re.findall(r"[a-zA-Z_]\w*", bare) if word not in _WORDS}
