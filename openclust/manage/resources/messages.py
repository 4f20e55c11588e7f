"""Messages: published to an exchange, and got out of a queue."""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Literal

import msgspec
from aiohttp import web

from openclust.broker.server.vhost import VirtualHost
from openclust.manage.calls.acting import acting, exchange_name, not_here
from openclust.manage.calls.call import BODY_BYTES_MAX, Call, Refused, answer, bad_request
from openclust.manage.calls.fields import Arguments, as_table
from openclust.manage.calls.local_client import Fetched, LocalClient
from openclust.manage.gather.selection import Row
from openclust.manage.rows.values import text, value
from openclust.wire.errors import (
    ACCESS_REFUSED,
    CONTENT_TOO_LARGE,
    NOT_FOUND,
    PRECONDITION_FAILED,
    RESOURCE_LOCKED,
    AmqpError,
)
from openclust.wire.methods import BasicAck, BasicReject
from openclust.wire.properties import Properties
from openclust.wire.table import Timestamp

PUBLISH_BODY_BYTES_MAX = 16_777_216
GOT_MAX = 10_000
"""Messages in one answer."""
GOT_BYTES_MAX = 8_388_608
"""No more messages are got once the payloads in an answer are so large together."""
GETS_MAX = 16
LARGE_PUBLISHES_MAX = 16
"""Calls at the same time whose messages are held in memory beside those of the broker; one more is refused."""
GET_ENDS_BEFORE_S = 10.0
"""A get that has not come to its end so long before its time is over answers with what it has."""

Octet = Annotated[int, msgspec.Meta(ge=0, le=255)]


class _Places:
    """So many calls of one kind may be under way at the same time."""

    def __init__(self, count: int, what: str) -> None:
        self._count = count
        self._what = what
        self._taken = 0

    @contextmanager
    def one(self) -> Iterator[None]:
        """Have a place; the call is refused where there is none."""
        if self._taken >= self._count:
            raise Refused(503, "busy", f"{self._count} calls {self._what} at this moment, the most that may; try again")
        self._taken += 1
        try:
            yield
        finally:
            self._taken -= 1


_gets = _Places(GETS_MAX, "get messages")
_large_publishes = _Places(LARGE_PUBLISHES_MAX, f"publish more than {BODY_BYTES_MAX} bytes")


class PropertiesBody(msgspec.Struct):
    """Of a message to be published; what RabbitMQ does not know either is passed over."""

    content_type: str | None = None
    content_encoding: str | None = None
    headers: Arguments | None = None
    delivery_mode: Octet | None = None
    priority: Octet | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    expiration: str | None = None
    message_id: str | None = None
    timestamp: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] | None = None
    type: str | None = None
    user_id: str | None = None
    app_id: str | None = None
    cluster_id: str | None = None


class PublishBody(msgspec.Struct):
    routing_key: str
    payload: str
    payload_encoding: str
    properties: PropertiesBody | list[Any]


class GetBody(msgspec.Struct):
    count: int | str
    ackmode: Literal["ack_requeue_true", "ack_requeue_false", "reject_requeue_true", "reject_requeue_false"]
    encoding: Literal["auto", "base64"]
    truncate: int | str | None = None


async def publish(call: Call) -> web.Response:
    """Publish a message, and wait for its confirm: `routed` says whether any queue wanted it."""
    if (call.request.content_length or 0) <= BODY_BYTES_MAX and "Transfer-Encoding" not in call.request.headers:
        return await _publish(call)
    with _large_publishes.one():
        return await _publish(call)


async def _publish(call: Call) -> web.Response:
    vhost, exchange = call.vhost(), exchange_name(call)
    body = await call.read(PublishBody, PUBLISH_BODY_BYTES_MAX)
    async with acting(call, vhost) as client:
        payload, properties = _payload(body), _properties(body.properties)
        try:
            is_routed, is_taken = await client.publish(exchange, body.routing_key, properties, payload)
        except AmqpError as error:
            raise _refused_as_in_rabbitmq(error) from None
    if not is_taken:
        raise bad_request("rejected: a queue that it was routed to did not take it")
    return answer({"routed": is_routed})


