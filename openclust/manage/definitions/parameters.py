"""Parameters by component and virtual host, global parameters, and the name of the cluster, which is one of them."""

from __future__ import annotations

from typing import Any

import msgspec
from aiohttp import web

from openclust.broker.definitions.rules import check_name
from openclust.broker.model.changes import DeleteGlobalParameter, DeleteParameter, PutGlobalParameter, PutParameter
from openclust.broker.parameters.parameters import CLUSTER_NAME, VHOST_LIMITS, Parameter, check_parameter
from openclust.manage.calls.call import ADMINISTRATOR, Call, Refused, answer, bad_request, done, not_found, put
from openclust.manage.calls.listing import Showing, listing
from openclust.manage.gather.selection import Row

PARAMETERS = Showing(
    place=lambda row: (row["vhost"], f"{row['component']}\0{row['name']}"),
    row=lambda row: row,
)
GLOBAL_PARAMETERS = Showing(place=lambda row: ("", row["name"]), row=lambda row: row)


class ParameterBody(msgspec.Struct):
    value: Any


class ClusterNameBody(msgspec.Struct):
    name: str


async def parameters(call: Call) -> web.Response:
    """Those of a component, or of all."""
    seen = {each.name for each in call.vhosts()}
    component = call.request.match_info.get("component")
    found = [each for each in call.broker.parameters.list() if each.vhost in seen]
    return await listing(call, [_row(each) for each in found if component in (None, each.component)], PARAMETERS)


async def parameter(call: Call) -> web.Response:
    vhost, component, name = _names(call)
    value = call.broker.parameters.get(vhost, component, name)
    if value is None:
        raise not_found(f"no parameter '{name}' of component '{component}' in vhost '{vhost}'")
    return answer(_row(Parameter(vhost, component, name, value)))


async def put_parameter(call: Call) -> web.Response:
    vhost, component, name = _names(call)
    _demand_component(call, component)
    body = await call.read(ParameterBody)
    try:
        check_name(name, "the name of a parameter")
        check_parameter(component, name, body.value)
    except ValueError as error:
        raise bad_request(f"Validation failed\n\n{error}\n") from None
    is_new = call.broker.parameters.get(vhost, component, name) is None
    value = msgspec.json.encode(body.value).decode()
    await call.define(PutParameter(vhost=vhost, component=component, name=name, value=value))
    return put(is_new)


async def delete_parameter(call: Call) -> web.Response:
    vhost, component, name = _names(call)
    _demand_component(call, component)
    await call.define(DeleteParameter(vhost=vhost, component=component, name=name))
    return done()


def _names(call: Call) -> tuple[str, str, str]:
    return call.vhost().name, call.part("component"), call.part("name")


def _demand_component(call: Call, component: str) -> None:
    """Limits are set by administrators only, by whatever call."""
    if component == VHOST_LIMITS and ADMINISTRATOR.isdisjoint(call.user.tags):
        raise Refused(403, "not_authorized", f"user '{call.user.name}' has not the tag administrator")


def _row(parameter: Parameter) -> Row:
    return {**parameter._asdict(), "value": msgspec.json.decode(parameter.value)}


# -- global ones


async def global_parameters(call: Call) -> web.Response:
    values = call.broker.parameters.global_values
    return await listing(call, [_global_row(name, value) for name, value in values.items()], GLOBAL_PARAMETERS)


async def global_parameter(call: Call) -> web.Response:
    name = call.part("name")
    value = call.broker.parameters.global_values.get(name)
    if value is None:
        raise not_found(f"no global parameter '{name}'")
    return answer(_global_row(name, value))


async def put_global_parameter(call: Call) -> web.Response:
    name = call.part("name")
    body = await call.read(ParameterBody)
    return put(await _put_global(call, name, body.value))


async def delete_global_parameter(call: Call) -> web.Response:
    await call.define(DeleteGlobalParameter(name=call.part("name")))
    return done()


async def cluster_name(call: Call) -> web.Response:
    return answer({"name": call.broker.cluster_name})


async def put_cluster_name(call: Call) -> web.Response:
    """The name that clients are told as `cluster_name`; without one it is the cluster key."""
    body = await call.read(ClusterNameBody)
    await _put_global(call, CLUSTER_NAME, body.name)
    return done()


async def _put_global(call: Call, name: str, value: Any) -> bool:
    """Whether there was none of that name."""
    try:
        check_name(name, "the name of a parameter")
    except ValueError as error:
        raise bad_request(str(error)) from None
    is_new = name not in call.broker.parameters.global_values
    await call.define(PutGlobalParameter(name=name, value=msgspec.json.encode(value).decode()))
    return is_new


def _global_row(name: str, value: str) -> Row:
    return {"name": name, "value": msgspec.json.decode(value)}
