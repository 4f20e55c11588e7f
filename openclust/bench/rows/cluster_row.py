"""The rows of the table of a cluster's targets: the figure that was found beside the figure that is wanted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table


class ClusterRow(msgspec.Struct, frozen=True, kw_only=True):
    """One line. `value` may be at most, or where `is_floor` at least, `target`; `shown` says more, for people."""

    key: str
    title: str
    unit: str
    target: float | None = None
    is_floor: bool = False
    value: float | None = None
    shown: str = ""
    figures: dict[str, Any] = {}
    notes: list[str] = []
    failed: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None if there is no target, or no figure."""
        if self.target is None or self.value is None:
            return None
        return self.value >= self.target if self.is_floor else self.value <= self.target


def show_rows(rows: Sequence[ClusterRow], console: Console) -> None:
    shown = Table()
    for column in ("work", "wanted", "found", "met", "in detail"):
        shown.add_column(column)
    for row in rows:
        if row.failed:
            shown.add_row(row.title, _target_text(row), "failed", "no", row.failed)
            continue
        met = {None: "-", True: "yes", False: "no"}[row.met]
        shown.add_row(row.title, _target_text(row), _amount(row.value, row.unit), met, row.shown)
    console.print(shown)
    for row in rows:
        for note in row.notes:
            console.print(f"note, {row.key}: {note}", soft_wrap=True)


def rows_data(rows: Sequence[ClusterRow]) -> dict[str, Any]:
    """For `--json`."""
    return {"rows": [{**msgspec.to_builtins(row), "failed": row.failed or None, "met": row.met} for row in rows]}


def _target_text(row: ClusterRow) -> str:
    bound = "at least" if row.is_floor else "at most"
    return "-" if row.target is None else f"{bound} {_amount(row.target, row.unit)}"


def _amount(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f} {unit}" if unit not in ("x", "s") else f"{value:.2f} {unit}"
