"""Consumers of applications."""

from __future__ import annotations

from aiohttp import web

from openclust.manage.calls.call import Call
from openclust.manage.calls.gathered import rows


async def consumers(call: Call) -> web.Response:
    return await rows(call, "consumers", vhost=call.vhost_name())
