"""`openclust publish`: one message, confirmed."""

from __future__ import annotations

import sys
from base64 import b64encode
from typing import Any

import click

from openclust.cli.access.options import cluster_options, vhost_option
from openclust.cli.exit_codes import DONE, NO
from openclust.cli.http_client import HttpClient
from openclust.cli.objects.change import change, part
from openclust.cli.objects.json_argument import json_object

PAYLOAD_BYTES_MAX = 10_000_000
DEFAULT_EXCHANGE = "amq.default"


@click.command()
@click.argument("exchange")
@click.argument("routing_key")
@click.argument("payload", required=False)
@vhost_option
@click.option("--file", "path", metavar="FILE", help='The payload is what FILE holds ("-": standard input).')
@click.option("--transient", is_flag=True, help="It may be lost with the broker; messages are persistent otherwise.")
@click.option("--properties", metavar="JSON", default="{}", help="""Such as '{"content_type": "text/plain"}'.""")
@click.option("--headers", metavar="JSON", default="{}", help="""Such as '{"tenant": "a"}'.""")
@cluster_options()
def publish(
    exchange: str,
    routing_key: str,
    payload: str | None,
    vhost: str,
    path: str | None,
    transient: bool,
    properties: str,
    headers: str,
    client: HttpClient,
) -> int:
    """Publish a message to EXCHANGE ("" is the default exchange), and wait until the broker has confirmed it.

    Exit code 1 if no queue wanted it.
    """
    if (payload is None) == (path is None):
        raise click.UsageError("give PAYLOAD or --file FILE")
    data = payload.encode(errors="surrogateescape") if payload is not None else _read(path or "-")
    given: dict[str, Any] = {"delivery_mode": 1 if transient else 2} | json_object("--properties", properties)
    if wanted := json_object("--headers", headers):
        given["headers"] = given.get("headers", {}) | wanted
    try:
        text, encoding = data.decode(), "string"
    except UnicodeDecodeError:
        text, encoding = b64encode(data).decode(), "base64"
    body = {"routing_key": routing_key, "payload": text, "payload_encoding": encoding, "properties": given}
    place = f"/api/exchanges/{part(vhost)}/{part(exchange or DEFAULT_EXCHANGE)}/publish"
    of = f"exchange {exchange!r} in virtual host {vhost!r}"
    _, answer = change(client, "POST", place, body, of=of)
    if isinstance(answer, dict) and answer.get("routed"):
        click.echo("Published.")
        return DONE
    click.echo("no queue wanted the message, so it is nowhere", err=True)
    return NO


def _read(path: str) -> bytes:
    if path == "-":
        data = sys.stdin.buffer.read(PAYLOAD_BYTES_MAX + 1)
    else:
        with open(path, "rb") as opened:
            data = opened.read(PAYLOAD_BYTES_MAX + 1)
    if len(data) > PAYLOAD_BYTES_MAX:
        raise click.ClickException(f"{path}: a message published by this command has at most {PAYLOAD_BYTES_MAX} bytes")
    return data
