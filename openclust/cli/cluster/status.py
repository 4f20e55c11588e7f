"""`openclust status`: the brokers of a cluster as one of them sees it, once or again and again."""

from __future__ import annotations

import functools
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import click
import msgspec

from openclust.cli.access.options import cluster_options, json_option
from openclust.cli.cluster.cluster_view import (
    BrokerView,
    ClusterView,
    LinkView,
    MetaBindingCounts,
    PositionView,
    RatesView,
    StoreView,
    ask,
)
from openclust.cli.cluster.whole_cluster import WholeCluster, ask_whole, whole_lines
from openclust.cli.exit_codes import DONE
from openclust.cli.http_client import HttpClient
from openclust.cli.listing.cells import rate
from openclust.cli.term import show_json, show_table
from openclust.cli.watch import interval_option, watch_for, watch_option
from openclust.shell.host.event_log import escape


@click.command()
@cluster_options()
@json_option
@watch_option
@interval_option
def status(client: HttpClient, as_json: bool, watch: bool, interval: float) -> int:
    """Show the brokers of a cluster, their roles, votes and links, as the broker behind --url sees them.

    And of all brokers together the messages that wait, the rates, alarms, and publishers that wait. With --watch
    --json there is one document a line.
    """

    def ask_and_show() -> Callable[[], None]:
        view, document = ask(client)
        return functools.partial(_show, view, document, ask_whole(client, view), as_json, watch)

    if watch:
        return watch_for(ask_and_show, interval, as_json=as_json)
    ask_and_show()()
    return DONE


def _show(view: ClusterView, document: Any, whole: WholeCluster, as_json: bool, is_watched: bool) -> None:
    if not as_json:
        show_view(view, whole)
        return
    shown = {**document, "whole_cluster": msgspec.to_builtins(whole)}
    if is_watched:
        import json

        click.echo(json.dumps(shown))
    else:
        show_json(shown)


def show_view(view: ClusterView, whole: WholeCluster) -> None:
    """The whole view for people."""
    uuid = f" ({escape(view.cluster_uuid)})" if view.cluster_uuid else ""
    click.echo(f"cluster {escape(view.cluster_key)}{uuid}, as {escape(view.name)} sees it ({escape(view.role)})\n")
    show_table(
        ("broker", "role", "online", "senior since", "vote", "heard", "clients at", "connections", "queues", "disk"),
        [_broker_row(each) for each in view.brokers],
    )
    click.echo("")
    for line in root_lines(view):
        click.echo(line)
    if view.store is not None:
        click.echo(store_line(view.store))
    for line in (*ready_lines(view), *whole_lines(whole)):
        click.echo(line)
    if view.links:
        click.echo("")
        show_table(
            ("link to", "state", "lag", "on disk", "sent", "relayed", "waiting", "dropped", "error"),
            [_link_row(each) for each in view.links],
        )
    click.echo("")
    _show_load(view)


def _show_load(view: ClusterView) -> None:
    rates = view.rates or RatesView()
    meta = view.meta_bindings or MetaBindingCounts()
    shown = (rates.published_per_s, rates.delivered_per_s, rates.relayed_per_s)
    counted = "/".join(map(_count, (meta.held, meta.told, meta.repaired)))
    show_table(
        ("at", "connections", "queues", "published", "delivered", "relayed", "meta-bindings (held/told/repaired)"),
        [(view.name, view.connections, view.queues, *map(_rate, shown), counted)],
    )


def root_lines(view: ClusterView) -> list[str]:
    """The root, or the reasons why there is none."""
    votes, position = view.votes, view.position
    told = "" if position is None else f", log up to {_place(position)}"
    if view.root is not None:
        if votes is not None and votes.following is not None:
            told += f", followed by {votes.following} of {votes.defined} primaries ({votes.given} voted for it)"
        return [f"root {escape(view.root)} since epoch {view.epoch}{told}"]
    return [f"no root{told}", *(f"  {line}" for line in (*reasons(view), *needed(view)))]


