"""Virtual hosts."""

from __future__ import annotations

from typing import Any

import msgspec
from aiohttp import web

from openclust.broker.definitions.rules import check_name, vhost_metadata
from openclust.broker.model.access import Permission
from openclust.broker.model.changes import DeleteVhost, PutVhost
from openclust.broker.server.vhost import VirtualHost
from openclust.manage.calls.call import Call, answer, bad_request, done, put
from openclust.manage.calls.gathered import wanted_ages
from openclust.manage.calls.listing import Showing, listing
from openclust.manage.definitions.permissions import PERMISSIONS, TOPIC_PERMISSIONS, permit
from openclust.manage.definitions.users_file import save_users
from openclust.manage.gather.gathering import GatheredTotals
from openclust.manage.gather.questions import CountTotals
from openclust.manage.gather.selection import Row
from openclust.manage.history.stats import finished
from openclust.manage.rows.user_rows import permission_rows, topic_permission_rows
from openclust.manage.rows.values import text
from openclust.manage.rows.vhost_rows import vhost_row

VHOSTS = Showing(place=lambda vhost: ("", text(vhost.name)), row=vhost_row)


class VhostBody(msgspec.Struct):
    description: str | None = None
    tags: str | list[str] | None = None
    default_queue_type: str | None = None
    tracing: bool | None = None


async def vhosts(call: Call) -> web.Response:
    numbers = await _numbers(call)
    showing = VHOSTS._replace(row=lambda vhost: vhost_row(vhost) | _stats(numbers, vhost))
    return await listing(call, call.vhosts(), showing, numbers.missing)


async def vhost(call: Call) -> web.Response:
    found = call.vhost()
    return answer(vhost_row(found) | _stats(await _numbers(call, found.name), found))


async def _numbers(call: Call, name: str | None = None) -> GatheredTotals:
    """What passed virtual hosts, or the one named, at all brokers."""
    question = CountTotals(of="vhosts", viewer=call.viewer(), vhost=name, ages=wanted_ages(call))
    return await call.gathering.totals(question)


def _stats(numbers: GatheredTotals, vhost: VirtualHost) -> Row:
    found: Row = numbers.totals.get(text(vhost.name), {})
    return finished(found)


async def put_vhost(call: Call) -> web.Response:
    """As in RabbitMQ, the user who makes a virtual host gets all permissions in it."""
    name = call.part("vhost")
    body = await call.read(VhostBody)
    there = call.broker.vhosts.get(name)
    told = {field: each for field, each in msgspec.structs.asdict(body).items() if each is not None}
    try:
        check_name(name, "the name of a virtual host")
        metadata: dict[str, Any] = vhost_metadata(told, there.metadata if there is not None else {})
    except ValueError as error:
        raise bad_request(str(error)) from None
    if there is None or (metadata and metadata != there.metadata):
        await call.define(PutVhost(vhost=name, metadata=metadata))
    if there is None:
        await permit(call, name, call.user.name, Permission(".*", ".*", ".*"))
    return put(there is None)


async def delete_vhost(call: Call) -> web.Response:
    name = call.part("vhost")
    users = call.broker.users.values()
    permitted = [user.name for user in users if name in user.permissions or name in user.topic_permissions]
    await call.define(DeleteVhost(vhost=name))
    await save_users(call, permitted)
    return done()


async def permissions_of_vhost(call: Call) -> web.Response:
    name, users = call.vhost().name, call.broker.users.values()
    return await listing(call, [each for user in users for each in permission_rows(user, name)], PERMISSIONS)


async def topic_permissions_of_vhost(call: Call) -> web.Response:
    name, users = call.vhost().name, call.broker.users.values()
    found = [each for user in users for each in topic_permission_rows(user, name)]
    return await listing(call, found, TOPIC_PERMISSIONS)
