"""What users may do in a virtual host."""

from __future__ import annotations

import msgspec
from aiohttp import web

from openclust.broker.definitions.rules import permission_of
from openclust.broker.model.access import Permission
from openclust.broker.model.changes import DeletePermission, PutPermission
from openclust.manage.calls.call import Call, bad_request, done, not_found, put
from openclust.manage.calls.listing import Showing, listing
from openclust.manage.resources.saving import save_users
from openclust.manage.rows.user_rows import permission_rows

PERMISSIONS = Showing(place=lambda row: (row["vhost"], row["user"]), row=lambda row: row)


class PermissionBody(msgspec.Struct):
    configure: str
    write: str
    read: str


async def permissions(call: Call) -> web.Response:
    found = [each for user in call.broker.users.values() for each in permission_rows(user)]
    return await listing(call, found, PERMISSIONS)


async def put_permission(call: Call) -> web.Response:
    vhost, name = call.vhost().name, call.part("user")
    user = call.broker.users.get(name)
    if user is None:
        raise not_found(f"no user '{name}'")
    body = await call.read(PermissionBody)
    try:
        permission = permission_of(body.configure, body.write, body.read)
    except ValueError as error:
        raise bad_request(str(error)) from None
    is_new = vhost not in user.permissions
    await permit(call, vhost, name, permission)
    return put(is_new)


async def delete_permission(call: Call) -> web.Response:
    """Take all permissions on a virtual host from a user, who then cannot open it."""
    vhost, name = call.vhost().name, call.part("user")
    await call.define(DeletePermission(vhost=vhost, user=name))
    await save_users(call, [name])
    return done()


async def permit(call: Call, vhost: str, user: str, permission: Permission) -> None:
    await call.define(PutPermission(vhost=vhost, user=user, permission=permission))
    await save_users(call, [user])
