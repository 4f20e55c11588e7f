"""The columns of every stage's DataFrame, as DDL. Brokers, groups and topics are numbers (`layout`, `workload`).

Every row has its cell of the grid, `run`: a sweep is one set of DataFrames. `broker` -1: connected nowhere.
"""

from __future__ import annotations

POPULATION = "run int, grp int, client long, joins_ms int, contact int"
"""Every client with the time of its first connection, and the broker that it tries first."""

SESSIONS = "run int, grp int, first long, last long, broker int, from_ms int, to_ms int"
"""Placement: clients `first` to `last` of a group are at this broker from `from_ms` to `to_ms` or the end of the run.

From a client's first attempt until it is attached its broker is -1: the sessions of a client have no gaps between them.
`from_ms == to_ms`: the clients opened a connection here and were redirected.
"""

SUBSCRIPTIONS = "run int, grp int, client long, topic int, broker int, from_ms int, to_ms int"

PUBLICATIONS = "pace int, publication long, grp int, client long, topic int, at_us long, link_us int, size int"
"""Messages as published, equal in all runs of one rate; `pace` is the number of the rate. A message is sent at `at_us`,
and at the broker `link_us` later. `topic` is -1 - N for messages to shared queue N.
"""

CHANGES = "run int, topic int, bin int, deltas array<int>"
"""Interest: the changes of the number of a topic's subscribers in a bin, at each broker; the last is nowhere."""

SENT = "run int, publication long, topic int, at_us long, link_us int, size int, origin int, subscribers array<int>"
"""A publication with its broker, and the topic's subscribers at each broker at that time; the last is nowhere."""

JOBS = (
    "run int, broker int, at_us long, publication long, kind int, base_us float, deliveries int, "
    "topic int, size int, clients int, source int, copies int, sent_us long, batch_us float"
)
"""A job of a broker. `base_us` is its cost without deliveries and writes; `clients` is the number of connected clients.

A turn has the cost `batch_us` once for all its jobs: the highest of theirs.

The message comes from `source` (-1: from the publisher, who sent it at `sent_us`), and `copies` go on to other brokers.
"""

WORKED = (
    "run int, broker int, at_us long, publication long, kind int, deliveries int, topic int, size int, source int, "
    "copies int, sent_us long, begun_us long, relayed_us long, writes_from_us long, writes_to_us long, "
    "cost_us float"
)
"""A finished job: the times of its begin, of its copies' departure, and of its first and last write."""

PRESENCE = "run int, broker int, bin int, clients int, attaches int, opens int"
"""The clients of a broker at the end of a bin; those that attached in it, and those that it redirected."""

LATENCIES = "run int, broker int, bin int, audience int, bucket int, deliveries long"
"""Deliveries by their latency, without the way from the broker to the subscriber. `audience` is the topic set.

There are `buckets.BUCKETS_PER_DECADE` buckets for each factor of ten, from 1 us."""


class JobKind:
    """The kinds of jobs, in column `kind`."""

    PUBLISHED = 0
    """A message published by a client of this broker."""
    RELAYED = 1
    """A message from its publisher's broker."""
    PASSED_ON = 2
    """At the root: a message from a secondary for other secondaries, and perhaps for subscribers here."""
    FROM_ROOT = 3
    """At a secondary: a message that the root passed on."""
    SHARED = 4
    """At the root: a message of a shared queue."""
    SHARED_BACKUP = 5
    SHARED_DELIVERY = 6
    """At the consumer's broker: a delivery of a shared queue."""
    CHORE = 7
    """Attaching, heartbeats, meta-bindings: work that belongs to no message."""
