"""Queues."""

from __future__ import annotations

from aiohttp import web

from openclust.manage.calls.call import Call
from openclust.manage.calls.gathered import row, rows


async def queues(call: Call) -> web.Response:
    return await rows(call, "queues", vhost=call.vhost_name())


async def queue(call: Call) -> web.Response:
    vhost, name = call.vhost().name, call.part("queue")
    return await row(call, "queues", name, vhost=vhost, what=f"queue '{name}' in vhost '{vhost}'")
