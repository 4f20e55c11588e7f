"""The output of commands: tables for people (rich on a terminal, plain columns in a pipe), JSON for programs."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import click

from openclust.shell.host.event_log import escape


def show_table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Prints rows in columns. Cells may hold text of peers and files: control characters are escaped."""
    cells = [[escape(str(cell)) for cell in row] for row in rows]
    if sys.stdout.isatty():
        _show_rich(headers, cells)
        return
    widths = [max(len(row[i]) for row in (headers, *cells)) for i in range(len(headers))]
    for row in (headers, *cells):
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def show_json(value: Any) -> None:
    """Print one JSON document."""
    import json

    click.echo(json.dumps(value, indent=2))


def show_structs(value: Any) -> None:
    """Prints one JSON document of structs, or of any other value that msgspec encodes."""
    import msgspec

    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def has_terminal() -> bool:
    """Whether the process has a terminal to ask a question, even if standard input is a pipe."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return sys.stdin.isatty()
    return True


def wide_console(columns_in_a_file: int) -> Any:
    """A rich console on stdout. In a file or a pipe a table is as wide as it needs, not 80 columns."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else columns_in_a_file, highlight=False)


class FittedTable(NamedTuple):
    """The first `len(widths)` columns of a table, with their widths."""

    widths: tuple[int, ...]
    left_out: tuple[str, ...]


GAP = 2
"""Blanks between two columns."""
TEXT_WIDTH_MIN = 12
"""Long texts are folded to this width at least; then columns are left out."""


def fit(headers: Sequence[str], widths: Sequence[int], terminal: int) -> FittedTable:
    """Columns that fit a terminal: long ones are folded, and if that is not enough the last ones are left out."""
    wanted = [max(len(header), width) for header, width in zip(headers, widths, strict=True)]
    least = [max(len(header), min(width, TEXT_WIDTH_MIN)) for header, width in zip(headers, widths, strict=True)]
    kept = len(wanted)
    while kept > 1 and sum(least[:kept]) + GAP * (kept - 1) > terminal:
        kept -= 1
    shown = wanted[:kept]
    excess = sum(shown) + GAP * (kept - 1) - terminal
    while excess > 0 and (long := [i for i in range(kept) if shown[i] > least[i]]):
        shown[max(long, key=lambda i: shown[i])] -= 1
        excess -= 1
    return FittedTable(tuple(shown), tuple(headers[kept:]))


def _show_rich(headers: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    natural = [max((cell_len(row[i]) for row in cells), default=0) for i in range(len(headers))]
    fitted = fit(headers, natural, console.width)
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, GAP - 1, 0, 0))
    for header, width in zip(headers, fitted.widths, strict=False):
        table.add_column(header, width=width, overflow="fold")
    for row in cells:
        table.add_row(*(Text(cell) for cell in row[: len(fitted.widths)]))  # Text: no markup out of names
    console.print(table)
    if fitted.left_out:
        console.print(f"The terminal is too narrow for: {', '.join(fitted.left_out)}", markup=False)
