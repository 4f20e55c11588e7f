"""What a call does as an AMQP client of this broker, and what it answers where the broker refuses."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from openclust.broker.server.vhost import VirtualHost
from openclust.manage.calls.call import Call, Refused, bad_request, not_found
from openclust.manage.calls.gathered import nowhere
from openclust.manage.calls.local_client import LocalClient
from openclust.manage.gather.questions import FindRow, ReplyValue
from openclust.wire.errors import (
    ACCESS_REFUSED,
    CONNECTION_FORCED,
    INTERNAL_ERROR,
    NOT_FOUND,
    RESOURCE_ERROR,
    AmqpError,
)

DEFAULT_EXCHANGE = "amq.default"
"""How paths spell the default exchange, whose name is empty."""


@asynccontextmanager
async def acting(call: Call, vhost: VirtualHost) -> AsyncIterator[LocalClient]:
    """A client that may do what the caller may in that virtual host; what the broker refuses is the call's answer."""
    if not call.user.may_enter(vhost.name):
        text = f"user '{call.user.name}' has no permissions in vhost '{vhost.name}'"
        raise Refused(401, "not_authorised", text)
    closed = call.broker.cluster.closed_to_clients
    if closed:
        raise Refused(503, "not_available", closed)
    client = LocalClient(call.server, call.user, vhost, call.request.remote or "")
    try:
        async with client:
            yield client
    except AmqpError as error:
        raise refused(call, error) from None
    except TimeoutError:
        raise Refused(503, "timeout", f"there was no answer in time{_why(call, client)}; it may happen later") from None
    except (ValueError, RecursionError) as error:
        raise bad_request(f"AMQP cannot say this: {error}") from None


def _why(call: Call, client: LocalClient) -> str:
    """What the broker may be waiting for."""
    if client.blocked:
        return f", as publishers wait: {client.blocked}"
    membership = call.server.member.membership
    return "" if membership.is_in_touch else ", as this broker is in touch with no root"


def refused(call: Call, error: AmqpError) -> Refused:
    """The answer for what the broker refuses: RabbitMQ's status, and the broker's own words."""
    if error.code == NOT_FOUND:
        return not_found(error.text)
    if error.code == ACCESS_REFUSED:
        return Refused(401, "not_authorised", error.text)
    is_unable = error.code == RESOURCE_ERROR and not call.server.member.membership.is_in_touch
    if is_unable or error.code in (CONNECTION_FORCED, INTERNAL_ERROR):
        return Refused(503, "not_available", error.text)
    return bad_request(error.text)


def exchange_name(call: Call, part: str = "exchange") -> str:
    """The exchange that the path names."""
    name = call.part(part)
    return "" if name == DEFAULT_EXCHANGE else name


async def not_here(call: Call, vhost: VirtualHost, queue: str) -> Refused:
    """The answer where this broker does not know a queue: another may have a private one of that name."""
    found = await call.gathering.ask_all(
        FindRow(kind="queues", viewer=call.viewer(), name=queue, vhost=vhost.name),
    )
    if any(isinstance(each, ReplyValue) and each.value for each in found.replies.values()):
        return bad_request(
            f"cannot obtain exclusive access to locked queue '{queue}' in vhost '{vhost.name}': "
            "it is its connection's alone, on another broker"
        )
    return nowhere(f"queue '{queue}' in vhost '{vhost.name}'", found.missing)
