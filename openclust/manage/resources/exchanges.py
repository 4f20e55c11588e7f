"""Exchanges."""

from __future__ import annotations

from typing import NamedTuple

from aiohttp import web

from openclust.broker.routing.exchange import Exchange
from openclust.broker.server.vhost import VirtualHost
from openclust.manage.calls.call import Call
from openclust.manage.calls.listing import Showing, listing
from openclust.manage.rows.exchange_rows import exchange_row
from openclust.manage.rows.values import text


class Placed(NamedTuple):
    """An exchange and the virtual host that it is in."""

    exchange: Exchange
    vhost: VirtualHost


EXCHANGES = Showing(
    place=lambda it: (text(it.vhost.name), text(it.exchange.name)), row=lambda it: exchange_row(it.exchange, it.vhost)
)


async def exchanges(call: Call) -> web.Response:
    found = [Placed(exchange, vhost) for vhost in call.vhosts() for exchange in vhost.exchanges.values()]
    return await listing(call, found, EXCHANGES)
