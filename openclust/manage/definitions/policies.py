"""Policies and operator policies."""

from __future__ import annotations

from typing import Any, cast

import msgspec
from aiohttp import web

from openclust.broker.definitions.rules import check_policy
from openclust.broker.model.changes import DeletePolicy, PutPolicy
from openclust.broker.model.policy import ApplyTo, Policy
from openclust.manage.calls.call import Call, answer, bad_request, done, not_found, put
from openclust.manage.calls.listing import Showing, listing
from openclust.manage.rows.policy_rows import policy_row


class PolicyBody(msgspec.Struct, rename="kebab"):
    pattern: str
    definition: dict[str, Any]
    apply_to: str = "all"
    priority: int = 0


POLICIES = Showing(place=lambda policy: (policy.vhost, policy.name), row=policy_row)


async def policies(call: Call) -> web.Response:
    return await _list(call, operator=False)


async def operator_policies(call: Call) -> web.Response:
    return await _list(call, operator=True)


async def _list(call: Call, *, operator: bool) -> web.Response:
    table = call.broker.policies
    found = [policy for vhost in call.vhosts() for policy in table.list(vhost.name, operator=operator)]
    return await listing(call, found, POLICIES)


async def policy(call: Call) -> web.Response:
    return _one(call, operator=False)


async def operator_policy(call: Call) -> web.Response:
    return _one(call, operator=True)


def _one(call: Call, *, operator: bool) -> web.Response:
    vhost, name = call.vhost().name, call.part("name")
    for each in call.broker.policies.list(vhost, operator=operator):
        if each.name == name:
            return answer(policy_row(each))
    raise not_found(f"no policy '{name}' in vhost '{vhost}'")


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
    return put(is_new)


async def delete_policy(call: Call) -> web.Response:
    await call.define(DeletePolicy(vhost=call.vhost().name, name=call.part("name")))
    return done()


async def delete_operator_policy(call: Call) -> web.Response:
    await call.define(DeletePolicy(vhost=call.vhost().name, name=call.part("name"), operator=True))
    return done()
