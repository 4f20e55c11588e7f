"""`openclust force-root`: a root without an election, for when too many primaries are gone for good."""

from __future__ import annotations

import click
import msgspec

from openclust.cli.access.options import cluster_options
from openclust.cli.exit_codes import DONE
from openclust.cli.http_client import HttpClient
from openclust.shell.host.event_log import escape

REFUSED = 1


@click.command("force-root")
@cluster_options()
@click.option(
    "--i-accept-data-loss",
    "accepted",
    is_flag=True,
    help="Needed: what only the missing primaries hold is given up, and if they run elsewhere there are two roots.",
)
def force_root(client: HttpClient, accepted: bool) -> int:
    """Make the primary behind --url root, whoever is missing. Exit code 1 where there is a root already.

    Make sure first that the missing primaries are down. When they come back they follow, and take its definitions.
    """
    if not accepted:
        raise click.UsageError(
            "this gives up what only the missing primaries hold; if that is meant, add --i-accept-data-loss "
            "(openclust why-no-root tells what stands in the way of an election)"
        )
    code, document = client.call("POST", "/api/cluster/force-root", msgspec.json.encode({"accept_data_loss": True}))
    if code == 409:
        told = document.get("reason", "") if isinstance(document, dict) else ""
        click.echo(escape(str(told)), err=True)
        return REFUSED
    if code != 200 or not isinstance(document, dict):
        raise click.ClickException(client.refusal(code, document))
    click.echo(f"{escape(str(document.get('root')))} is root of epoch {document.get('epoch')}, by force.")
    return DONE
