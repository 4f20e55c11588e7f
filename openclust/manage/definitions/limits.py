"""Limits of virtual hosts and of users."""

from __future__ import annotations

from typing import Any

import msgspec
from aiohttp import web

from openclust.broker.model.changes import PutUserLimit, PutVhostLimit
from openclust.broker.parameters.parameters import USER_LIMIT_NAMES, VHOST_LIMIT_NAMES, check_limit
from openclust.manage.calls.call import Call, bad_request, done
from openclust.manage.calls.listing import Showing, listing
from openclust.manage.definitions.users import no_such_user
from openclust.manage.definitions.users_file import save_users

VHOST_LIMITS = Showing(place=lambda row: (row["vhost"], ""), row=lambda row: row)
USER_LIMITS = Showing(place=lambda row: ("", row["user"]), row=lambda row: row)


class LimitBody(msgspec.Struct):
    value: Any


async def vhost_limits(call: Call) -> web.Response:
    limits = call.broker.parameters.limits
    found = [{"vhost": each.name, "value": limits[each.name]} for each in call.vhosts() if limits.get(each.name)]
    return await listing(call, found, VHOST_LIMITS)


async def put_vhost_limit(call: Call) -> web.Response:
    vhost, name = call.vhost().name, call.part("limit")
    value = await _value(call, name, VHOST_LIMIT_NAMES)
    await call.define(PutVhostLimit(vhost=vhost, name=name, value=value))
    return done()


async def delete_vhost_limit(call: Call) -> web.Response:
    await call.define(PutVhostLimit(vhost=call.vhost().name, name=call.part("limit"), value=None))
    return done()


async def user_limits(call: Call) -> web.Response:
    found = [call.named_user()] if "user" in call.request.match_info else list(call.broker.users.values())
    rows = [{"user": each.name, "value": dict(each.limits)} for each in found if each.limits]
    return await listing(call, rows, USER_LIMITS)


async def put_user_limit(call: Call) -> web.Response:
    user, name = call.part("user"), call.part("limit")
    value = await _value(call, name, USER_LIMIT_NAMES)
    if user not in call.broker.users:
        raise no_such_user(user)
    await call.define(PutUserLimit(user=user, name=name, value=value))
    await save_users(call, [user])
    return done()


async def delete_user_limit(call: Call) -> web.Response:
    user = call.part("user")
    await call.define(PutUserLimit(user=user, name=call.part("limit"), value=None))
    await save_users(call, [user])
    return done()


async def _value(call: Call, name: str, known: tuple[str, ...]) -> int:
    body = await call.read(LimitBody)
    try:
        check_limit(name, body.value, known)
    except ValueError as error:
        raise bad_request(str(error)) from None
    value: int = body.value
    return value
