"""Channels of applications, and the consumers on them."""

from __future__ import annotations

from aiohttp import web

from openclust.manage.calls.call import Call
from openclust.manage.calls.gathered import row, rows


async def channels(call: Call) -> web.Response:
    return await rows(call, "channels", vhost=call.vhost_name())


async def channel(call: Call) -> web.Response:
    name = call.part("channel")
    return await row(call, "channels", name, what=f"channel '{name}'")


async def consumers(call: Call) -> web.Response:
    return await rows(call, "consumers", vhost=call.vhost_name())
