"""`openclust connections`."""

from __future__ import annotations

import click

from openclust.cli.access.options import cluster_options
from openclust.cli.exit_codes import DONE
from openclust.cli.http_client import HttpClient
from openclust.cli.listing.listing import list_command
from openclust.cli.listing.noun import Noun, columns_of
from openclust.cli.objects.change import change, part
from openclust.shell.host.event_log import escape

REASON_CHARACTERS_MAX = 200

CONNECTIONS = Noun(
    "connections",
    "/api/connections",
    "/api/vhosts/{vhost}/connections",
    columns_of(
        "name",
        "user",
        "vhost",
        "state",
        "channels",
        "recv_oct_details.rate in",
        "send_oct_details.rate out",
        "client_properties.connection_name called",
        "connected_at since",
        "ssl tls",
        "node",
    ),
)


@click.group()
def connections() -> None:
    """List and close connections."""


connections.add_command(list_command(CONNECTIONS))


@connections.command("close")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--reason", default="", metavar="TEXT", help="What the client and the log are told.")
@cluster_options()
def close(names: tuple[str, ...], reason: str, client: HttpClient) -> int:
    """Close the connections of these names, wherever they are (openclust connections list shows the names)."""
    if len(reason) > REASON_CHARACTERS_MAX or not (reason.isascii() and (reason.isprintable() or not reason)):
        raise click.UsageError(f"--reason is at most {REASON_CHARACTERS_MAX} printable ASCII characters")
    headers = {"X-Reason": reason} if reason else {}
    for name in names:
        change(client, "DELETE", f"/api/connections/{part(name)}", of=f"connection {name!r}", headers=headers)
        click.echo(f"Closed {escape(name)}.")
    return DONE
