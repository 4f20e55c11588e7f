"""`openclust draw`: a picture of a cluster file."""

from __future__ import annotations

import sys
from importlib.util import find_spec

import click

from topology.draw.picture_formats import FORMATS, draw, format_of
from topology.lint.check import check
from topology.output.plain_text import show_reports
from topology.rules.finding import FileReport

STDOUT = "-"


@click.command("draw")
@click.argument("file", metavar="FILE")
@click.option("-o", "--output", metavar="OUT", default=STDOUT, help="Where to: out.svg, out.png, out.dot, out.mmd.")
@click.option("--format", "format_", type=click.Choice(FORMATS), help="Where the name of OUT does not tell it.")
@click.option("--no-findings", is_flag=True, help="Leave out what openclust lint finds.")
def command(file: str, output: str, format_: str | None, no_findings: bool) -> int:
    """Draw a cluster file: who is primary and who secondary, where each stands, the network, and findings in red.

    Exit code 0 where it was drawn, whatever the findings are, 2 where the file cannot be used.
    """
    chosen = format_ or format_of(output)
    if chosen is None:
        way_out = "write -o out.svg, out.png, out.dot or out.mmd, or choose with --format"
        raise click.UsageError(f"--output {output}: which format is that? {way_out}")
    if chosen == "png" and find_spec("matplotlib") is None:
        way_out = "pip install 'openclust[plot]'; SVG needs nothing more"
        raise click.ClickException(f"matplotlib is needed for PNG: {way_out}")
    report, model = check(file)
    if model is None:
        show_reports([report], sys.stderr)
        return report.exit_code()
    if not model.brokers and not model.nodes:
        raise click.ClickException(f"{file}: names no broker, so that there is nothing to draw")
    if no_findings:
        report = FileReport(file=report.file, findings=())
    picture = draw(model, report, chosen)
    if output == STDOUT:
        sys.stdout.buffer.write(picture)
    else:
        with open(output, "wb") as stream:
            stream.write(picture)
    return 0
