"""The broker in numbers, and who asks."""

from __future__ import annotations

from aiohttp import web

from openclust.manage.calls.call import Call, answer
from openclust.manage.rows.overview import overview_row


async def overview(call: Call) -> web.Response:
    vhosts, port = call.vhosts(), call.broker.cluster
    shown = overview_row(call.broker, node=call.server.config.name, vhosts=vhosts)
    queues = (queue for vhost in vhosts for queue in vhost.queues.values())
    homes = {port.home(queue) for queue in queues if port.is_elsewhere(queue)} if not shown["queue_totals"] else set()
    response = answer(shown)
    if homes:
        home = max(homes)
        there = f"ask {home}, where they are active" if home else "they are active nowhere, as there is no root"
        response.headers["X-Openclust-Note"] = f"shared queues are not counted here: {there}"
    return response


async def whoami(call: Call) -> web.Response:
    return answer({"name": call.user.name, "tags": list(call.user.tags)})
