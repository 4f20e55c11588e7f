"""The columns of a trace's DataFrames, as DDL. Times are microseconds: the wall clock's of each broker, unless told."""

from __future__ import annotations

TRACE = (
    "event string, at_us long, broker string, id string, exchange string, key string, size int, peer string, "
    "lane string, queue string, count int, written_us long, root string, clients int, cpu_us long, "
    "memory_bytes long, published long, sample int, cluster string, role string, format int, openclust string, "
    "why string"
)
"""All lines of all brokers, as `openclust.broker.amqp.trace` and `openclust.shell.tracing.trace_lines` have them."""

DELIVERED = (
    "id string, broker string, queue string, count int, size int, at_us long, written_us long, origin string, "
    "published_us long"
)
"""A delivery with its publish; `origin` is null where that is in no trace. `queue` is null for private queues."""

QUEUED = "id string, queue string, broker string, at_us long, entered_us long"
"""A delivery of a shared queue, and when its message entered that; null where that is in no trace."""

CROSSED = "id string, sender string, receiver string, lane string, size int, left_us long, came_us long"
"""A copy from broker to broker; `came_us` is null where its arrival is in no trace, `left_us` where its start is."""

FLOW = (
    "broker string, span int, published long, deliveries long, private long, copies_in long, copies_out long, "
    "dropped long, in_bytes long, out_bytes long, held_us long"
)
"""What went through a broker in a span, as it was followed: not yet times the sample. `held_us`: until written."""

HEALTH = "broker string, span int, clients int, clients_max int, attaches int, cpu_us long, memory_bytes long"
"""How a broker was in a span: clients at its end and at most, what it used of its CPU within. Not a sample."""

ROOTS = "broker string, at_us long, root string, before string"
"""A broker follows another root; `before` is null for the first that it follows in its life."""

LIVES = (
    "broker string, life long, began_us long, last_us long, role string, why string, clients int, published long, "
    "lost long, memory_bytes long"
)
"""A run of a broker's process: its first and last lines, `why` it ended (null where it did not say)."""

MESSAGE_EVENTS = ("publish", "relay", "relayed-in", "drop", "enqueue", "deliver")
OTHER_EVENTS = ("begin", "status", "lost", "end")
EVENTS = (*MESSAGE_EVENTS, *OTHER_EVENTS)
