"""What users may do in a virtual host, and with the topics of its exchanges."""

from __future__ import annotations

import msgspec
from aiohttp import web

from openclust.broker.definitions.rules import BadPattern, check_short, permission_of, topic_permission_of
from openclust.broker.model.access import Permission, User
from openclust.broker.model.changes import (
    DeletePermission,
    DeleteTopicPermissions,
    PutPermission,
    PutTopicPermission,
)
from openclust.manage.calls.call import Call, Refused, answer, bad_request, done, not_found, put
from openclust.manage.calls.listing import Showing, listing
from openclust.manage.definitions.users_file import save_users
from openclust.manage.rows.user_rows import permission_rows, topic_permission_rows

PERMISSIONS = Showing(place=lambda row: (row["vhost"], row["user"]), row=lambda row: row)
TOPIC_PERMISSIONS = Showing(place=lambda row: (row["vhost"], f"{row['user']}\0{row['exchange']}"), row=lambda row: row)


class PermissionBody(msgspec.Struct):
    configure: str
    write: str
    read: str


class TopicPermissionBody(msgspec.Struct):
    exchange: str
    write: str
    read: str


async def permissions(call: Call) -> web.Response:
    found = [each for user in call.broker.users.values() for each in permission_rows(user)]
    return await listing(call, found, PERMISSIONS)


async def permission(call: Call) -> web.Response:
    vhost, user = call.vhost().name, call.named_user()
    for row in permission_rows(user, vhost):
        return answer(row)
    raise not_found(f"user '{user.name}' has no permissions in vhost '{vhost}'")


async def put_permission(call: Call) -> web.Response:
    vhost, user = _ends(call)
    body = await call.read(PermissionBody)
    try:
        permission = permission_of(body.configure, body.write, body.read)
    except ValueError as error:
        raise _refused(error) from None
    is_new = vhost not in user.permissions
    await permit(call, vhost, user.name, permission)
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


# -- topics


async def topic_permissions(call: Call) -> web.Response:
    found = [each for user in call.broker.users.values() for each in topic_permission_rows(user)]
    return await listing(call, found, TOPIC_PERMISSIONS)


async def topic_permissions_in_vhost(call: Call) -> web.Response:
    """Those of one user in one virtual host: a list, as there may be one for each exchange."""
    vhost, user = call.vhost().name, call.named_user()
    found = topic_permission_rows(user, vhost)
    if not found:
        raise not_found(f"user '{user.name}' has no topic permissions in vhost '{vhost}'")
    return await listing(call, found, TOPIC_PERMISSIONS)


async def put_topic_permission(call: Call) -> web.Response:
    vhost, user = _ends(call)
    body = await call.read(TopicPermissionBody)
    try:
        check_short(body.exchange, "the name of an exchange")
        permission = topic_permission_of(body.write, body.read)
    except ValueError as error:
        raise _refused(error) from None
    is_new = not user.topic_permissions.get(vhost)
    change = PutTopicPermission(vhost=vhost, user=user.name, exchange=body.exchange, permission=permission)
    await call.define(change)
    await save_users(call, [user.name])
    return put(is_new)


async def delete_topic_permissions(call: Call) -> web.Response:
    """Take a user's topic permissions for all exchanges of a virtual host away: it may use all topics there."""
    vhost, name = call.vhost().name, call.part("user")
    await call.define(DeleteTopicPermissions(vhost=vhost, user=name))
    await save_users(call, [name])
    return done()


def _ends(call: Call) -> tuple[str, User]:
    """The virtual host and the user that the path names; as in RabbitMQ it is 400 where one of them is missing."""
    vhost, name = call.part("vhost"), call.part("user")
    user = call.broker.users.get(name)
    if user is None:
        raise bad_request(f"vhost_or_user_not_found: there is no user '{name}'")
    if vhost not in call.broker.vhosts:
        raise bad_request(f"vhost_or_user_not_found: there is no vhost '{vhost}'")
    return vhost, user


def _refused(error: ValueError) -> Refused:
    if not isinstance(error, BadPattern):
        return bad_request(str(error))
    # RabbitMQ's reason, in which texts are lists of characters; ours is for people.
    reason = ["invalid_regexp", list(error.pattern.encode()), [list(error.problem.encode()), error.position]]
    return Refused(400, "bad_request", reason, message=str(error))
