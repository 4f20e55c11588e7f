"""The metrics of openclust itself: what a cluster has that RabbitMQ has not."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from openclust import __version__
from openclust.cluster.election.quorum import electorate
from openclust.cluster.election.view import ElectionRole
from openclust.manage.metrics.metric import Metric, Samples, Value, one
from openclust.manage.metrics.readings import Readings
from openclust.shell.cluster.cluster_snapshot import own_role, votes_snapshot

if TYPE_CHECKING:
    from openclust.shell.cluster.links import Link

ROLES = (*(each.value for each in ElectionRole), "secondary")
ALARMS = ("memory", "disk", "log")
LINK_STATES = ("connected", "connecting", "refused")
LEASE_WITHOUT_END_MS = 2**61
"""A lease that ends later than this never ends: the broker is the only primary, or was forced to be root."""


def _of(read: Callable[[Readings], float | None]) -> Callable[[Readings], Samples]:
    return lambda readings: one(read(readings))


def _states(names: tuple[str, ...], now: str) -> Samples:
    """One for the state that is, and zero for all others."""
    return [((name,), float(name == now)) for name in names]


def _role(readings: Readings) -> Samples:
    return _states(ROLES, own_role(readings.membership, readings.now_ms))


def _epoch(readings: Readings) -> float:
    membership = readings.membership
    return membership.epoch or (membership.election.status().epoch if membership.is_primary else 0)


def _vote(kind: str) -> Callable[[Readings], Samples]:
    def read(readings: Readings) -> Samples:
        membership = readings.membership
        return one(votes_snapshot(membership)[kind] if membership.is_primary else None)

    return read


def _quorum_critical(readings: Readings) -> Samples:
    """A root resigns when fewer than half of the defined primaries are left."""
    membership = readings.membership
    if not membership.is_primary or len(membership.primaries) < 2:
        return one(0)
    return one(2 * (len(electorate(membership.election)) - 1) < len(membership.primaries))


def _lease(readings: Readings) -> Samples:
    ends_ms = readings.server.node.lease_ends_ms
    is_bound = ends_ms is not None and ends_ms < LEASE_WITHOUT_END_MS
    return one(max(0, ends_ms - readings.now_ms) / 1_000 if is_bound and ends_ms is not None else None)


def _committed(readings: Readings) -> Samples:
    index = readings.membership.commit_index
    return [(("memory",), index.memory.sequence), (("disk",), index.disk.sequence)]


def _links(read: Callable[[Readings, Link], Value | None]) -> Callable[[Readings], Samples]:
    """A value for each link to a peer, by the peer's name."""

    def samples(readings: Readings) -> Iterator[tuple[tuple[str, ...], Value]]:
        for name, link in sorted(readings.server.member.links.items()):
            value = read(readings, link)
            if value is not None:
                yield (name,), value

    return samples


def _link_states(readings: Readings) -> Samples:
    for name, link in sorted(readings.server.member.links.items()):
        for state in LINK_STATES:
            yield (name, state), float(link.state == state)


def _alarms(readings: Readings) -> Samples:
    accounts = readings.broker.memory_accounts
    return _states(ALARMS, accounts.alarm_cause if accounts.alarm else "")


def _certificates(readings: Readings) -> Samples:
    server = readings.server
    for files in (server.client_tls, server.http_tls, server.peer_tls):
        for each in files.ours if files is not None else ():
            yield (each.key,), each.certificate.expires_s


def _build(readings: Readings) -> Samples:
    return [((__version__, platform.python_version()), 1)]


def _snapshots(readings: Readings) -> Samples:
    replica = readings.membership.replica
    return [(("sent",), replica.sender.snapshots_sent), (("installed",), replica.installing.installed)]


_ELECTION, _LOG, _LINK, _STORE = "the election", "the replicated log", "the link to the peer", "the store"
_RELAY, _CLIENTS, _PROCESS = "the relay", "clients of this broker", "the process"

