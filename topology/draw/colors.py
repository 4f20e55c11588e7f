"""The colours of boxes, cards and lines, and of findings."""

from __future__ import annotations

from topology.draw.picture import Mark
from topology.rules.finding import Severity

RED, ORANGE = "#dc2626", "#d97706"
INK, FAINT, PAPER = "#0f172a", "#475569", "#ffffff"
FILLS = {"region": "#f8fafc", "zone": "#f1f5f9", "rack": "#e8eef5", "host": "#e2e8f0"}
LOOKS = {
    "primary": ("#dbeafe", "#1d4ed8", 2.0),
    "secondary": ("#ffffff", "#64748b", 1.2),
    "switch": ("#ccfbf1", "#0f766e", 1.2),
    "router": ("#ccfbf1", "#0f766e", 1.2),
    "network": ("#ecfccb", "#4d7c0f", 1.2),
    "wan": ("#fef9c3", "#a16207", 1.2),
}
LINES = {"physical": ("#0f766e", 1.3), "direct": ("#64748b", 1.2), "mesh": ("#93b4f5", 1.4), "pair": (RED, 1.8)}


def color_of(mark: Mark) -> str:
    return RED if mark.severity is Severity.ERROR else ORANGE
