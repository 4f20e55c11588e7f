"""The calls that show something."""

from __future__ import annotations

import functools

from aiohttp import web

from openclust.broker.definitions.import_export import export_definitions
from openclust.broker.queues.queue import Queue
from openclust.manage import snapshot
from openclust.manage.call import Call, answer
from openclust.manage.listing import NOTE, listing


async def overview(call: Call) -> web.Response:
    vhosts, port = call.vhosts(), call.broker.cluster
    shown = snapshot.overview(call.broker, node=call.server.config.name, vhosts=vhosts)
    queues = (queue for vhost in vhosts for queue in vhost.queues.values())
    homes = {port.home(queue) for queue in queues if port.is_elsewhere(queue)} if not shown["queue_totals"] else set()
    return _noted(answer(shown), homes)


async def whoami(call: Call) -> web.Response:
    return answer({"name": call.user.name, "tags": list(call.user.tags)})


async def definitions(call: Call) -> web.Response:
    headers = {"Content-Disposition": 'attachment; filename="openclust-definitions.json"'}
    return answer(export_definitions(call.broker), headers=headers)


async def queues(call: Call) -> web.Response:
    homes: set[str] = set()

    def show(queue: Queue) -> snapshot.Shown:
        row = snapshot.queue(queue)
        if "messages" not in row:
            homes.add(row["node"] or "")
        return row

    response = listing(call, [vhost.queues for vhost in call.vhosts()], show)
    return _noted(response, homes)


def _noted(response: web.Response, homes: set[str]) -> web.Response:
    """The same answer; where queues were not counted, its header says where they are active, and counted."""
    if homes:
        home = max(homes)
        there = f"ask {home}, where they are active" if home else "they are active nowhere, as there is no root"
        notes = [response.headers.get(NOTE), f"shared queues are not counted here: {there}"]
        response.headers[NOTE] = "; ".join(note for note in notes if note)
    return response


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
