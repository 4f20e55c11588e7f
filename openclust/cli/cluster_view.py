"""What a broker says of its cluster at `/api/cluster`, for the commands that show it."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from openclust.cli.http_client import HttpClient

URL_DEFAULT = "http://guest:guest@127.0.0.1:15672"
WAIT_S = 10.0

url_option = click.option(
    "--url",
    metavar="URL",
    default=URL_DEFAULT,
    show_default=True,
    help="HTTP API of any broker of the cluster, with user and password.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")


class Vote(msgspec.Struct):
    epoch: int
    root: str


class BrokerView(msgspec.Struct):
    """One broker as the one that was asked knows it. Times without a value were never heard."""

    name: str
    role: str
    online: bool
    address: str = ""
    http: str = ""
    seniority_ms: int | None = None
    vote: Vote | None = None
    heard_ms_ago: int | None = None


class LinkView(msgspec.Struct):
    """One link of the broker that was asked: messages it sent, has yet to send, and could not send."""

    peer: str
    state: str
    error: str = ""
    sent: int = 0
    waiting: int = 0
    dropped: int = 0


class Votes(msgspec.Struct):
    given: int
    electorate: int
    defined: int


class Obstacle(msgspec.Struct):
    """Who stands in the way of a root, and why."""

    peer: str
    reason: str


class ClusterView(msgspec.Struct):
    """What a later version says beyond this is left out."""

    cluster_key: str
    name: str
    role: str
    root: str | None
    epoch: int
    votes: Votes
    why_no_root: list[Obstacle]
    brokers: list[BrokerView]
    links: list[LinkView]
    connections: int
    queues: int


def ask(client: HttpClient) -> tuple[ClusterView, Any]:
    """The view of the broker behind `client`, and the JSON that it came as. click's errors where there is none."""
    status, document = client.call("GET", "/api/cluster")
    if status == 404:
        raise click.ClickException(f"the broker at {client.base} knows of no cluster: it is another product or older")
    if status != 200:
        raise click.ClickException(client.refusal(status, document))
    try:
        return msgspec.convert(document, ClusterView), document
    except msgspec.ValidationError as error:
        raise click.ClickException(f"{client.base} says what this version does not understand: {error}") from None
