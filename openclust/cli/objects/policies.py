"""`openclust policies`."""

from __future__ import annotations

import click

from openclust.cli.access.options import cluster_options, vhost_option
from openclust.cli.exit_codes import DONE
from openclust.cli.http_client import HttpClient
from openclust.cli.listing.listing import list_command
from openclust.cli.listing.noun import Noun, columns_of
from openclust.cli.objects.change import change, part
from openclust.cli.objects.json_argument import json_object
from openclust.shell.host.event_log import escape

_COLUMNS = columns_of("vhost", "name", "pattern", "apply-to", "priority", "definition")
POLICIES = Noun("policies", "/api/policies", "/api/policies/{vhost}", _COLUMNS)
OPERATOR_POLICIES = Noun("operator policies", "/api/operator-policies", "/api/operator-policies/{vhost}", _COLUMNS)

operator_option = click.option("--operator", "is_operator", is_flag=True, help="An operator policy.")


@click.group()
def policies() -> None:
    """List, set and clear policies."""


policies.add_command(list_command(POLICIES))
policies.add_command(list_command(OPERATOR_POLICIES), "list-operator")


@policies.command("set")
@click.argument("name")
@click.argument("pattern")
@click.argument("definition")
@vhost_option
@click.option(
    "--apply-to",
    type=click.Choice(["all", "queues", "exchanges", "classic_queues", "quorum_queues"]),
    default="all",
    show_default=True,
    help="The objects whose names are matched.",
)
@click.option("--priority", type=int, default=0, show_default=True, help="Of all that match, the highest is in force.")
@operator_option
@cluster_options()
def set_(
    name: str,
    pattern: str,
    definition: str,
    vhost: str,
    apply_to: str,
    priority: int,
    is_operator: bool,
    client: HttpClient,
) -> int:
    """Make or change the policy NAME for objects whose name matches PATTERN; DEFINITION is JSON."""
    body = {
        "pattern": pattern,
        "definition": json_object("the definition", definition),
        "apply-to": apply_to,
        "priority": priority,
    }
    status, _ = change(client, "PUT", _path(vhost, name, is_operator), body, of=_of(vhost, name))
    click.echo(f"{'Made' if status == 201 else 'Changed'} the policy {escape(name)}.")
    return DONE


@policies.command()
@click.argument("name")
@vhost_option
@operator_option
@cluster_options()
def clear(name: str, vhost: str, is_operator: bool, client: HttpClient) -> int:
    """Take a policy away."""
    change(client, "DELETE", _path(vhost, name, is_operator), of=_of(vhost, name))
    click.echo(f"Cleared the policy {escape(name)}.")
    return DONE


def _of(vhost: str, name: str) -> str:
    return f"policy {name!r} in virtual host {vhost!r}"


def _path(vhost: str, name: str, is_operator: bool) -> str:
    return f"/api/{'operator-policies' if is_operator else 'policies'}/{part(vhost)}/{part(name)}"
