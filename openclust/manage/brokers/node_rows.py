"""Brokers as rows: each shows itself, in RabbitMQ's words a node."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from openclust.cluster.election.view import hears_us, is_online
from openclust.manage.brokers.listeners import HttpAddress, context_rows, plugin_names
from openclust.manage.brokers.process_figures import ProcessFigures, ProcessWatch
from openclust.manage.brokers.product import RATES_MODE, applications, exchange_types
from openclust.manage.gather.questions import FindRow, ListRows
from openclust.manage.gather.selection import Row
from openclust.manage.history.sample import GAUGE_COLUMNS
from openclust.manage.history.shown import ShownHistory
from openclust.manage.rows.connection_rows import transport_of
from openclust.shell.cluster.cluster_snapshot import link_snapshot
from openclust.shell.config.addresses import split_address

if TYPE_CHECKING:
    from openclust.cluster.membership.membership import Membership
    from openclust.shell.cluster.links import Link
    from openclust.shell.server import Server

_MECHANISMS = {
    "PLAIN": "SASL PLAIN authentication mechanism",
    "AMQPLAIN": "QPid AMQPLAIN mechanism",
    "EXTERNAL": "SASL EXTERNAL: the name in the client's certificate",
}

_FORGOTTEN = (
    "channel_closed",
    "channel_consumer_deleted",
    "connection_closed",
    "consumer_deleted",
    "exchange_deleted",
    "node_node_deleted",
    "queue_deleted",
    "vhost_deleted",
)
"""Kinds of events after which RabbitMQ forgets statistics later; here they go with the object, and none waits."""


class NodeRows:
    """This broker, as the only one of its kind that it has."""

    values: Mapping[str, Callable[[str], Any]] = {"name": lambda name: name}

    def __init__(self, server: Server, watch: ProcessWatch, http: list[HttpAddress], history: ShownHistory) -> None:
        self._server = server
        self._history = history
        self._watch = watch
        self._http = http
        self._began_ms = server.now_ms()

    def objects(self, question: ListRows) -> list[str]:
        return [self._server.config.name]

    def find(self, question: FindRow) -> str | None:
        name = self._server.config.name
        return name if question.name == name else None

    def place(self, it: str) -> tuple[str, str]:
        return "", it

    def row(self, it: str) -> Row:
        server, figures = self._server, self._watch()
        config, membership, accounts = server.config, server.member.membership, server.broker.memory_accounts
        data_dir = config.cluster.data_dir
        return {
            "name": it,
            "type": "disc" if data_dir is not None else "ram",
            "running": True,
            "being_drained": membership.is_draining,
            "uptime": server.now_ms() - self._began_ms,
            "os_pid": str(os.getpid()),
            "processors": os.cpu_count() or 1,
            "run_queue": figures.run_queue,
            "context_switches": figures.context_switches,
            "gc_num": _collections(),
            "fd_total": figures.open_files_max,
            "fd_used": figures.open_files,
            "sockets_total": min(figures.open_files_max, config.limits.connections_max),
            "sockets_used": _sockets(server),
            "proc_total": figures.threads_max,
            "proc_used": figures.threads,
            "mem_limit": accounts.high_bytes,
            "mem_used": figures.resident_bytes,
            "mem_alarm": accounts.alarm and accounts.alarm_cause == "memory",
            "mem_calculation_strategy": "rss",
            "disk_free": figures.disk_free_bytes,
            # There is no limit: a disk that is full, or too slow, is an alarm of its own.
            "disk_free_limit": 0,
            "disk_free_alarm": bool(accounts.disk_problem) or (accounts.alarm and accounts.alarm_cause == "disk"),
            "db_dir": data_dir or "",
            "log_files": ["<stderr>"],
            "rates_mode": RATES_MODE,
            "enabled_plugins": plugin_names(self._http),
            "applications": applications(),
            "auth_mechanisms": [
                {"name": name, "description": told, "enabled": name in config.auth.mechanisms}
                for name, told in _MECHANISMS.items()
            ],
            "exchange_types": exchange_types(),
            "contexts": context_rows(server, self._http),
            "net_ticktime": max(1, membership.heartbeat_ms // 1_000),
            "partitions": partitions(membership),
            "cluster_links": [self._link(link) for _, link in sorted(server.member.links.items())],
            "metrics_gc_queue_length": dict.fromkeys(_FORGOTTEN, 0),
            **self._history.of_node(),
        }

    def details(self, it: str) -> Row:
        return self.row(it)

    def _link(self, link: Link) -> Row:
        """Links are two connections, one in each direction: what is received comes on the peer's."""
        membership = self._server.member.membership
        incoming = membership.admission.connections.get(link.peer)
        host, port = split_address(link.address)
        received = transport_of(incoming).traffic().received_bytes if incoming is not None else 0
        return {
            **link_snapshot(membership, link),
            "name": link.peer,
            "peer_addr": host,
            "peer_port": port,
            "recv_bytes": received,
            "send_bytes": link.sent_bytes,
            "stats": {"recv_bytes": received, "send_bytes": link.sent_bytes},
        }


def _collections() -> int:
    return sum(generation["collections"] for generation in gc.get_stats())


def _sockets(server: Server) -> int:
    return len(server.broker.connections) + len(server.member.links)


def gauges(server: Server, figures: ProcessFigures) -> tuple[int, ...]:
    """The numbers of the process whose changes the history keeps."""
    values = {
        "context_switches": figures.context_switches,
        "disk_free": figures.disk_free_bytes,
        "fd_used": figures.open_files,
        "gc_num": _collections(),
        "mem_used": figures.resident_bytes,
        "proc_used": figures.threads,
        "sockets_used": _sockets(server),
    }
    return tuple(values[name] for name in GAUGE_COLUMNS)


class MemoryRows(NodeRows):
    """What this broker's memory is used for."""

    def row(self, it: str) -> Row:
        accounts, resident_bytes = self._server.broker.memory_accounts, self._watch().resident_bytes
        return {
            "memory": {
                "queue_procs": accounts.held_bytes,
                "connection_writers": accounts.outbox_bytes,
                "other_system": max(0, resident_bytes - accounts.held_bytes - accounts.outbox_bytes),
                "total": {"rss": resident_bytes},
                "strategy": "rss",
            }
        }


class MissingNodeRows:
    """Brokers that do not answer: of these only the names are known."""

    values: Mapping[str, Callable[[str], Any]] = {"name": lambda name: name}

    def place(self, it: str) -> tuple[str, str]:
        return "", it

    def row(self, it: str) -> Row:
        return {"name": it, "running": False}


def partitions(membership: Membership) -> list[str]:
    """The brokers that run and are cut off from this one.

    The root hears them and this broker does not, or this broker hears them and they do not hear it.
    """
    found: set[str] = set()
    for info in membership.presences.roster.brokers:
        is_linked = membership.is_primary or info.name in membership.primaries
        if info.name != membership.name and is_linked and not membership.is_there(info.name):
            found.add(info.name)
    if membership.is_primary:
        election = membership.election
        found |= {
            name
            for name in membership.primaries
            if name != membership.name and is_online(election, name) and not hears_us(election, name)
        }
    return sorted(found)
