"""The cluster in numbers: each broker counts its own, and whoever is asked adds them up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from openclust.manage.brokers.listeners import HttpAddress, context_rows, listener_rows
from openclust.manage.brokers.product import HISTORY_S, RATES_MODE, exchange_types, product
from openclust.manage.gather.questions import CountTotals, Viewer
from openclust.manage.gather.selection import Row
from openclust.manage.gather.slices import Slices
from openclust.manage.gather.totals import Totals, summed
from openclust.manage.history.shown import ShownHistory
from openclust.manage.history.stats import finished
from openclust.manage.rows.connection_rows import open_connections
from openclust.manage.rows.scope import vhosts_seen
from openclust.shell.cluster.cluster_snapshot import publishers_snapshot

if TYPE_CHECKING:
    from openclust.broker.server.broker import Broker
    from openclust.broker.server.vhost import VirtualHost
    from openclust.shell.server import Server


class OverviewCounts:
    """The numbers of this broker, for /api/overview of the whole cluster. A number is added to those of the others."""

    def __init__(self, server: Server, http: list[HttpAddress], history: ShownHistory) -> None:
        self._server = server
        self._http = http
        self._history = history

    async def count(self, question: CountTotals) -> Totals:
        server, sees_all = self._server, question.viewer.sees_all
        totals = await object_totals(server.broker, question.viewer, is_own=question.is_own)
        history = self._history.of_overview(vhosts_seen(server.broker, question.viewer, None), sees_all=sees_all)
        return {
            **summed((totals, history)),
            "listeners": listener_rows(server, self._http) if sees_all else [],
            "contexts": context_rows(server, self._http) if sees_all else [],
        }


class ListenerCounts:
    """Where this broker listens: for checks of its own ports."""

    def __init__(self, server: Server, http: list[HttpAddress]) -> None:
        self._server = server
        self._http = http

    async def count(self, question: CountTotals) -> Totals:
        return {"listeners": listener_rows(self._server, self._http)}


async def object_totals(broker: Broker, viewer: Viewer, *, is_own: bool) -> Totals:
    """What this broker has, in the virtual hosts that the viewer may see. `is_own`: it is the one that is asked."""
    vhosts = vhosts_seen(broker, viewer, None)
    totals = await _queue_totals(broker, vhosts, is_own=is_own)
    objects: Totals = totals["object_totals"]
    objects |= await _client_totals(broker, vhosts)
    # Definitions are the same on all brokers: the broker that is asked counts them.
    objects["exchanges"] = sum(len(each.exchanges) for each in vhosts) if is_own else 0
    objects["bindings"] += await _shared_bindings(vhosts) if is_own else 0
    return totals


async def _queue_totals(broker: Broker, vhosts: Sequence[VirtualHost], *, is_own: bool) -> Totals:
    """The queues that are active on this broker; and those that are active on none, if it is the one that is asked."""
    cluster, slices = broker.cluster, Slices()
    queues = ready = unacked = bindings = uncounted = 0
    for vhost in vhosts:
        for queue in list(vhost.queues.values()):
            await slices.rest()
            if cluster.is_elsewhere(queue):
                if is_own and not cluster.home(queue):
                    queues += 1
                    uncounted += 1
                continue
            queues += 1
            ready += len(queue)
            unacked += queue.unacked
            if queue.is_private:
                bindings += len(queue.incoming or ())
    return {
        "queue_totals": {"messages": ready + unacked, "messages_ready": ready, "messages_unacknowledged": unacked},
        "object_totals": {"queues": queues, "bindings": bindings},
        "queues_without_root": uncounted,
    }


async def _shared_bindings(vhosts: Sequence[VirtualHost]) -> int:
    """How many bindings lead to shared queues and to exchanges: all but those of private queues here."""
    slices, count = Slices(), 0
    for vhost in vhosts:
        count += sum(len(exchange.bindings) for exchange in vhost.exchanges.values())
        for queue in list(vhost.queues.values()):
            await slices.rest()
            if queue.is_private:
                count -= len(queue.incoming or ())
    return count


async def _client_totals(broker: Broker, vhosts: Sequence[VirtualHost]) -> Totals:
    """The connections to these virtual hosts, with their channels and consumers."""
    slices, seen = Slices(), set(vhosts)
    connections = channels = consumers = 0
    for connection in open_connections(broker):
        await slices.rest()
        if connection.vhost in seen:
            connections += 1
            channels += len(connection.channels)
            consumers += sum(len(channel.consumers or ()) for channel in connection.channels.values())
    return {"connections": connections, "channels": channels, "consumers": consumers}


def overview_row(broker: Broker, totals: Totals, missing: list[str]) -> Row:
    """The overview of the cluster. `memory`, `disk` and `publishers` are those of the broker that answers."""
    accounts = broker.memory_accounts
    return {
        **product(),
        "cluster_name": broker.cluster_name,
        "node": broker.name,
        "missing": missing,
        "rates_mode": RATES_MODE,
        "sample_retention_policies": {"global": [HISTORY_S], "basic": [HISTORY_S], "detailed": [HISTORY_S]},
        "statistics_db_event_queue": 0,
        "disable_stats": False,
        "enable_queue_totals": False,
        "exchange_types": exchange_types(),
        **finished(totals),
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
