"""The columns of every stage's DataFrame, as DDL. Brokers, groups and topics are numbers (`layout`, `workload`).

`run` is the cell of the grid, on every row: a sweep is one set of DataFrames. `broker` -1 is nowhere.
"""

from __future__ import annotations

POPULATION = "run int, grp int, client long, joins_ms int, contact int"
"""Every client: when it first connects, and to which broker."""

SESSIONS = "run int, grp int, first long, last long, broker int, from_ms int, to_ms int"
"""Placement: clients `first` to `last` of a group are at this broker from then until then (or the end of the run).

From the moment a client wants in until it is, its broker is -1: sessions of a client follow one another without a gap.
`from_ms == to_ms`: they opened a connection here and were redirected.
"""

SUBSCRIPTIONS = "run int, grp int, client long, topic int, broker int, from_ms int, to_ms int"

PUBLICATIONS = "pace int, publication long, grp int, client long, topic int, at_us long, link_us int, size int"
"""The same in all runs of one rate, which `pace` numbers. Sent at `at_us`, and `link_us` later at the broker.

Of subscribers' topics and of shared queues alike: for these `topic` is -1 minus the queue's number.
"""

CHANGES = "run int, topic int, bin int, deltas array<int>"
"""Interest: by how much the number of a topic's subscribers changes with a bin, at each broker and, last, nowhere."""

SENT = "run int, publication long, topic int, at_us long, link_us int, size int, origin int, subscribers array<int>"
"""A publication with where it was published, and the topic's subscribers at each broker then, nowhere last."""

JOBS = (
    "run int, broker int, at_us long, publication long, kind int, base_us float, deliveries int, "
    "topic int, size int, clients int, source int, copies int, sent_us long, batch_us float"
)
"""What a broker has to do. `base_us` is all but deliveries and writes; `clients` are connected there at that time.

`batch_us` comes once for all jobs of a turn: the most that one of them has.

It has the message from `source` (-1: from the publisher, who sent it at `sent_us`), and sends `copies` on to others.
"""

WORKED = (
    "run int, broker int, at_us long, publication long, kind int, deliveries int, topic int, size int, source int, "
    "copies int, sent_us long, begun_us long, relayed_us long, writes_from_us long, writes_to_us long, "
    "cost_us float"
)
"""A job that was done: begun, its copies to other brokers out, its deliveries written from then until then."""

PRESENCE = "run int, broker int, bin int, clients int, attaches int, opens int"
"""How many clients a broker has at the end of a bin, how many came in it, and how many it sent elsewhere."""

LATENCIES = "run int, broker int, bin int, audience int, bucket int, deliveries long"
"""How many deliveries took how long, without the way from the broker to the subscriber. `audience` is the topic set.

`bucket` is of `buckets.BUCKETS_PER_DECADE` for each factor of ten, from 1 us."""


class JobKind:
    """What a job is, in column `kind`."""

    PUBLISHED = 0
    """By a client of this broker."""
    RELAYED = 1
    """Came from its publisher's broker."""
    PASSED_ON = 2
    """At the root: came from a secondary, for other secondaries (and perhaps for subscribers here)."""
    FROM_ROOT = 3
    """At a secondary: passed on by the root."""
    SHARED = 4
    """At the root: of a shared queue."""
    SHARED_BACKUP = 5
    SHARED_DELIVERY = 6
    """At the consumer's broker."""
    CHORE = 7
    """Attaching, heartbeats, meta-bindings: work that belongs to no message."""
