"""The whole cluster, for `openclust status`: messages that wait, rates, alarms, publishers that wait."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from openclust.cli.cluster.cluster_view import ClusterView
from openclust.cli.http_client import HttpClient
from openclust.cli.listing.cells import rate
from openclust.shell.host.event_log import escape

RATES = {"published": "publish", "delivered": "deliver_get", "acknowledged": "ack", "confirmed": "confirm"}
"""What is said of a message, and the counter of RabbitMQ's `message_stats`."""


class WholeCluster(msgspec.Struct):
    """None and empty is what the broker that was asked does not say. `missing` did not answer it."""

    messages: int | None = None
    ready: int | None = None
    unacknowledged: int | None = None
    queues: int | None = None
    connections: int | None = None
    rates_per_s: dict[str, float] = {}
    alarms: list[str] = []
    blocked: list[str] = []
    missing: list[str] = []


def ask_whole(client: HttpClient, view: ClusterView) -> WholeCluster:
    """The numbers of all brokers. A broker that cannot give them is still worth its own view: then there are none."""
    whole = WholeCluster(blocked=[each.name for each in view.brokers if each.is_blocked])
    if view.publishers is not None and view.publishers.is_blocked and view.name not in whole.blocked:
        whole.blocked.append(view.name)
    try:
        overview = client.ask("GET", "/api/overview")
        nodes = client.ask("GET", "/api/nodes?columns=name,mem_alarm,disk_free_alarm")
    except click.ClickException:
        return whole
    if overview.status == 200 and isinstance(overview.document, dict):
        _take_numbers(whole, overview.document)
    if nodes.status == 200 and isinstance(nodes.document, list):
        rows = [each for each in nodes.document if isinstance(each, dict)]
        whole.alarms = [
            f"{each.get('name')} {what}"
            for each in rows
            for column, what in (("mem_alarm", "memory"), ("disk_free_alarm", "disk"))
            if each.get(column)
        ]
    whole.missing = sorted({*overview.missing, *nodes.missing})
    return whole


def _take_numbers(whole: WholeCluster, overview: dict[str, Any]) -> None:
    depth, objects = overview.get("queue_totals") or {}, overview.get("object_totals") or {}
    whole.messages = depth.get("messages")
    whole.ready, whole.unacknowledged = depth.get("messages_ready"), depth.get("messages_unacknowledged")
    whole.queues, whole.connections = objects.get("queues"), objects.get("connections")
    stats = overview.get("message_stats") or {}
    for word, counter in RATES.items():
        per_s = (stats.get(f"{counter}_details") or {}).get("rate")
        if per_s is not None:
            whole.rates_per_s[word] = per_s


def whole_lines(whole: WholeCluster) -> list[str]:
    """For people: what waits and moves in the whole cluster, and what stands against it."""
    lines = []
    if whole.messages is not None:
        depth = f"{whole.messages} messages ({whole.ready} ready, {whole.unacknowledged} unacknowledged)"
        lines.append(f"all brokers: {depth} in {whole.queues} queues, {whole.connections} connections")
    if whole.rates_per_s:
        lines.append(f"all brokers: {', '.join(f'{rate(per_s)} {word}' for word, per_s in whole.rates_per_s.items())}")
    lines += [f"alarm: {escape(each)}" for each in whole.alarms]
    if whole.blocked:
        lines.append(f"publishers wait at {escape(', '.join(whole.blocked))}")
    if whole.missing:
        lines.append(f"no answer from {escape(', '.join(whole.missing))}: its numbers are left out")
    return lines
