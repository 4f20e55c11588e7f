"""The calls that show something."""

from __future__ import annotations

import functools

from aiohttp import web

from openclust.broker.definitions import export_definitions
from openclust.manage import snapshot
from openclust.manage.call import Call, answer
from openclust.manage.listing import listing


async def overview(call: Call) -> web.Response:
    return answer(snapshot.overview(call.broker, node=call.server.config.name, vhosts=call.vhosts()))


async def whoami(call: Call) -> web.Response:
    return answer({"name": call.user.name, "tags": list(call.user.tags)})


async def definitions(call: Call) -> web.Response:
    headers = {"Content-Disposition": 'attachment; filename="openclust-definitions.json"'}
    return answer(export_definitions(call.broker), headers=headers)


async def queues(call: Call) -> web.Response:
    return listing(call, [vhost.queues for vhost in call.vhosts()], snapshot.queue)


async def exchanges(call: Call) -> web.Response:
    groups = [
        {name: functools.partial(snapshot.exchange, exchange, vhost) for name, exchange in vhost.exchanges.items()}
        for vhost in call.vhosts()
    ]
    return listing(call, groups, lambda show: show())


async def connections(call: Call) -> web.Response:
    """All of them for who may see all, their own for others."""
    found = {
        f"{each.peer.host}:{each.peer.port}": each
        for each in snapshot.open_connections(call.broker)
        if call.sees_all or each.user.name == call.user.name
    }
    return listing(call, [found], snapshot.connection)


async def vhosts(call: Call) -> web.Response:
    return listing(call, [{vhost.name: vhost for vhost in call.vhosts()}], snapshot.vhost)


async def users(call: Call) -> web.Response:
    return listing(call, [call.broker.users], snapshot.user)


async def permissions(call: Call) -> web.Response:
    groups = [
        {entry["vhost"]: entry for entry in snapshot.permissions(user)} for _, user in sorted(call.broker.users.items())
    ]
    return listing(call, groups, lambda entry: entry)


async def policies(call: Call) -> web.Response:
    return _policies(call, operator=False)


async def operator_policies(call: Call) -> web.Response:
    return _policies(call, operator=True)


def _policies(call: Call, *, operator: bool) -> web.Response:
    table = call.broker.policies
    groups = [{policy.name: policy for policy in table.list(vhost.name, operator=operator)} for vhost in call.vhosts()]
    return listing(call, groups, snapshot.policy)
