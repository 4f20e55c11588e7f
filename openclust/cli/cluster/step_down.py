"""`openclust step-down`: end a root's reign, so that the others elect another."""

from __future__ import annotations

import click
import msgspec

from openclust.cli.access.options import cluster_options
from openclust.cli.exit_codes import DONE
from openclust.cli.http_client import HttpClient
from openclust.shell.host.event_log import escape

REFUSED = 1


@click.command("step-down")
@cluster_options()
@click.option("--reason", metavar="TEXT", default="", help="What the log is to say about it.")
def step_down(client: HttpClient, reason: str) -> int:
    """Have the root behind --url give up its place. Exit code 1 where that broker is not the root.

    It goes to the end of the line, so another primary becomes root, unless it is the only one.
    """
    code, document = client.call("POST", "/api/cluster/step-down", msgspec.json.encode({"reason": reason}))
    if code == 409:
        told = document.get("reason", "") if isinstance(document, dict) else ""
        click.echo(f"{escape(told)}; give --url of the root", err=True)
        return REFUSED
    if code != 200 or not isinstance(document, dict):
        raise click.ClickException(client.refusal(code, document))
    click.echo(f"{escape(str(document.get('stepped_down')))} gave up the root of epoch {document.get('epoch')}.")
    return DONE
