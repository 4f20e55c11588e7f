"""Connections of applications."""

from __future__ import annotations

from aiohttp import web

from openclust.manage.calls.call import Call
from openclust.manage.calls.gathered import row, rows


async def connections(call: Call) -> web.Response:
    return await rows(call, "connections", vhost=call.vhost_name(), of=call.request.match_info.get("user", ""))


async def connection(call: Call) -> web.Response:
    name = call.part("connection")
    return await row(call, "connections", name, what=f"connection '{name}'")


async def channels_of(call: Call) -> web.Response:
    return await rows(call, "channels", of=call.part("connection"))
