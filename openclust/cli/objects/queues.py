"""`openclust queues`."""

from __future__ import annotations

from typing import Any

import click

from openclust.cli.access.options import cluster_options, json_option, vhost_option
from openclust.cli.exit_codes import DONE, NO
from openclust.cli.http_client import HttpClient
from openclust.cli.listing.cells import cell
from openclust.cli.listing.listing import list_command
from openclust.cli.listing.noun import Noun, columns_of
from openclust.cli.objects.change import change, part, refused
from openclust.cli.objects.json_argument import json_object
from openclust.cli.term import show_json, show_table
from openclust.shell.host.event_log import escape

GET_MAX = 10_000

QUEUES = Noun(
    "queues",
    "/api/queues",
    "/api/queues/{vhost}",
    columns_of(
        "vhost",
        "name",
        "messages",
        "messages_ready ready",
        "messages_unacknowledged unacked",
        "consumers",
        "message_stats.publish_details.rate in",
        "message_stats.deliver_get_details.rate out",
        "state",
        "node",
        "type",
        "policy",
    ),
)


@click.group()
def queues() -> None:
    """List, declare, purge, delete queues; get and move their messages."""


queues.add_command(list_command(QUEUES))


def _path(vhost: str, name: str) -> str:
    return f"/api/queues/{part(vhost)}/{part(name)}"


def _of(vhost: str, name: str) -> str:
    return f"queue {name!r} in virtual host {vhost!r}"


@queues.command()
@click.argument("name")
@vhost_option
@click.option("--transient", is_flag=True, help="It goes when the broker stops; queues are durable otherwise.")
@click.option("--auto-delete", is_flag=True, help="It goes with its last consumer.")
@click.option("--type", "type_", type=click.Choice(["classic", "quorum"]), help="As the argument x-queue-type.")
@click.option("--arguments", metavar="JSON", default="{}", help="""Such as '{"x-max-length": 1000}'.""")
@cluster_options()
def declare(
    name: str, vhost: str, transient: bool, auto_delete: bool, type_: str | None, arguments: str, client: HttpClient
) -> int:
    """Declare a queue; one that is there and is the same stays as it is."""
    given = json_object("--arguments", arguments)
    body = {
        "durable": not transient,
        "auto_delete": auto_delete,
        "arguments": given | ({"x-queue-type": type_} if type_ else {}),
    }
    status, _ = change(client, "PUT", _path(vhost, name), body, of=_of(vhost, name))
    click.echo(f"{'Declared' if status == 201 else 'There is already'} {escape(name)}.")
    return DONE


@queues.command()
@click.argument("name")
@vhost_option
@click.option("--if-empty", is_flag=True, help="Only if no message waits in it.")
@click.option("--if-unused", is_flag=True, help="Only if it has no consumer.")
@cluster_options()
def delete(name: str, vhost: str, if_empty: bool, if_unused: bool, client: HttpClient) -> int:
    """Delete a queue and its messages. Exit code 1 if --if-empty or --if-unused keeps it."""
    asked = [f"{flag}=true" for flag, given in (("if-empty", if_empty), ("if-unused", if_unused)) if given]
    path = _path(vhost, name) + ("?" + "&".join(asked) if asked else "")
    answer = client.ask("DELETE", path)
    if answer.status == 400 and asked:
        click.echo(client.refusal(answer.status, answer.document), err=True)
        return NO
    if answer.status not in (200, 204):
        raise refused(client, answer, _of(vhost, name))
    click.echo(f"Deleted {escape(name)}.")
    return DONE


@queues.command()
@click.argument("name")
@vhost_option
@cluster_options()
def purge(name: str, vhost: str, client: HttpClient) -> int:
    """Drop the messages that wait in a queue; those that consumers have not acknowledged yet stay."""
    change(client, "DELETE", f"{_path(vhost, name)}/contents", of=_of(vhost, name))
    click.echo(f"Purged {escape(name)}.")
    return DONE


@queues.command()
@click.argument("name")
@vhost_option
@click.option("--count", type=click.IntRange(1, GET_MAX), default=1, show_default=True, help="How many messages.")
@click.option("--remove", is_flag=True, help="Remove them; else they are put back, marked as redelivered.")
@click.option("--truncate", type=click.IntRange(0), metavar="BYTES", help="Show the beginning of each payload only.")
@json_option
@cluster_options()
def get(
    name: str, vhost: str, count: int, remove: bool, truncate: int | None, as_json: bool, client: HttpClient
) -> int:
    """Show the messages at the head of a queue. Exit code 1 if there is none."""
    body: dict[str, Any] = {
        "count": count,
        "ackmode": "ack_requeue_false" if remove else "ack_requeue_true",
        "encoding": "auto",
    }
    if truncate is not None:
        body["truncate"] = truncate
    _, found = change(client, "POST", f"{_path(vhost, name)}/get", body, of=_of(vhost, name))
    messages: list[dict[str, Any]] = found if isinstance(found, list) else []
    if as_json:
        show_json(messages)
    else:
        heads = ("exchange", "routing key", "redelivered", "bytes", "payload", "encoding", "properties")
        show_table(heads, [_message_row(each) for each in messages])
    return DONE if messages else NO


def _message_row(message: dict[str, Any]) -> list[str]:
    names = ("exchange", "routing_key", "redelivered", "payload_bytes", "payload", "payload_encoding", "properties")
    return [cell("", message.get(name)) for name in names]


@queues.command()
@click.argument("source")
@click.argument("target")
@vhost_option
@click.option("--limit", type=click.IntRange(1), metavar="MESSAGES", help="The most messages to move.")
@click.option(
    "--amqp-url",
    metavar="URL",
    help="AMQP address of the broker: amqp://HOST:PORT. Default: as its HTTP API says. The login is the same.",
)
@cluster_options()
def move(source: str, target: str, vhost: str, limit: int | None, amqp_url: str | None, client: HttpClient) -> int:
    """Move the messages that wait in SOURCE to the queue TARGET, in their order.

    A message is removed from SOURCE after the broker has confirmed that TARGET has it: none is lost, and one may be in
    both if this command or the broker is interrupted. It ends after as many messages as waited when it began.
    """
    from openclust.cli.objects.queue_move import move_messages

    return move_messages(client, vhost, source, target, limit, amqp_url)
