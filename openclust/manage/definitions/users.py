"""Users."""

from __future__ import annotations

import asyncio

import msgspec
from aiohttp import web

from openclust.broker.model.access import User, UserType
from openclust.broker.model.changes import DeleteUser, PutUser
from openclust.broker.model.password_hash import RABBIT_DEFAULT, from_rabbit
from openclust.manage.calls.call import Call, Refused, answer, bad_request, done, put
from openclust.manage.calls.listing import Showing, listing
from openclust.manage.definitions.permissions import PERMISSIONS, TOPIC_PERMISSIONS
from openclust.manage.definitions.users_file import save_users
from openclust.manage.rows.user_rows import permission_rows, topic_permission_rows, user_row
from openclust.shell.users.passwords import hash_password
from openclust.shell.users.users_file import name_problem

PASSWORD_BYTES_MAX = 1_024

USERS = Showing(place=lambda user: ("", user.name), row=user_row)


class UserBody(msgspec.Struct):
    tags: str | list[str]
    password: str | None = None
    password_hash: str | None = None
    hashing_algorithm: str = RABBIT_DEFAULT
    type: UserType | None = None


class BulkDeleteBody(msgspec.Struct):
    users: list[str]


async def users(call: Call) -> web.Response:
    return await listing(call, list(call.broker.users.values()), USERS)


async def user(call: Call) -> web.Response:
    return answer(user_row(call.named_user()))


async def users_without_permissions(call: Call) -> web.Response:
    return await listing(call, [each for each in call.broker.users.values() if not each.permissions], USERS)


async def permissions_of_user(call: Call) -> web.Response:
    return await listing(call, permission_rows(call.named_user()), PERMISSIONS)


async def topic_permissions_of_user(call: Call) -> web.Response:
    return await listing(call, topic_permission_rows(call.named_user()), TOPIC_PERMISSIONS)


def no_such_user(name: str) -> Refused:
    """The answer for a user whom a body names, or a limit; RabbitMQ's reason, and ours for people."""
    return Refused(400, "bad_request", ["no_such_user", name], message=f"there is no user '{name}'")


async def put_user(call: Call) -> web.Response:
    """Without a password or hash the old one stays; a new user without one can only log in with a certificate."""
    name = call.part("user")
    if problem := name_problem(name):
        raise bad_request(problem)
    body = await call.read(UserBody)
    password_hash = await _password_hash(body)
    existing = call.broker.users.get(name)
    if password_hash is None:
        password_hash = existing.password_hash if existing is not None else ""
    tags = body.tags.split(",") if isinstance(body.tags, str) else body.tags
    user = User(
        name=name,
        password_hash=password_hash,
        type=body.type or (existing.type if existing is not None else "normal"),
        tags=tuple(tag.strip() for tag in tags if tag.strip()),
    )
    if existing is not None:
        there = existing.copy()
        user.permissions, user.topic_permissions, user.limits = there.permissions, there.topic_permissions, there.limits
    await call.define(PutUser(user=user))
    await save_users(call, [name])
    return put(existing is None)


async def _password_hash(body: UserBody) -> str | None:
    if body.password is not None and body.password_hash is not None:
        raise bad_request("give password or password_hash, not both")
    if body.password is not None:
        if not body.password:
            # As in RabbitMQ: nobody logs in with the empty password.
            return ""
        if len(body.password.encode()) > PASSWORD_BYTES_MAX:
            raise bad_request(f"a password has at most {PASSWORD_BYTES_MAX} bytes")
        return await asyncio.to_thread(hash_password, body.password)
    if body.password_hash is None:
        return None
    try:
        return from_rabbit(body.password_hash, body.hashing_algorithm)
    except ValueError as error:
        # RabbitMQ's reason; ours is for people.
        raise Refused(
            400, "bad_request", ["not_base64", body.password_hash], message=f"password_hash: {error}"
        ) from None


async def delete_users(call: Call) -> web.Response:
    """Delete several users; none, where one of them does not exist."""
    names = list(dict.fromkeys((await call.read(BulkDeleteBody)).users))
    for name in names:
        if name not in call.broker.users:
            raise no_such_user(name)
    for name in names:
        await call.define(DeleteUser(name=name))
    await save_users(call, names)
    return done()


async def delete_user(call: Call) -> web.Response:
    name = call.part("user")
    await call.define(DeleteUser(name=name))
    await save_users(call, [name])
    return done()
