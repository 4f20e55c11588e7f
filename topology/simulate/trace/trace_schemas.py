"""The columns of a trace's DataFrames, as DDL. Times are microseconds, and `at_us` is of the broker's wall clock."""

from __future__ import annotations

TRACE = (
    "event string, at_us long, broker string, id string, exchange string, key string, size int, peer string, "
    "lane string, queue string, count int, written_us long, root string, clients int, cpu_us long, "
    "memory_bytes long, published long, sample int, cluster string, role string, format int, openclust string, "
    "why string"
)
"""All lines of all brokers, in the form of `openclust.broker.amqp.trace` and `openclust.shell.tracing.trace_lines`."""

DELIVERED = (
    "id string, broker string, queue string, count int, size int, at_us long, written_us long, origin string, "
    "published_us long"
)
"""A delivery with its publish. `origin` is null if no trace has the publish, `queue` is null for private queues."""

QUEUED = "id string, queue string, broker string, at_us long, entered_us long"
"""A delivery of a shared queue, and the time at which its message entered the queue; null if no trace has it."""

CROSSED = "id string, sender string, receiver string, lane string, size int, left_us long, came_us long"
"""A copy from broker to broker. `left_us` or `came_us` is null if no trace has its departure or arrival."""

FLOW = (
    "broker string, span int, published long, deliveries long, private long, copies_in long, copies_out long, "
    "dropped long, in_bytes long, out_bytes long, held_us long"
)
"""The followed traffic of a broker in a span, not yet multiplied by the sample. `held_us` ends with the write."""

HEALTH = "broker string, span int, clients int, clients_max int, attaches int, cpu_us long, memory_bytes long"
"""A broker in a span: its clients at the end and at most, and its CPU time. These are not sampled."""

ROOTS = "broker string, at_us long, root string, before string"
"""A broker follows another root. `before` is null for the first root that a process follows."""

LIVES = (
    "broker string, life long, began_us long, last_us long, role string, why string, clients int, published long, "
    "lost long, memory_bytes long"
)
"""A process of a broker: the times of its first and last line, and `why` it ended (null if it did not write that)."""

MESSAGE_EVENTS = ("publish", "relay", "relayed-in", "drop", "enqueue", "deliver")
OTHER_EVENTS = ("begin", "status", "lost", "end")
EVENTS = (*MESSAGE_EVENTS, *OTHER_EVENTS)
