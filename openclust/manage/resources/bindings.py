"""Bindings: listed, made and deleted."""

from __future__ import annotations

from urllib.parse import quote

import msgspec
from aiohttp import web

from openclust.broker.server.vhost import VirtualHost
from openclust.manage.calls.acting import acting, exchange_name, not_here
from openclust.manage.calls.call import Call, done
from openclust.manage.calls.fields import Arguments, as_table
from openclust.manage.calls.gathered import json_response, nowhere, rows
from openclust.manage.gather.questions import ListRows
from openclust.manage.rows.binding_rows import PlacedBinding, bindings_in, properties_key, spellings
from openclust.wire.methods import (
    ExchangeBind,
    ExchangeBindOk,
    ExchangeUnbind,
    ExchangeUnbindOk,
    QueueBind,
    QueueBindOk,
    QueueUnbind,
    QueueUnbindOk,
)


class BindingBody(msgspec.Struct):
    routing_key: str = ""
    arguments: Arguments = {}


async def bindings(call: Call) -> web.Response:
    return await rows(call, "bindings", vhost=call.vhost_name())


async def bindings_of_queue(call: Call) -> web.Response:
    return await _to(call, call.part("queue"), "queue")


async def bindings_from_exchange(call: Call) -> web.Response:
    return await rows(call, "bindings", vhost=call.vhost_name(), where={"source": exchange_name(call)})


async def bindings_to_exchange(call: Call) -> web.Response:
    return await _to(call, exchange_name(call), "exchange")


async def _to(call: Call, destination: str, kind: str) -> web.Response:
    where = {"destination": destination, "destination_type": kind}
    return await rows(call, "bindings", vhost=call.vhost_name(), where=where)


# -- between two ends


async def bindings_between(call: Call) -> web.Response:
    return await rows(call, "bindings", vhost=call.vhost_name(), where=_ends(call))


async def binding(call: Call) -> web.Response:
    where = {**_ends(call), "properties_key": call.part("key")}
    question = ListRows(kind="bindings", viewer=call.viewer(), vhost=call.vhost_name(), where=where)
    found = await call.gathering.rows(question)
    if not found.rows:
        raise nowhere(_described(where), found.missing)
    return json_response(found.rows[0], [])


async def bind(call: Call) -> web.Response:
    """Make a binding; its name among those between the same ends is at the end of the answer's `Location`."""
    vhost, ends = call.vhost(), _ends(call)
    source, destination = ends["source"], ends["destination"]
    body = await call.read(BindingBody)
    if ends["destination_type"] == "queue" and destination not in vhost.queues:
        raise await not_here(call, vhost, destination)
    async with acting(call, vhost) as client:
        key, arguments = body.routing_key, as_table(body.arguments)
        if ends["destination_type"] == "queue":
            await client.call(
                QueueBind(queue=destination, exchange=source, routing_key=key, arguments=arguments), QueueBindOk
            )
        else:
            await client.call(
                ExchangeBind(destination=destination, source=source, routing_key=key, arguments=arguments),
                ExchangeBindOk,
            )
    name = properties_key(key, arguments)
    return web.Response(status=201, headers={"Location": f"{quote(destination, safe='')}/{quote(name, safe='~')}"})


async def unbind(call: Call) -> web.Response:
    vhost, ends = call.vhost(), _ends(call)
    found = await _binding_here(call, vhost, {**ends, "properties_key": call.part("key")})
    source, destination = ends["source"], ends["destination"]
    key, arguments = found.routing_key, found.arguments
    async with acting(call, vhost) as client:
        if found.destination_type == "queue":
            await client.call(
                QueueUnbind(queue=destination, exchange=source, routing_key=key, arguments=arguments), QueueUnbindOk
            )
        else:
            await client.call(
                ExchangeUnbind(destination=destination, source=source, routing_key=key, arguments=arguments),
                ExchangeUnbindOk,
            )
    return done()


async def _binding_here(call: Call, vhost: VirtualHost, where: dict[str, str]) -> PlacedBinding:
    """The binding that the path names, where this broker knows it; else the call is refused."""
    keys = spellings(where["properties_key"])
    for each in bindings_in(vhost, where):
        if each.properties_key in keys:
            return each
    if where["destination_type"] == "queue" and where["destination"] not in vhost.queues:
        raise await not_here(call, vhost, where["destination"])
    raise nowhere(_described(where), [])


def _ends(call: Call) -> dict[str, str]:
    """The two ends that the path names, as columns of the rows."""
    source = exchange_name(call)
    if "queue" in call.request.match_info:
        return {"source": source, "destination": call.part("queue"), "destination_type": "queue"}
    return {"source": source, "destination": exchange_name(call, "destination"), "destination_type": "exchange"}


def _described(where: dict[str, str]) -> str:
    kind, name = where["destination_type"], where["destination"]
    return f"binding '{where['properties_key']}' of {kind} '{name}' to exchange '{where['source']}'"
