"""The calls that change something. Users that change are saved in the users file, if the broker has one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, cast

import msgspec
from aiohttp import web

from openclust.broker.definitions.import_export import Import
from openclust.broker.definitions.rules import check_name, check_policy, permission_of
from openclust.broker.model.access import Permission, User, UserType
from openclust.broker.model.changes import (
    DeletePermission,
    DeletePolicy,
    DeleteUser,
    DeleteVhost,
    PutPermission,
    PutPolicy,
    PutUser,
    PutVhost,
)
from openclust.broker.model.password_hash import RABBIT_DEFAULT, from_rabbit
from openclust.broker.model.policy import ApplyTo, Policy
from openclust.manage.call import ANSWER_WAIT_S, Call, Refused, answer, bad_request, not_found
from openclust.shell.config.schema import ConfigError
from openclust.shell.definitions_file import FILE_BYTES_MAX, parse_definitions
from openclust.shell.users.passwords import hash_password
from openclust.shell.users.users_file import name_problem

ENTRIES_A_TURN = 500
BACKED_UP_S = 0.005
PASSWORD_BYTES_MAX = 1_024

_one_import = asyncio.Lock()


class UserBody(msgspec.Struct):
    tags: str | list[str]
    password: str | None = None
    password_hash: str | None = None
    hashing_algorithm: str = RABBIT_DEFAULT
    type: UserType | None = None


class PermissionBody(msgspec.Struct):
    configure: str
    write: str
    read: str


class PolicyBody(msgspec.Struct, rename="kebab"):
    pattern: str
    definition: dict[str, Any]
    apply_to: str = "all"
    priority: int = 0


# -- users and permissions


async def put_user(call: Call) -> web.Response:
    """A password or hash that is not given stays as it is; a new user without one can only come with a certificate."""
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
    await _save_users(call, [name])
    return _put(existing is None)


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
    await _save_users(call, [name])
    return _done()


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
    await _permit(call, vhost, name, permission)
    return _put(is_new)


async def delete_permission(call: Call) -> web.Response:
    """Take all permissions of a user on a virtual host away: it cannot open this one any more."""
    vhost, name = call.vhost().name, call.part("user")
    await call.define(DeletePermission(vhost=vhost, user=name))
    await _save_users(call, [name])
    return _done()


async def _permit(call: Call, vhost: str, user: str, permission: Permission) -> None:
    await call.define(PutPermission(vhost=vhost, user=user, permission=permission))
    await _save_users(call, [user])


async def _save_users(call: Call, names: Iterable[str]) -> None:
    try:
        await call.server.logins.save(call.broker, names)
    except ConfigError as error:
        reason = f"changed in this broker until it restarts, but not in the users file: {error.problems[0]}"
        raise Refused(500, "not_saved", reason) from None


# -- virtual hosts and policies


async def put_vhost(call: Call) -> web.Response:
    """As in RabbitMQ, who makes a virtual host may do everything in it."""
    name = call.part("name")
    try:
        check_name(name, "the name of a virtual host")
    except ValueError as error:
        raise bad_request(str(error)) from None
    await call.body()
    if name in call.broker.vhosts:
        return _done()
    await call.define(PutVhost(vhost=name))
    await _permit(call, name, call.user.name, Permission(".*", ".*", ".*"))
    return _put(True)


async def delete_vhost(call: Call) -> web.Response:
    name = call.part("name")
    permitted = [user.name for user in call.broker.users.values() if name in user.permissions]
    await call.define(DeleteVhost(vhost=name))
    await _save_users(call, permitted)
    return _done()


async def put_policy(call: Call) -> web.Response:
    return await _put_policy(call, operator=False)


async def put_operator_policy(call: Call) -> web.Response:
    return await _put_policy(call, operator=True)


async def _put_policy(call: Call, *, operator: bool) -> web.Response:
    vhost, name = call.vhost().name, call.part("name")
    body = await call.read(PolicyBody)
    policy = Policy(
        vhost=vhost,
        name=name,
        pattern=body.pattern,
        definition=body.definition,
        apply_to=cast(ApplyTo, body.apply_to),
        priority=body.priority,
    )
    try:
        check_policy(policy, operator=operator)
    except ValueError as error:
        raise bad_request(str(error)) from None
    is_new = all(each.name != name for each in call.broker.policies.list(vhost, operator=operator))
    await call.define(PutPolicy(vhost=vhost, policy=policy, operator=operator))
    return _put(is_new)


async def delete_policy(call: Call) -> web.Response:
    await call.define(DeletePolicy(vhost=call.vhost().name, name=call.part("name")))
    return _done()


async def delete_operator_policy(call: Call) -> web.Response:
    await call.define(DeletePolicy(vhost=call.vhost().name, name=call.part("name"), operator=True))
    return _done()


# -- definitions


async def import_definitions(call: Call) -> web.Response:
    """One import at a time, by parts: the broker serves in between.

    Nothing is changed where an entry has a problem; with `?skip_problems=true` all others are taken.
    """
    told = call.request.query.get("skip_problems", "false")
    if told not in ("true", "false"):
        raise bad_request("skip_problems is true or false")
    skip_problems = told == "true"
    if call.request.content_type not in ("application/json", "application/octet-stream"):
        # What a form on a foreign page can send must not change anything.
        raise Refused(415, "unsupported_media_type", "send definitions with Content-Type: application/json")
    if _one_import.locked():
        raise Refused(503, "busy", "another import is under way; try again when it is done")
    async with _one_import:
        try:
            document = parse_definitions(await call.body(FILE_BYTES_MAX))
        except ValueError as error:
            raise bad_request(str(error)) from None
        one = Import(call.broker, document, skip_problems=skip_problems)
        try:
            await _run(call, one)
        finally:
            await _save_users(call, sorted(one.users))
    report = one.report()
    body = {"changed": report.changed, "unchanged": report.unchanged, "ignored": report.ignored}
    if skip_problems:
        return answer({**body, "problems": report.problems})
    if report.problems:
        reason = report.problems[0]
        if len(report.problems) > 1:
            reason += f" (and {len(report.problems) - 1} more, see problems)"
        raise bad_request(reason, problems=report.problems, **body)
    return answer(body)


async def _run(call: Call, one: Import) -> None:
    finished = asyncio.Event()
    one.on_finished = finished.set
    more = True
    while more:
        call.broker.now_ms = call.server.now_ms()
        more = not one.run(ENTRIES_A_TURN)
        call.server.turn_soon()
        await asyncio.sleep(0)
        while one.is_backed_up:
            await asyncio.sleep(BACKED_UP_S)
    try:
        await asyncio.wait_for(finished.wait(), ANSWER_WAIT_S)
    except TimeoutError:
        raise Refused(503, "timeout", f"not all changes were ordered within {ANSWER_WAIT_S:g} s") from None


def _put(is_new: bool) -> web.Response:
    return web.Response(status=201 if is_new else 204)


def _done() -> web.Response:
    return web.Response(status=204)
