"""The broker in numbers."""

from __future__ import annotations

from openclust import __version__
from openclust.broker.queues.queue import Queue
from openclust.broker.server.broker import Broker
from openclust.broker.server.vhost import VirtualHost
from openclust.manage.gather.selection import Row
from openclust.manage.rows.connection_rows import open_connections
from openclust.shell.cluster.cluster_snapshot import publishers_snapshot


def overview_row(broker: Broker, *, node: str, vhosts: list[VirtualHost]) -> Row:
    """The broker in numbers; objects and messages are those of `vhosts`.

    Messages and consumers are there only if all queues are active on this broker: a sum of some would be taken for all.
    """
    queues = [queue for vhost in vhosts for queue in vhost.queues.values()]
    counts_all = not any(broker.cluster.is_elsewhere(queue) for queue in queues)
    exchanges = [exchange for vhost in vhosts for exchange in vhost.exchanges.values()]
    connections = [connection for connection in open_connections(broker) if connection.vhost in vhosts]
    accounts = broker.memory_accounts
    return {
        "product_name": "openclust",
        "product_version": __version__,
        "cluster_name": broker.cluster_name,
        "node": node,
        "object_totals": {
            "connections": len(connections),
            "channels": sum(len(connection.channels) for connection in connections),
            **({"consumers": sum(len(queue.consumers) for queue in queues)} if counts_all else {}),
            "exchanges": len(exchanges),
            "queues": len(queues),
            "bindings": sum(len(exchange.bindings) for exchange in exchanges),
        },
        "queue_totals": _queue_totals(queues) if counts_all else {},
        "memory": {
            "messages_bytes": accounts.held_bytes,
            "outbox_bytes": accounts.outbox_bytes,
            "base_bytes": accounts.base_bytes,
            "high_bytes": accounts.high_bytes,
            "blocked": accounts.alarm and accounts.alarm_cause == "memory",
        },
        "disk": {
            "unwritten_bytes": accounts.unwritten_bytes,
            "unwritten_bytes_max": accounts.unwritten_bytes_max,
            "illness": accounts.disk_problem,
            "blocked": accounts.alarm and accounts.alarm_cause == "disk",
        },
        "publishers": publishers_snapshot(broker),
    }


def _queue_totals(queues: list[Queue]) -> Row:
    ready = sum(len(queue) for queue in queues)
    unacked = sum(queue.unacked for queue in queues)
    return {"messages": ready + unacked, "messages_ready": ready, "messages_unacknowledged": unacked}
