"""`openclust vhosts`."""

from __future__ import annotations

import click

from openclust.cli.access.options import cluster_options
from openclust.cli.exit_codes import DONE
from openclust.cli.http_client import HttpClient
from openclust.cli.listing.listing import list_command
from openclust.cli.listing.noun import Noun, columns_of
from openclust.cli.objects.change import change, part
from openclust.cli.term import has_terminal
from openclust.shell.host.event_log import escape

VHOSTS = Noun(
    "vhosts",
    "/api/vhosts",
    "",
    columns_of(
        "name",
        "messages",
        "messages_ready ready",
        "messages_unacknowledged unacked",
        "message_stats.publish_details.rate in",
        "message_stats.deliver_get_details.rate out",
        "description",
        "tags",
    ),
)


@click.group()
def vhosts() -> None:
    """List, add and delete virtual hosts."""


vhosts.add_command(list_command(VHOSTS))


@vhosts.command()
@click.argument("name")
@cluster_options()
def add(name: str, client: HttpClient) -> int:
    """Make a virtual host; your user may do everything in it."""
    status, _ = change(client, "PUT", f"/api/vhosts/{part(name)}", {}, of=f"virtual host {name!r}")
    click.echo(f"{'Added' if status == 201 else 'There is already'} {escape(name)}.")
    return DONE


@vhosts.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@cluster_options()
def delete(name: str, yes: bool, client: HttpClient) -> int:
    """Delete a virtual host with all its queues and messages."""
    if not yes:
        if not has_terminal():
            raise click.UsageError("this deletes all queues in it, and there is no terminal to ask; add --yes")
        click.confirm(f"Delete {escape(name)} and all queues and messages in it?", abort=True, err=True)
    change(client, "DELETE", f"/api/vhosts/{part(name)}", of=f"virtual host {name!r}")
    click.echo(f"Deleted {escape(name)}.")
    return DONE
