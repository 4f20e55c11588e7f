"""`openclust queues move`: messages from one queue to another, over AMQP.

A message is got without being removed, published to the other queue, and acknowledged after the broker has confirmed
that it is there. Whatever ends the command in between puts the messages that are not acknowledged back.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import click

from openclust.cli.exit_codes import DONE
from openclust.cli.http_client import HttpClient
from openclust.shell.host.event_log import escape

if TYPE_CHECKING:
    from aiormq.abc import AbstractChannel, DeliveredMessage

BATCH = 100
"""So many messages are under way at once."""
CONFIRM_WAIT_S = 60.0
CONNECT_WAIT_S = 20.0
REPORT_EVERY = 10_000

COPIES = ("CC", "BCC")


class _Stopped(Exception):
    """Why no more messages are moved."""


def move_messages(
    client: HttpClient, vhost: str, source: str, target: str, limit: int | None, amqp_url: str | None
) -> int:
    """Move them, and say how many; click's errors where it ends too early, with the number too."""
    if source == target:
        raise click.UsageError(f"{source} would be moved to itself")
    url = _url(client, vhost, amqp_url)
    moved = MovedCount()
    try:
        asyncio.run(_move(url, source, target, limit, moved))
    except _Stopped as stopped:
        raise click.ClickException(
            f"{stopped}; {moved} moved to {escape(target)}, the others are where they were"
        ) from None
    except KeyboardInterrupt:
        click.echo(f"Interrupted: {moved} moved to {escape(target)}, the others are where they were.", err=True)
        raise
    click.echo(f"Moved {moved} from {escape(source)} to {escape(target)}.")
    return DONE


class MovedCount:
    """How many messages have left the one queue for the other."""

    count = 0

    def __str__(self) -> str:
        return "1 message" if self.count == 1 else f"{self.count} messages"


async def _move(url: str, source: str, target: str, limit: int | None, moved: MovedCount) -> None:
    from aiormq.exceptions import AMQPError

    from openclust.client import connect
    from openclust.client.failures import NoBroker

    try:
        connection = await connect(url, timeout=CONNECT_WAIT_S)
    except (NoBroker, AMQPError, OSError, TimeoutError) as error:
        raise _Stopped(f"no AMQP connection, {_told(error)} (--amqp-url names another address)") from None
    try:
        async with connection:
            getting = await (await connection.channel(publisher_confirms=False)).get_underlay_channel()
            publishing = await (await connection.channel(publisher_confirms=True)).get_underlay_channel()
            waiting = await getting.queue_declare(source, passive=True)
            await publishing.queue_declare(target, passive=True)  # 404 before anything is got
            left = waiting.message_count or 0
            left = left if limit is None else min(left, limit)
            while left:
                batch = await _batch(getting, source, min(left, BATCH))
                if not batch:
                    return  # Somebody else has consumed the rest.
                await _hand_over(getting, publishing, target, batch, moved)
                left -= len(batch)
    except (AMQPError, OSError, TimeoutError) as error:
        raise _Stopped(_told(error)) from None


async def _batch(channel: AbstractChannel, queue: str, size: int) -> list[DeliveredMessage]:
    """The next messages at the head of the queue."""
    found: list[DeliveredMessage] = []
    while len(found) < size:
        message = await channel.basic_get(queue, timeout=CONFIRM_WAIT_S)
        if message.delivery_tag is None:
            break
        found.append(message)
    return found


async def _hand_over(
    getting: AbstractChannel, publishing: AbstractChannel, target: str, batch: list[DeliveredMessage], moved: MovedCount
) -> None:
    """Publish them in their order, and acknowledge those that are confirmed: all, or those before the first failure."""
    outcomes = await asyncio.gather(*(_publish(publishing, target, each) for each in batch), return_exceptions=True)
    for message, outcome in zip(batch, outcomes, strict=True):
        if isinstance(outcome, BaseException):
            raise outcome
        assert message.delivery_tag is not None, "it was got"
        await getting.basic_ack(message.delivery_tag)
        moved.count += 1
        if moved.count % REPORT_EVERY == 0:
            click.echo(f"{moved} moved so far", err=True)


async def _publish(channel: AbstractChannel, target: str, message: DeliveredMessage) -> None:
    """Publish it with the properties that it has, but for those that would be refused or make copies of it."""
    properties = message.header.properties
    properties.user_id = None
    if properties.headers:
        properties.headers = {name: value for name, value in properties.headers.items() if name not in COPIES}
    await channel.basic_publish(
        message.body, routing_key=target, properties=properties, mandatory=True, timeout=CONFIRM_WAIT_S
    )


def _told(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return f"no confirm within {CONFIRM_WAIT_S:.0f} seconds"
    return f"the broker says {escape(' '.join(str(error).split()) or type(error).__name__)}"


# -- the address


def _url(client: HttpClient, vhost: str, given: str | None) -> str:
    """The AMQP URL of a broker, with the login of the HTTP API."""
    scheme, host, port = _parse(given) if given is not None else _named_by(client)
    login = f"{quote(client.user, safe='')}:{quote(client.password, safe='')}"
    shown = f"[{host}]" if ":" in host else host
    return f"{scheme}://{login}@{shown}:{port}/{quote(vhost, safe='')}"


def _parse(text: str) -> tuple[str, str, int]:
    parts = urlsplit(text)
    try:
        port = parts.port
    except ValueError:
        port = -1
    if parts.scheme not in ("amqp", "amqps") or not parts.hostname or port == -1 or parts.password:
        raise click.UsageError("--amqp-url wants amqp://HOST:PORT or amqps://HOST:PORT, without a password")
    return parts.scheme, parts.hostname, port or (5_671 if parts.scheme == "amqps" else 5_672)


def _named_by(client: HttpClient) -> tuple[str, str, int]:
    """What the broker that is asked listens on, as its HTTP API says."""
    status, overview = client.call("GET", "/api/overview")
    if status != 200 or not isinstance(overview, dict):
        raise click.ClickException(client.refusal(status, overview))
    listeners: list[dict[str, Any]] = [
        each for each in overview.get("listeners", ()) if each.get("node") == overview.get("node")
    ]
    for protocol, scheme in (("amqp", "amqp"), ("amqp/ssl", "amqps")):
        for each in listeners:
            if each.get("protocol") == protocol and each.get("port"):
                return scheme, client.host, int(each["port"])
    status, target = client.call("GET", "/api/target")
    if status == 200 and isinstance(target, dict) and target.get("host") and target.get("port"):
        return "amqp", str(target["host"]), int(target["port"])
    raise click.UsageError(f"{client.base} names no AMQP address: give it by --amqp-url amqp://HOST:PORT")
