"""`openclust drain`: empty a broker of its clients, so that it can be stopped."""

from __future__ import annotations

import click
import msgspec

from openclust.cli.access.options import cluster_options
from openclust.cli.cluster.cluster_view import ask
from openclust.cli.exit_codes import DONE
from openclust.cli.http_client import HttpClient
from openclust.shell.host.event_log import escape

REFUSED = 1


@click.command()
@click.argument("name")
@cluster_options()
@click.option("--force", is_flag=True, help="Also where too few primaries would be left to elect a root.")
@click.option("--undo", is_flag=True, help="Let the broker take clients again.")
def drain(name: str, client: HttpClient, force: bool, undo: bool) -> int:
    """Have the broker NAME send its clients to the others, a bounded number a second, and take no new ones.

    A root gives up its place too. Exit code 1 where too few primaries would be left; --force does it all the same. The
    broker goes on to serve who cannot go: stop it when `openclust status` shows no connections, or --undo.
    """
    client = _client_of(name, client)
    body = msgspec.json.encode({"name": name, "force": force, "undo": undo})
    status, document = client.call("POST", "/api/cluster/drain", body)
    if status == 409 and isinstance(document, dict):
        way_out = "; --force does it all the same" if document.get("error") == "quorum" else ""
        click.echo(f"{escape(str(document.get('reason', '')))}{way_out}", err=True)
        return REFUSED
    if status != 200 or not isinstance(document, dict):
        raise click.ClickException(client.refusal(status, document))
    clients = document.get("clients")
    if undo:
        click.echo(f"{escape(name)} takes clients again; it has {clients}.")
        return DONE
    first = " It gave up its place as root." if document.get("stepped_down") else ""
    click.echo(f"{escape(name)} sends its {clients} clients away, at most {document.get('per_s')} a second.{first}")
    return DONE


def _client_of(name: str, client: HttpClient) -> HttpClient:
    """A client of the API of the broker to drain. `client` tells its address; the login is the same."""
    view, _ = ask(client)
    if view.name == name:
        return client
    broker = next((each for each in view.brokers if each.name == name), None)
    if broker is None:
        known = ", ".join(each.name for each in view.brokers)
        raise click.ClickException(f"{view.name} knows no broker {name!r}; there are {known}")
    if not broker.http:
        raise click.ClickException(f"{name} has no HTTP API that {view.name} knows of; give --url of {name} itself")
    return client.at(broker.http)