def _payload(body: PublishBody) -> bytes:
    if body.payload_encoding == "string":
        return body.payload.encode()
    if body.payload_encoding != "base64":
        raise Refused(400, "bad_request", ["unsupported_encoding", body.payload_encoding[:100]])
    try:
        return b64decode(body.payload, validate=True)
    except (binascii.Error, ValueError) as error:
        raise bad_request(f"payload is not base64: {error}") from None


def _properties(body: PropertiesBody | list[Any]) -> Properties:
    if isinstance(body, list):
        if body:
            raise bad_request("properties are an object")
        return Properties()
    given: dict[str, Any] = {name: getattr(body, name) for name in body.__struct_fields__}
    if body.headers is not None:
        given["headers"] = as_table(body.headers)
    if body.timestamp is not None:
        given["timestamp"] = Timestamp(body.timestamp)
    return Properties(**given)


def _refused_as_in_rabbitmq(error: AmqpError) -> Exception:
    """400 for what a publisher's channel is closed for, with the code."""
    if error.code in (ACCESS_REFUSED, NOT_FOUND, PRECONDITION_FAILED, CONTENT_TOO_LARGE):
        return bad_request(f"{error.code} {error.reply_text}")
    return error


async def get(call: Call) -> web.Response:
    """Get messages out of a queue; `ackmode` says what becomes of them then."""
    vhost, name = call.vhost(), call.part("queue")
    body = await call.read(GetBody)
    count, truncate = _number(body.count, "count"), _number(body.truncate, "truncate")
    if name not in vhost.queues:
        raise await not_here(call, vhost, name)
    with _gets.one():
        return answer(await _get(call, vhost, name, count, truncate, body))


async def _get(
    call: Call, vhost: VirtualHost, name: str, count: int | None, truncate: int | None, body: GetBody
) -> list[Row]:
    async with acting(call, vhost) as client:
        try:
            return await _got(client, name, count, truncate, body)
        except AmqpError as error:
            if error.code == RESOURCE_LOCKED:
                raise bad_request(f"{error.code} {error.reply_text}") from None
            raise


async def _got(client: LocalClient, queue: str, count: int | None, truncate: int | None, body: GetBody) -> list[Row]:
    rows: list[Row] = []
    last, size = 0, 0
    wanted = GOT_MAX if count is None else min(count, GOT_MAX)
    while len(rows) < wanted and size < GOT_BYTES_MAX and client.left_s > GET_ENDS_BEFORE_S:
        fetched = await client.get(queue)
        if fetched is None:
            break
        last = fetched.method.delivery_tag
        payload = fetched.body if truncate is None else fetched.body[:truncate]
        size += len(payload)
        rows.append(_row(fetched, payload, body.encoding))
    if not last:
        return rows
    if body.ackmode == "ack_requeue_false":
        # Not before all of them are here: a get that fails loses nothing.
        client.tell(BasicAck(delivery_tag=last, multiple=True))
    elif body.ackmode == "reject_requeue_false":
        for tag in range(1, last + 1):
            client.tell(BasicReject(delivery_tag=tag, requeue=False))
    # The end of the client returns what is left, as rejecting it would.
    return rows


def _row(fetched: Fetched, payload: bytes, encoding: str) -> Row:
    method, properties = fetched.method, fetched.properties
    shown, shown_as = _text(payload) if encoding == "auto" else (None, "base64")
    return {
        "payload_bytes": len(fetched.body),
        "redelivered": method.redelivered,
        "exchange": text(method.exchange),
        "routing_key": text(method.routing_key),
        "message_count": method.message_count,
        "properties": {
            name: value(given)
            for name in properties.__struct_fields__
            if (given := getattr(properties, name)) is not None
        },
        "payload": b64encode(payload).decode() if shown is None else shown,
        "payload_encoding": shown_as,
    }


def _text(payload: bytes) -> tuple[str | None, str]:
    """The payload as text, if it is any."""
    try:
        return payload.decode(), "string"
    except UnicodeDecodeError:
        return None, "base64"


def _number(given: int | str | None, name: str) -> int | None:
    """A number, that some tools send as a text; below zero it is no bound at all, as in RabbitMQ."""
    if given is None:
        return None
    try:
        number = int(given)
    except ValueError:
        raise Refused(400, "bad_request", ["not_integer", str(given)[:100]]) from None
    return None if number < 0 else number
