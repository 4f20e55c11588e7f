"""The brokers of the cluster, in RabbitMQ's words its nodes."""

from __future__ import annotations

from aiohttp import web

from openclust.manage.brokers.node_rows import MissingNodeRows
from openclust.manage.calls.call import Call, answer, not_found
from openclust.manage.calls.gathered import json_response, lacking, list_response, selection
from openclust.manage.gather.gathering import merged
from openclust.manage.gather.questions import FindRow, ListRows, ReplyRows, ReplyValue
from openclust.manage.gather.select import select


async def nodes(call: Call) -> web.Response:
    """All brokers. One that does not answer is a row too: it does not run, as far as is known here."""
    wanted = selection(call)
    found = await call.gathering.ask_all(ListRows(kind="nodes", viewer=call.viewer(), selection=wanted))
    replies = [each for each in found.replies.values() if isinstance(each, ReplyRows)]
    replies.append(await select(found.missing, MissingNodeRows(), wanted))
    return list_response(await merged(replies, wanted, found.missing), wanted)


async def node(call: Call) -> web.Response:
    name = node_name(call)
    body = await _ask(call, "nodes", name)
    if body is None:
        return lacking(answer(MissingNodeRows().row(name)), [name])
    return json_response(body, [])


async def memory(call: Call) -> web.Response:
    """The use of a broker's memory; the memory is "not_available" if it does not answer, as in RabbitMQ."""
    name = node_name(call)
    body = await _ask(call, "memory", name)
    if body is None:
        return lacking(answer({"memory": "not_available"}), [name])
    return json_response(body, [])


def node_name(call: Call) -> str:
    """The broker that the path names. Tools for RabbitMQ put `rabbit@` before a host's name."""
    name = call.part("node")
    known = call.gathering.names()
    for each in (name, name.partition("@")[2]):
        if each in known:
            return each
    raise not_found(f"there is no broker '{name}' in the cluster; there are {', '.join(known)}")


async def _ask(call: Call, kind: str, name: str) -> bytes | None:
    found = await call.gathering.ask([name], FindRow(kind=kind, viewer=call.viewer(), name=name))
    reply = found.replies.get(name)
    return reply.value if isinstance(reply, ReplyValue) and reply.value else None