def needed(view: ClusterView) -> list[str]:
    """The number of votes that a root needs, if the primaries are known."""
    if view.votes_needed is None:
        return []
    defined = sum(each.partition == "primary" for each in view.brokers)
    there = "" if view.votes is None else f"; {view.votes.electorate} may vote now, and all of these must agree"
    return [f"a root needs the votes of {view.votes_needed} of the {defined} primaries{there}"]


def ready_lines(view: ClusterView) -> list[str]:
    """Whether the broker serves clients, the reasons if not, and the publishers that wait."""
    lines = []
    if view.publishers is not None and view.publishers.is_blocked:
        waiting = view.publishers.waiting
        lines.append(f"publishers wait: {escape(view.publishers.reason)} ({waiting} connections now)")
    if view.is_ready is not None:
        lines.append("ready for clients" if view.is_ready else "not ready for clients:")
        lines += [f"  {escape(each.reason)}" for each in view.not_ready]
    return lines


def store_line(store: StoreView) -> str:
    """The ends of the log in memory and on disk, and the troubles of the disk."""
    if not store.has_disk:
        return "store in memory only: what is durable is lost with the process"
    parts = [f"store up to {_place(store.on_disk)}"]
    if store.committed is not None:
        behind = f"{_count(store.uncommitted_entries)} entries, {_size(store.uncommitted_bytes or 0)}"
        parts.append(f"committed up to {_place(store.committed)} ({behind} to go)")
    parts.append(f"{_size(store.waiting_bytes)} to be written")
    parts.append(f"disk ill: {escape(store.illness)}" if store.illness else "disk well")
    return ", ".join(parts)


def reasons(view: ClusterView) -> list[str]:
    """One line a reason; one line also if the broker knows no reason."""
    if not view.why_no_root:
        return ["no reason is known: the election is under way, ask again"]
    return [f"{escape(each.peer)} {escape(each.reason)}" for each in view.why_no_root]


def _broker_row(broker: BrokerView) -> tuple[str, ...]:
    vote = broker.vote
    return (
        broker.name,
        ", ".join((broker.role, *("draining",) * broker.is_draining, *("publishers wait",) * broker.is_blocked)),
        "yes" if broker.online else "no",
        _time(broker.seniority_ms),
        "-" if vote is None else f"{vote.root} in {vote.epoch}",
        _ago(broker.heard_ms_ago),
        broker.address or "-",
        _count(broker.connections),
        _count(broker.queues),
        broker.disk or "-",
    )


def _link_row(link: LinkView) -> tuple[str, ...]:
    waiting = str(link.waiting) if not link.waiting_bytes else f"{link.waiting} ({_size(link.waiting_bytes)})"
    lag, on_disk, relayed = _count(link.lag_entries), _count(link.lag_on_disk_entries), _count(link.relayed)
    return (link.peer, link.state, lag, on_disk, str(link.sent), relayed, waiting, str(link.dropped), link.error)


def _place(position: PositionView) -> str:
    return f"{position.epoch}.{position.sequence}"


def _count(number: int | None) -> str:
    return "-" if number is None else str(number)


def _rate(per_s: float | None) -> str:
    return "-" if per_s is None else rate(per_s)


def _size(size: int) -> str:
    """Bytes as people read them."""
    number = float(size)
    for unit in ("B", "kB"):
        if number < 1_000:
            return f"{number:.0f} {unit}"
        number /= 1_000
    return f"{number:.1f} MB"


def _time(stamp_ms: int | None) -> str:
    """A seniority stamp: the wall clock of its broker, to the millisecond, because milliseconds decide."""
    if stamp_ms is None:
        return "-"
    try:
        when = datetime.fromtimestamp(stamp_ms / 1_000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(stamp_ms)
    return f"{when:%Y-%m-%d %H:%M:%S}.{stamp_ms % 1_000:03} UTC"


def _ago(ago_ms: int | None) -> str:
    if ago_ms is None:
        return "-"
    if ago_ms < 10_000:
        return f"{ago_ms} ms ago"
    seconds = ago_ms // 1_000
    if seconds < 600:
        return f"{seconds} s ago"
    return f"{seconds // 60} min ago"
