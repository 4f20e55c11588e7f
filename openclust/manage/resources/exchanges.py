"""Exchanges: listed, declared and deleted."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from aiohttp import web

from openclust.broker.routing.exchange import Exchange
from openclust.broker.server.vhost import VirtualHost
from openclust.manage.calls.acting import acting, exchange_name
from openclust.manage.calls.call import Call, answer, done, not_found, put
from openclust.manage.calls.fields import Arguments, Flag, as_table, flag_in_query, is_set
from openclust.manage.calls.gathered import selection, wanted_ages
from openclust.manage.calls.listing import Showing, listing
from openclust.manage.gather.gathering import GatheredTotals
from openclust.manage.gather.questions import CountTotals
from openclust.manage.gather.selection import Row, with_columns
from openclust.manage.history.stats import finished
from openclust.manage.rows.exchange_rows import exchange_details, exchange_row
from openclust.manage.rows.values import text
from openclust.wire.methods import ExchangeDeclare, ExchangeDeclareOk, ExchangeDelete, ExchangeDeleteOk


class ExchangeBody(msgspec.Struct):
    type: str = "direct"
    durable: Flag = False
    auto_delete: Flag = False
    internal: Flag = False
    arguments: Arguments = {}


class Placed(NamedTuple):
    """An exchange and the virtual host that it is in."""

    exchange: Exchange
    vhost: VirtualHost


EXCHANGES = Showing(
    place=lambda it: (text(it.vhost.name), text(it.exchange.name)), row=lambda it: exchange_row(it.exchange, it.vhost)
)


async def exchanges(call: Call) -> web.Response:
    found = (Placed(exchange, vhost) for vhost in call.vhosts() for exchange in list(vhost.exchanges.values()))
    numbers = await _numbers(call)
    showing = EXCHANGES._replace(row=lambda it: exchange_row(it.exchange, it.vhost) | _stats(numbers, it))
    return await listing(call, found, showing, numbers.missing)


async def _numbers(call: Call, name: str = "") -> GatheredTotals:
    """What passed the exchanges, or the one named, at all brokers."""
    question = CountTotals(
        of="exchanges", viewer=call.viewer(), vhost=call.vhost_name(), name=name, ages=wanted_ages(call)
    )
    return await call.gathering.totals(question)


def _stats(numbers: GatheredTotals, it: Placed) -> Row:
    found: Row = numbers.totals.get(text(it.vhost.name), {}).get(text(it.exchange.name), {})
    return finished(found)


async def exchange(call: Call) -> web.Response:
    vhost, found = _exchange_here(call)
    numbers = await _numbers(call, found.name)
    shown = exchange_details(found, vhost) | _stats(numbers, Placed(found, vhost))
    return answer(with_columns(shown, selection(call).columns))


async def put_exchange(call: Call) -> web.Response:
    """Declare an exchange. One that is there already stays as it is; 400 where it is not what the body asks for."""
    vhost, name = call.vhost(), exchange_name(call)
    body = await call.read(ExchangeBody)
    is_new = name not in vhost.exchanges
    async with acting(call, vhost) as client:
        declare = ExchangeDeclare(
            exchange=name,
            type=body.type,
            durable=is_set(body.durable),
            auto_delete=is_set(body.auto_delete),
            internal=is_set(body.internal),
            arguments=as_table(body.arguments),
        )
        await client.call(declare, ExchangeDeclareOk)
    return put(is_new)


async def delete_exchange(call: Call) -> web.Response:
    vhost, found = _exchange_here(call)
    async with acting(call, vhost) as client:
        await client.call(
            ExchangeDelete(exchange=found.name, if_unused=flag_in_query(call, "if-unused")), ExchangeDeleteOk
        )
    return done()


def _exchange_here(call: Call) -> tuple[VirtualHost, Exchange]:
    """The exchange that the path names; 404 where there is none."""
    vhost, name = call.vhost(), exchange_name(call)
    found = vhost.exchanges.get(name)
    if found is None:
        raise not_found(f"no exchange '{name}' in vhost '{vhost.name}'")
    return vhost, found
