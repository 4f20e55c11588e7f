"""The cluster as one broker knows it, for people: the HTTP API and the command line both show this."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from openclust.cluster.election.lease import serves
from openclust.cluster.election.quorum import electorate
from openclust.cluster.election.view import ElectionRole, is_online, vote_of
from openclust.cluster.protocol.status import Position, Status

if TYPE_CHECKING:
    from openclust.broker.server.broker import Broker
    from openclust.cluster.membership.membership import Membership
    from openclust.shell.cluster.links import Link
    from openclust.shell.tracing.rates import Rates

PUBLISHERS_WAIT = ("memory", "cluster")
"""Reasons to hold a connection that mean: its publishers wait."""


def cluster_snapshot(membership: Membership, links: Mapping[str, Link], rates: Rates, now_ms: int) -> dict[str, Any]:
    broker = membership.broker
    meta_bindings = membership.meta_bindings
    position = membership.replica.position
    return {
        "cluster_key": membership.hello.cluster_key,
        "cluster_uuid": membership.hello.uuid or None,
        "name": membership.name,
        "role": own_role(membership, now_ms),
        "root": membership.root or None,
        "epoch": membership.epoch or (membership.election.status().epoch if membership.is_primary else 0),
        "seniority_ms": membership.election.seniority.stamp_ms if membership.is_primary else None,
        "position": _place(position),
        "store": store_snapshot(membership),
        "votes": votes_snapshot(membership) if membership.is_primary else None,
        "votes_needed": membership.readiness.votes_needed,
        "why_no_root": [{"peer": peer, "reason": reason} for peer, reason in membership.readiness.why_no_root()],
        **readiness_snapshot(membership),
        "publishers": publishers_snapshot(broker),
        "brokers": [_shown(membership, name, now_ms) for name in _names(membership)],
        "links": [link_snapshot(membership, link) for _, link in sorted(links.items())],
        "connections": membership.client_count(),
        "queues": broker.queue_count,
        "meta_bindings": {
            "held": sum(held.count for held in meta_bindings.held.values()),
            "told": len(meta_bindings.own.counts),
            "repaired": meta_bindings.repaired,
        },
        "waiting_for_root": {"messages": membership.forwarding.waiting, "requests": len(membership.root_requests)},
        "counted": {
            "misdirected": membership.relay.misdirected,
            "refused_for_want_of_a_root": membership.forwarding.refused,
            "definitions_not_made_here": membership.replica.diverged,
        },
        "is_draining": membership.is_draining,
        "rates": rates.shown(),
    }


def readiness_snapshot(membership: Membership) -> dict[str, Any]:
    """Whether this broker serves clients fully, and if not, the reasons."""
    reasons = msgspec.to_builtins(membership.readiness.obstacles())
    return {"is_ready": not reasons, "not_ready": reasons}


def publishers_snapshot(broker: Broker) -> dict[str, Any]:
    """Whether publishers at this broker have to wait, why, and how many wait now."""
    is_blocked = broker.memory_accounts.alarm
    waiting = sum(each.hold in PUBLISHERS_WAIT for each in broker.connections)
    return {"is_blocked": is_blocked, "reason": broker.memory_accounts.reason if is_blocked else "", "waiting": waiting}


def store_snapshot(membership: Membership) -> dict[str, Any]:
    """How much of the log is on the disk here and at half of the primaries, and whether the disk works.

    Only the root knows which entries are committed.
    """
    disk_health, replica = membership.disk_health, membership.replica
    committed = membership.commit_index.disk if membership.is_root else None
    entries = None if committed is None else replica.log.tail(committed)
    return {
        "has_disk": membership.store_writes.has_disk,
        "on_disk": _place(membership.log_store.on_disk),
        "committed": None if committed is None else _place(committed),
        "uncommitted_entries": None if entries is None else len(entries),
        "uncommitted_bytes": None if entries is None else sum(len(each.body) for each in entries),
        "waiting_bytes": disk_health.waiting_bytes,
        "waiting_bytes_max": membership.broker.limits.unwritten_bytes_max,
        "is_well": not disk_health.illness,
        "illness": disk_health.illness,
    }


def _place(position: Position) -> dict[str, int]:
    return {"epoch": position.epoch, "sequence": position.sequence}


def own_role(membership: Membership, now_ms: int) -> str:
    if not membership.is_primary:
        return "secondary"
    election = membership.election
    # A root whose lease has ended resigns when the timer of the lease fires, a moment later.
    is_lapsed = election.role is ElectionRole.ROOT and not serves(election, now_ms)
    return ElectionRole.ELECTOR.value if is_lapsed else election.role.value


def votes_snapshot(membership: Membership) -> dict[str, int]:
    """How many of the defined primaries may vote now, follow the root, and voted for it.

    A primary that was away, or voted for another, may follow a root without having voted for it.
    """
    election = membership.election
    there = electorate(election)
    reign = election.reign
    given = sum(1 for name in there if reign is not None and vote_of(election, name) == reign)
    following = sum(1 for name in there if reign is not None and _agrees(membership, name))
    defined = len(election.terms.primaries)
    return {"given": given, "following": following, "electorate": len(there), "defined": defined}


def _agrees(membership: Membership, name: str) -> bool:
    """Whether a primary voted for the root, or follows it."""
    election = membership.election
    if name == election.name:
        return True
    peer = election.peers.get(name)
    return peer is not None and election.reign in (vote_of(election, name), peer.status.reign)


def _names(membership: Membership) -> list[str]:
    """The names of all known brokers, the primaries first."""
    others = {each.name for each in membership.roster.brokers} | set(membership.links.peers) | {membership.name}
    return [*membership.primaries, *sorted(others - set(membership.primaries))]


def _shown(membership: Membership, name: str, now_ms: int) -> dict[str, Any]:
    is_primary = name in membership.primaries
    status, heard_ms, online = _heard(membership, name, now_ms)
    info = membership.presences.current() if name == membership.name else membership.presences.info(name)
    role = _role(status, online) if is_primary else "secondary" if online else "offline"
    return {
        "name": name,
        "partition": "primary" if is_primary else "secondary",
        "role": role,
        "online": online,
        "address": info.client if info is not None else membership.client_addresses.get(name, ""),
        "http": _url(info.http) if info is not None else "",
        "seniority_ms": status.seniority.stamp_ms if status else None,
        "vote": msgspec.to_builtins(status.vote) if status and status.vote else None,
        "heard_ms_ago": now_ms - heard_ms if status and name != membership.name else None,
        "connections": info.connections if info is not None else None,
        "queues": info.queues if info is not None else None,
        "is_draining": info.is_draining if info is not None else False,
        "disk": (status.illness or "well") if status and online else None,
        "is_blocked": membership.broker.memory_accounts.alarm
        if name == membership.name
        else name in membership.links.pressed,
    }


def _url(http: str) -> str:
    """The URL of a broker's HTTP API. Brokers of an earlier version tell its address only."""
    return f"http://{http}" if http and "://" not in http else http