OPENCLUST_METRICS: tuple[Metric[Readings], ...] = (
    Metric(
        "openclust_build_info",
        "info",
        "The version of openclust and of Python",
        _PROCESS,
        _build,
        ("version", "python"),
    ),
    Metric(
        "openclust_role",
        "gauge",
        "1 for what this broker is in its cluster, 0 for all else",
        _ELECTION,
        _role,
        ("role",),
    ),
    Metric(
        "openclust_ready",
        "gauge",
        "Whether this broker serves clients fully, as GET /api/ready says",
        _ELECTION,
        _of(lambda it: not it.membership.readiness.obstacles()),
    ),
    Metric(
        "openclust_has_root",
        "gauge",
        "Whether this broker knows a root",
        _ELECTION,
        _of(lambda it: bool(it.membership.root)),
    ),
    Metric("openclust_epoch", "gauge", "The epoch of the root, or the last one without a root", _ELECTION, _of(_epoch)),
    Metric(
        "openclust_elections_won_total",
        "counter",
        "How often this broker began to serve as root",
        _ELECTION,
        _of(lambda it: it.membership.root_changes.elected),
    ),
    Metric(
        "openclust_root_changes_total",
        "counter",
        "How often another reign followed a reign that this broker knew",
        _ELECTION,
        _of(lambda it: it.membership.root_changes.count),
    ),
    Metric(
        "openclust_election_seconds",
        "histogram",
        "How long this broker knew no root, from its start or the end of a reign to the next root",
        _ELECTION,
        lambda it: one(it.membership.root_changes.waits),
    ),
    Metric(
        "openclust_votes", "gauge", "Votes that the root got, as this primary knows them", _ELECTION, _vote("given")
    ),
    Metric("openclust_votes_following", "gauge", "Primaries that follow the root", _ELECTION, _vote("following")),
    Metric("openclust_electorate", "gauge", "Primaries that may vote now", _ELECTION, _vote("electorate")),
    Metric("openclust_primaries", "gauge", "Primaries that the configuration names", _ELECTION, _vote("defined")),
    Metric(
        "openclust_quorum_critical",
        "gauge",
        "1 where the loss of one more primary leaves the cluster without a root",
        _ELECTION,
        _quorum_critical,
    ),
    Metric(
        "openclust_lease_left_seconds", "gauge", "How long this root may serve unless it hears more", _ELECTION, _lease
    ),
    Metric(
        "openclust_log_position",
        "gauge",
        "The sequence of the last entry of the log here",
        _LOG,
        _of(lambda it: it.membership.replica.position.sequence),
    ),
    Metric(
        "openclust_log_on_disk",
        "gauge",
        "The sequence of the last entry that is on the disk here",
        _LOG,
        _of(lambda it: it.membership.log_store.on_disk.sequence),
    ),
    Metric(
        "openclust_log_committed",
        "gauge",
        "The sequence of the last entry that half of the primaries have, in memory and on disk",
        _LOG,
        _committed,
        ("where",),
    ),
    Metric(
        "openclust_log_uncommitted_bytes",
        "gauge",
        "Bytes of entries that half of the primaries do not have yet",
        _LOG,
        _of(lambda it: it.broker.memory_accounts.uncommitted_bytes),
    ),
    Metric(
        "openclust_definitions_diverged_total",
        "counter",
        "Changes of the root that could not be made here",
        _LOG,
        _of(lambda it: it.membership.replica.diverged),
    ),
    Metric(
        "openclust_snapshots_total",
        "counter",
        "Snapshots of definitions and messages that went to their end",
        _LOG,
        _snapshots,
        ("direction",),
    ),
    Metric(
        "openclust_link_state",
        "gauge",
        "1 for the state of this broker's link to a peer, 0 for all others",
        _LINK,
        _link_states,
        ("peer", "state"),
    ),
    Metric(
        "openclust_link_lag_entries",
        "gauge",
        "Entries of the log that a follower of this root does not have yet",
        _LINK,
        _links(lambda it, link: it.membership.role.lag(link.peer)),
        ("peer",),
    ),
    Metric(
        "openclust_link_lag_on_disk_entries",
        "gauge",
        "Entries of the log that a follower of this root does not have on its disk yet",
        _LINK,
        _links(lambda it, link: it.membership.role.lag_on_disk(link.peer)),
        ("peer",),
    ),
    Metric(
        "openclust_link_waiting_bytes",
        "gauge",
        "Bytes that wait to be sent to a peer",
        _LINK,
        _links(lambda it, link: link.outbox.size + link.outbox.waiting_bytes),
        ("peer",),
    ),
    Metric(
        "openclust_link_relayed_messages_total",
        "counter",
        "Messages of applications that were sent to a peer",
        _LINK,
        _links(lambda it, link: link.outbox.relayed),
        ("peer",),
    ),
    Metric(
        "openclust_link_control_messages_total",
        "counter",
        "Messages of the cluster itself that were sent to a peer",
        _LINK,
        _links(lambda it, link: link.outbox.sent),
        ("peer",),
    ),
    Metric(
        "openclust_link_dropped_messages_total",
        "counter",
        "Transient messages that a peer did not get, as its link was down or full",
        _LINK,
        _links(lambda it, link: link.outbox.dropped),
        ("peer",),
    ),
    Metric(
        "openclust_link_dropped_bytes_total",
        "counter",
        "Bytes of the messages that a peer did not get",
        _LINK,
        _links(lambda it, link: link.outbox.dropped_bytes),
        ("peer",),
    ),
    Metric(
        "openclust_misdirected_messages_total",
        "counter",
        "Messages for a root that came here while this broker was none",
        _RELAY,
        _of(lambda it: it.membership.relay.misdirected),
    ),
    Metric(
        "openclust_meta_bindings_held",
        "gauge",
        "Bindings of other brokers' private queues that this broker knows",
        _RELAY,
        _of(lambda it: sum(held.count for held in it.membership.meta_bindings.held.values())),
    ),
    Metric(
        "openclust_meta_bindings_told",
        "gauge",
        "Bindings of private queues here that other brokers were told",
        _RELAY,
        _of(lambda it: len(it.membership.meta_bindings.own.counts)),
    ),
    Metric(
        "openclust_meta_bindings_repaired_total",
        "counter",
        "How often meta-bindings differed from the peer's digest, and were told anew",
        _RELAY,
        _of(lambda it: it.membership.meta_bindings.repaired),
    ),
    Metric(
        "openclust_waiting_for_root_messages",
        "gauge",
        "Messages for shared queues that wait for a root",
        _RELAY,
        _of(lambda it: it.membership.forwarding.waiting),
    ),
    Metric(
        "openclust_waiting_for_root_requests",
        "gauge",
        "Requests of clients that wait for the root",
        _RELAY,
        _of(lambda it: len(it.membership.root_requests)),
    ),
    Metric(
        "openclust_refused_for_want_of_root_total",
        "counter",
        "Messages that were refused because no root took them in time",
        _RELAY,
        _of(lambda it: it.membership.forwarding.refused),
    ),
    Metric(
        "openclust_redirects_total",
        "counter",
        "Clients that were told to use another broker",
        _CLIENTS,
        _of(lambda it: it.membership.placing.sent_away),
    ),
    Metric(
        "openclust_proxied_clients",
        "gauge",
        "Clients that another broker serves through this one",
        _CLIENTS,
        _of(lambda it: len(it.server.proxies)),
    ),
    Metric(
        "openclust_draining",
        "gauge",
        "Whether this broker is being emptied of its clients",
        _CLIENTS,
        _of(lambda it: it.membership.is_draining),
    ),
    Metric(
        "openclust_publishers_blocked",
        "gauge",
        "Connections whose publishers have to wait now",
        _CLIENTS,
        _of(lambda it: it.totals.publishers_blocked),
    ),
    Metric(
        "openclust_alarm",
        "gauge",
        "1 for the reason why publishers at this broker have to wait",
        _CLIENTS,
        _alarms,
        ("cause",),
    ),
    Metric(
        "openclust_unattended_queues",
        "gauge",
        "Queues active here in which messages wait and that have no consumer",
        _CLIENTS,
        _of(lambda it: it.totals.unattended),
    ),
    Metric(
        "openclust_memory_messages_bytes",
        "gauge",
        "Bytes of messages in memory",
        _PROCESS,
        _of(lambda it: it.broker.memory_accounts.held_bytes),
    ),
    Metric(
        "openclust_memory_outboxes_bytes",
        "gauge",
        "Bytes that slow clients have not read yet",
        _PROCESS,
        _of(lambda it: it.broker.memory_accounts.outbox_bytes),
    ),
    Metric(
        "openclust_turn_seconds",
        "histogram",
        "Turns of the event loop, from the first event to the last effect: as long as one takes, all others wait",
        _PROCESS,
        lambda it: one(it.server.turns),
    ),
    Metric(
        "openclust_certificate_expires_seconds",
        "gauge",
        "When a certificate that this broker uses expires, in seconds since 1970",
        "the certificate files",
        _certificates,
        ("key",),
    ),
    Metric(
        "openclust_store_batches_total",
        "counter",
        "Transactions that the store has finished",
        _STORE,
        _of(lambda it: None if it.server.storage.transactions is None else sum(it.server.storage.transactions.counts)),
    ),
    Metric(
        "openclust_store_writes_total",
        "counter",
        "Writes that the store has finished, several in a transaction",
        _STORE,
        _of(lambda it: it.membership.store_writes.done),
    ),
    Metric(
        "openclust_store_fsync_seconds",
        "histogram",
        "How long a transaction of the store takes with its fsync; none without a data directory",
        _STORE,
        lambda it: one(it.server.storage.transactions),
    ),
    Metric(
        "openclust_store_waiting_bytes",
        "gauge",
        "Bytes that wait to be written to the disk",
        _STORE,
        _of(lambda it: it.membership.disk_health.waiting_bytes),
    ),
    Metric(
        "openclust_store_waiting_limit_bytes",
        "gauge",
        "Past so many waiting bytes publishers wait",
        _STORE,
        _of(lambda it: it.broker.limits.unwritten_bytes_max),
    ),
    Metric(
        "openclust_store_ill",
        "gauge",
        "Whether the disk takes nothing, or nothing in time",
        _STORE,
        _of(lambda it: bool(it.membership.disk_health.illness)),
    ),
)
