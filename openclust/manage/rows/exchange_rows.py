"""Exchanges as rows."""

from __future__ import annotations

from openclust.broker.routing.exchange import Exchange
from openclust.broker.server.vhost import VirtualHost
from openclust.manage.gather.selection import Row
from openclust.manage.rows.values import text, value


def exchange_row(exchange: Exchange, vhost: VirtualHost) -> Row:
    policy, _ = vhost.broker.policies.matching(vhost.name, "exchange", exchange.name)
    return {
        "name": text(exchange.name),
        "vhost": text(vhost.name),
        "type": exchange.type,
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": value(exchange.arguments),
        "policy": policy.name if policy is not None else None,
        "bindings": len(exchange.bindings),
    }


def exchange_details(exchange: Exchange, vhost: VirtualHost) -> Row:
    """With what came in by channel and went out by queue: empty lists, as in RabbitMQ without such counters."""
    return {**exchange_row(exchange, vhost), "incoming": [], "outgoing": []}
