"""The last output of `openclust simulate` and `openclust analyze`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from openclust.cli.term import show_structs

if TYPE_CHECKING:
    from topology.simulate.results.summary import ResultsSummary


def show_summary(summary: ResultsSummary, out: Path, *, as_json: bool, quiet: bool) -> None:
    """Shows the results of a simulation or an analysis, and the path of its report."""
    if as_json:
        show_structs(summary)
    elif not quiet:
        from rich.console import Console

        from topology.simulate.report.results_folder import REPORT
        from topology.simulate.results.summary_text import show

        show(summary, Console(file=sys.stdout))
        click.echo(f"{out / REPORT}: the report ({summary.took_s:.1f} s)")
