"""Virtual hosts."""

from __future__ import annotations

from aiohttp import web

from openclust.broker.definitions.rules import check_name
from openclust.broker.model.access import Permission
from openclust.broker.model.changes import DeleteVhost, PutVhost
from openclust.manage.calls.call import Call, bad_request, done, put
from openclust.manage.calls.listing import Showing, listing
from openclust.manage.resources.permissions import permit
from openclust.manage.resources.saving import save_users
from openclust.manage.rows.values import text
from openclust.manage.rows.vhost_rows import vhost_row

VHOSTS = Showing(place=lambda vhost: ("", text(vhost.name)), row=vhost_row)


async def vhosts(call: Call) -> web.Response:
    return await listing(call, call.vhosts(), VHOSTS)


async def put_vhost(call: Call) -> web.Response:
    """As in RabbitMQ, the user who makes a virtual host gets all permissions in it."""
    name = call.part("name")
    try:
        check_name(name, "the name of a virtual host")
    except ValueError as error:
        raise bad_request(str(error)) from None
    await call.body()
    if name in call.broker.vhosts:
        return done()
    await call.define(PutVhost(vhost=name))
    await permit(call, name, call.user.name, Permission(".*", ".*", ".*"))
    return put(True)


async def delete_vhost(call: Call) -> web.Response:
    name = call.part("name")
    permitted = [user.name for user in call.broker.users.values() if name in user.permissions]
    await call.define(DeleteVhost(vhost=name))
    await save_users(call, permitted)
    return done()
