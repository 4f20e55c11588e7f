"""Users."""

from __future__ import annotations

import asyncio

import msgspec
from aiohttp import web

from openclust.broker.model.access import User, UserType
from openclust.broker.model.changes import DeleteUser, PutUser
from openclust.broker.model.password_hash import RABBIT_DEFAULT, from_rabbit
from openclust.manage.calls.call import Call, bad_request, done, put
from openclust.manage.calls.listing import Showing, listing
from openclust.manage.resources.saving import save_users
from openclust.manage.rows.user_rows import user_row
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


async def users(call: Call) -> web.Response:
    return await listing(call, list(call.broker.users.values()), USERS)


async def put_user(call: Call) -> web.Response:
    """Without a password or hash the old one stays; a new user without one can only log in with a certificate."""
    name = call.part("name")
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
        permissions=dict(existing.permissions) if existing is not None else {},
    )
    await call.define(PutUser(user=user))
    await save_users(call, [name])
    return put(existing is None)


async def _password_hash(body: UserBody) -> str | None:
    if body.password is not None and body.password_hash is not None:
        raise bad_request("give password or password_hash, not both")
    if body.password is not None:
        if not 1 <= len(body.password.encode()) <= PASSWORD_BYTES_MAX:
            raise bad_request(f"a password has 1 to {PASSWORD_BYTES_MAX} bytes")
        return await asyncio.to_thread(hash_password, body.password)
    if body.password_hash is None:
        return None
    try:
        return from_rabbit(body.password_hash, body.hashing_algorithm)
    except ValueError as error:
        raise bad_request(f"password_hash: {error}") from None


async def delete_user(call: Call) -> web.Response:
    name = call.part("name")
    await call.define(DeleteUser(name=name))
    await save_users(call, [name])
    return done()