def _heard(membership: Membership, name: str, now_ms: int) -> tuple[Status | None, int, bool]:
    """A broker's last status, when it was heard, and whether it is online."""
    if name == membership.name:
        return (membership.election.status() if membership.is_primary else None), now_ms, True
    if name not in membership.primaries:
        return None, 0, membership.roster.find(name) is not None
    if not membership.is_primary:
        watch = membership.watch
        return watch.status(name), watch.heard_ms(name), watch.is_online(name, now_ms)
    peer = membership.election.peers.get(name)
    if peer is None:
        return None, 0, False
    return peer.status, peer.heard_ms, is_online(membership.election, name)


def _role(status: Status | None, online: bool) -> str:
    if status is None:
        return "never heard"
    if not online:
        return "offline"
    if status.reign is not None:
        return "root" if status.reign.root == status.name else "backup"
    return "starting" if status.phase == "starting" else "elector"


def link_snapshot(membership: Membership, link: Link) -> dict[str, Any]:
    """What waits for a peer on the link to it, and what has gone."""
    outbox = link.outbox
    return {
        "peer": link.peer,
        "state": link.state,
        "error": link.error,
        "sent": outbox.sent,
        "relayed": outbox.relayed,
        "dropped": outbox.dropped,
        "waiting": len(outbox.frames),
        "waiting_bytes": outbox.size + outbox.waiting_bytes,
        "lag_entries": membership.role.lag(link.peer),
        "lag_on_disk_entries": membership.role.lag_on_disk(link.peer),
    }
