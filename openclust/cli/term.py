"""What the commands show: tables for people (rich on a terminal, plain columns in a pipe) and JSON for programs."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from openclust.shell.host.event_log import escape


def show_table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print rows in columns. Cells may hold anything a peer or a file said: control characters come out escaped."""
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
    """Print one JSON document of structs, and of what else msgspec encodes."""
    import msgspec

    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def has_terminal() -> bool:
    """Whether there is somebody to ask: the terminal of this process, even where standard input is a pipe."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return sys.stdin.isatty()
    return True


def wide_console(columns_in_a_file: int) -> Any:
    """A rich console on stdout. In a file or a pipe a table is not squeezed into the 80 columns of no terminal."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else columns_in_a_file, highlight=False)


def _show_rich(headers: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for header in headers:
        table.add_column(header, overflow="fold")
    for row in cells:
        table.add_row(*(Text(cell) for cell in row))  # Text: no markup out of names
    Console().print(table)
