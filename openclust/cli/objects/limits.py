"""`openclust limits`: how much a virtual host or a user may have."""

from __future__ import annotations

from typing import Any

import click

from openclust.cli.access.options import cluster_options, json_option
from openclust.cli.exit_codes import DONE
from openclust.cli.http_client import HttpClient
from openclust.cli.objects.change import change, part
from openclust.cli.term import show_json, show_table
from openclust.shell.host.event_log import escape

OF_VHOSTS = ("max-connections", "max-queues")
OF_USERS = ("max-connections", "max-channels")

name_argument = click.argument("name", type=click.Choice(sorted({*OF_VHOSTS, *OF_USERS})))
vhost_option = click.option("--vhost", metavar="VHOST", help="Of this virtual host.")
user_option = click.option("--user", metavar="USER", help="Of this user.")


@click.group()
def limits() -> None:
    """List, set and clear limits of virtual hosts and users."""


@limits.command("list")
@click.option("--vhost", metavar="VHOST", help="Only those of this virtual host.")
@click.option("--user", metavar="USER", help="Only those of this user.")
@json_option
@cluster_options()
def list_(vhost: str | None, user: str | None, as_json: bool, client: HttpClient) -> int:
    """List the limits of virtual hosts and users."""
    rows: list[dict[str, Any]] = []
    if user is None:
        rows += _fetch(client, "vhost", vhost)
    if vhost is None:
        rows += _fetch(client, "user", user)
    if as_json:
        show_json(rows)
        return DONE
    table = []
    for row in rows:
        kind = "user" if "user" in row else "vhost"
        table += [[kind, row.get(kind), name, most] for name, most in sorted((row.get("value") or {}).items())]
    show_table(("of", "name", "limit", "most"), table)
    return DONE


@limits.command("set")
@name_argument
@click.argument("most", type=int)
@vhost_option
@user_option
@cluster_options()
def set_(name: str, most: int, vhost: str | None, user: str | None, client: HttpClient) -> int:
    """Let a virtual host or a user have at most MOST of these (-1: as many as they like)."""
    path, owner = _place(name, vhost, user)
    change(client, "PUT", path, {"value": most}, of=owner)
    click.echo(f"Set {name} of {escape(owner)} to {most}.")
    return DONE


@limits.command()
@name_argument
@vhost_option
@user_option
@cluster_options()
def clear(name: str, vhost: str | None, user: str | None, client: HttpClient) -> int:
    """Take a limit away."""
    path, owner = _place(name, vhost, user)
    change(client, "DELETE", path, of=f"{name} of {owner}")
    click.echo(f"Cleared {name} of {escape(owner)}.")
    return DONE


def _place(name: str, vhost: str | None, user: str | None) -> tuple[str, str]:
    """The path of a limit, and its owner."""
    if (vhost is None) == (user is None):
        raise click.UsageError("whose limit? give --vhost VHOST or --user USER")
    if vhost is not None:
        kind, owner, known = "vhost", vhost, OF_VHOSTS
    else:
        kind, owner, known = "user", str(user), OF_USERS
    if name not in known:
        raise click.UsageError(f"a {kind} has no limit {name}; there are {', '.join(known)}")
    return f"/api/{kind}-limits/{part(owner)}/{name}", f"{kind} {owner}"


def _fetch(client: HttpClient, kind: str, owner: str | None) -> list[dict[str, Any]]:
    path = f"/api/{kind}-limits" + (f"/{part(owner)}" if owner is not None else "")
    status, document = client.call("GET", path)
    if status != 200 or not isinstance(document, list):
        raise click.ClickException(client.refusal(status, document))
    return [each for each in document if isinstance(each, dict)]
