"""What is shown of a broker, in the shapes of RabbitMQ's management API: said once, for every interface."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from openclust import __version__
from openclust.broker.amqp.connection import Connection
from openclust.broker.backlog.paged_backlog import PagedBacklog
from openclust.broker.model.access import User
from openclust.broker.model.durability_level import OWN, SHARED
from openclust.broker.model.password_hash import to_rabbit
from openclust.broker.model.policy import Kind, Policy
from openclust.broker.queues.queue import Queue
from openclust.broker.routing.exchange import Exchange
from openclust.broker.server.broker import Broker
from openclust.broker.server.vhost import VirtualHost
from openclust.shell.cluster.cluster_snapshot import publishers_snapshot
from openclust.wire.handshake import State
from openclust.wire.text import encode_text

Shown = dict[str, Any]


def overview(broker: Broker, *, node: str, vhosts: list[VirtualHost]) -> Shown:
    """The broker in numbers; objects and messages are those of `vhosts`.

    Messages and consumers are there only if all queues are active on this broker: a sum of some would be taken for all.
    """
    queues = [queue for vhost in vhosts for queue in vhost.queues.values()]
    counts_all = not any(broker.cluster.is_elsewhere(queue) for queue in queues)
    exchanges = [exchange for vhost in vhosts for exchange in vhost.exchanges.values()]
    connections = [connection for connection in open_connections(broker) if connection.vhost in vhosts]
    books = broker.books
    return {
        "product_name": "openclust",
        "product_version": __version__,
        "cluster_name": broker.cluster_name,
        "node": node,
        "object_totals": {
            "connections": len(connections),
            "channels": sum(len(connection.channels) for connection in connections),
            **({"consumers": sum(len(queue.turns) for queue in queues)} if counts_all else {}),
            "exchanges": len(exchanges),
            "queues": len(queues),
            "bindings": sum(len(exchange.bindings) for exchange in exchanges),
        },
        "queue_totals": _queue_totals(queues) if counts_all else {},
        "memory": {
            "messages_bytes": books.held_bytes,
            "outbox_bytes": books.outbox_bytes,
            "base_bytes": books.base_bytes,
            "high_bytes": books.high_bytes,
            "blocked": books.alarm and books.lacks == "memory",
        },
        "disk": {
            "unwritten_bytes": books.unwritten_bytes,
            "unwritten_bytes_max": books.unwritten_bytes_max,
            "illness": books.illness,
            "blocked": books.alarm and books.lacks == "disk",
        },
        "publishers": publishers_snapshot(broker),
    }


def _queue_totals(queues: list[Queue]) -> Shown:
    ready = sum(len(queue) for queue in queues)
    unacked = sum(queue.unacked for queue in queues)
    return {"messages": ready + unacked, "messages_ready": ready, "messages_unacknowledged": unacked}


def queue(queue: Queue) -> Shown:
    """A queue as this broker knows it: only the broker on which it is active can count it, others leave that out."""
    vhost = queue.vhost
    kind: Kind = "quorum_queue" if queue.args.queue_type == "quorum" else "classic_queue"
    policy, operator_policy = vhost.broker.policies.matching(vhost.name, kind, queue.name)
    home = vhost.broker.cluster.home(queue)
    return {
        "name": text(queue.name),
        "vhost": text(vhost.name),
        "type": queue.args.queue_type,
        "durable": queue.durable,
        "auto_delete": queue.auto_delete,
        "exclusive": queue.owner is not None,
        "arguments": value(queue.arguments),
        "state": "running" if home else "down",
        "node": home or None,
        **_reliability(queue),
        **({} if vhost.broker.cluster.is_elsewhere(queue) else _counts(queue)),
        "policy": policy.name if policy is not None else None,
        "operator_policy": operator_policy.name if operator_policy is not None else None,
        "effective_policy_definition": value(vhost.broker.policies.effective(vhost.name, kind, queue.name)),
    }


def _counts(queue: Queue) -> Shown:
    ready = len(queue)
    return {
        "consumers": len(queue.turns),
        "messages": ready + queue.unacked,
        "messages_ready": ready,
        "messages_unacknowledged": queue.unacked,
        "message_bytes_ready": queue.ready_bytes,
        # Those that are on disk alone.
        "messages_paged_out": queue.backlog.shelf.away if isinstance(queue.backlog, PagedBacklog) else 0,
    }


def _reliability(queue: Queue) -> Shown:
    """How much is kept of a queue, and the level that a message of each delivery mode has in it."""
    journal = queue.vhost.broker.journal
    kept = journal.level(queue)
    transient = "reliable transient" if kept == SHARED else "fully transient"
    persistent = "persistent" if kept == OWN else transient
    if kept == SHARED and journal.has_disk:
        persistent = "reliable persistent"
    replicate = queue.settings.replicate or ("messages" if queue.durable else "configuration")
    return {
        "replicate": "none" if queue.owner is not None else replicate,
        "level": {"transient": transient, "persistent": persistent},
    }


def exchange(exchange: Exchange, vhost: VirtualHost) -> Shown:
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


def open_connections(broker: Broker) -> list[Connection]:
    """The connections that have been let in, in the order they came."""
    return [connection for connection in broker.connections if hasattr(connection, "vhost")]


def connection(connection: Connection) -> Shown:
    peer = connection.peer
    state = "closing" if connection.state is not State.OPEN else "blocked" if connection.hold else "running"
    return {
        "name": f"{peer.host}:{peer.port}",
        "user": text(connection.user.name),
        "vhost": text(connection.vhost.name),
        "peer_host": peer.host,
        "peer_port": peer.port,
        "protocol": "AMQP 0-9-1",
        "auth_mechanism": connection.mechanism,
        "ssl": peer.is_tls,
        "state": state,
        "channels": len(connection.channels),
        "consumers": sum(len(channel.consumers or ()) for channel in connection.channels.values()),
        "frame_max": connection.frame_max,
        "channel_max": connection.channel_max,
        "timeout": connection.heartbeat_s,
        "send_pend": connection.pending_bytes,
        "client_properties": value(connection.client_properties),
    }


def user(user: User) -> Shown:
    """A user with its password hash: for administrators only."""
    password_hash, algorithm = to_rabbit(user.password_hash)
    return {
        "name": user.name,
        "password_hash": password_hash,
        "hashing_algorithm": algorithm,
        "tags": list(user.tags),
        "type": user.type,
        "limits": {},
    }


def permissions(user: User) -> list[Shown]:
    return [
        {"user": user.name, "vhost": vhost, "configure": each.configure, "write": each.write, "read": each.read}
        for vhost, each in sorted(user.permissions.items())
    ]


def vhost(vhost: VirtualHost) -> Shown:
    return {
        "name": text(vhost.name),
        "description": "",
        "tags": [],
        "queues": len(vhost.queues),
        "exchanges": len(vhost.exchanges),
    }


def policy(policy: Policy) -> Shown:
    shown: Shown = msgspec.to_builtins(policy)
    return shown


def value(value_: Any) -> Any:
    """A field value for JSON: what it cannot say is spelled out."""
    if isinstance(value_, dict):
        return {text(name): value(one) for name, one in value_.items()}
    if isinstance(value_, list):
        return [value(one) for one in value_]
    if isinstance(value_, bytes):
        return value_.decode("utf-8", "replace")
    if isinstance(value_, str):
        return text(value_)
    if value_ is None or isinstance(value_, bool):
        return value_
    if isinstance(value_, int):
        return int(value_)
    number = float(value_)
    return number if math.isfinite(number) else str(number)


def text(name: str) -> str:
    """A name whose bytes need not be UTF-8."""
    return name if name.isascii() else encode_text(name).decode("utf-8", "replace")
