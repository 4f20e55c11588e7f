"""Queues: listed, declared, deleted and purged."""

from __future__ import annotations

import asyncio

import msgspec
from aiohttp import web

from openclust.broker.server.vhost import VirtualHost
from openclust.manage.calls.acting import acting, not_here
from openclust.manage.calls.call import Call, Refused, done, put
from openclust.manage.calls.fields import Arguments, Flag, as_table, flag_in_query, is_set
from openclust.manage.calls.gathered import find_row, json_response, rows, selection
from openclust.manage.gather.gathering import GatheredRows
from openclust.manage.gather.questions import ListRows, Viewer
from openclust.manage.gather.selection import with_columns
from openclust.wire.methods import (
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
)


class QueueBody(msgspec.Struct):
    durable: Flag = False
    auto_delete: Flag = False
    arguments: Arguments = {}


class QueueActionBody(msgspec.Struct):
    action: str


async def queues(call: Call) -> web.Response:
    return await rows(call, "queues", vhost=call.vhost_name())


async def queue(call: Call) -> web.Response:
    """One queue, with its consumers at all brokers."""
    vhost, name, columns = call.vhost().name, call.part("queue"), selection(call).columns
    found = find_row(call, "queues", name, vhost=vhost, what=f"queue '{name}' in vhost '{vhost}'")
    if columns and not any(column.startswith("consumer_details") for column in columns):
        return json_response(msgspec.json.encode(with_columns(await found, columns)), [])
    # At the same time: a broker that does not answer is waited for once.
    shown, consumers = await asyncio.gather(found, _consumers_of(call, vhost, name))
    shown["consumer_details"] = [msgspec.json.decode(each) for each in consumers.rows]
    return json_response(msgspec.json.encode(with_columns(shown, columns)), consumers.missing)


async def _consumers_of(call: Call, vhost: str, queue: str) -> GatheredRows:
    """Who may see a queue may see all its consumers."""
    everybody = Viewer(name=call.user.name, sees_all=True)
    return await call.gathering.rows(ListRows(kind="consumers", viewer=everybody, vhost=vhost, where={"queue": queue}))


async def put_queue(call: Call) -> web.Response:
    """Declare a queue. One that is there already stays as it is; 400 where it is not what the body asks for."""
    vhost, name = call.vhost(), call.part("queue")
    body = await call.read(QueueBody)
    is_new = name not in vhost.queues
    async with acting(call, vhost) as client:
        declare = QueueDeclare(
            queue=name,
            durable=is_set(body.durable),
            auto_delete=is_set(body.auto_delete),
            arguments=as_table(body.arguments),
        )
        await client.call(declare, QueueDeclareOk)
    return put(is_new)


async def delete_queue(call: Call) -> web.Response:
    vhost, name = await _queue_here(call)
    async with acting(call, vhost) as client:
        delete = QueueDelete(
            queue=name, if_unused=flag_in_query(call, "if-unused"), if_empty=flag_in_query(call, "if-empty")
        )
        await client.call(delete, QueueDeleteOk)
    return done()


async def purge_queue(call: Call) -> web.Response:
    """Drop the messages that wait; deliveries that are not acknowledged stay."""
    vhost, name = await _queue_here(call)
    async with acting(call, vhost) as client:
        await client.call(QueuePurge(queue=name), QueuePurgeOk)
    return done()


async def act_on_queue(call: Call) -> web.Response:
    """`sync` and `cancel_sync`, of RabbitMQ's mirrored queues: copies here are in step, nothing is to be done."""
    body = await call.read(QueueActionBody)
    await _queue_here(call)
    if body.action not in ("sync", "cancel_sync"):
        raise Refused(400, "bad_request", ["unknown", body.action])
    return done()


async def _queue_here(call: Call) -> tuple[VirtualHost, str]:
    """The queue that the path names, where this broker knows it; else the call is refused."""
    vhost, name = call.vhost(), call.part("queue")
    if name not in vhost.queues:
        raise await not_here(call, vhost, name)
    return vhost, name
