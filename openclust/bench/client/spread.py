"""Spreads subscribers over the brokers of a cluster, and waits until messages of one broker reach all of them."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from typing import TypeVar

from openclust.bench.client import frames
from openclust.bench.client.bench_connection import BenchConnection
from openclust.bench.client.bench_errors import BenchError

PROBE_EXCHANGE = "amq.direct"
KNOWN_SECONDS = 60.0
STEP_SECONDS = 0.02

Item = TypeVar("Item")
Place = TypeVar("Place")


def share(items: Sequence[Item], places: Sequence[Place]) -> Iterator[tuple[Place, list[Item]]]:
    """Each place with its part of the items, in order. The sizes of two parts differ by one at most."""
    for number, place in enumerate(places):
        yield place, list(items[number * len(items) // len(places) : (number + 1) * len(items) // len(places)])


def wait_until_known(publisher: BenchConnection, elsewhere: Sequence[BenchConnection]) -> None:
    """Wait until the publisher's broker knows all bindings that these brokers have so far.

    Meta-bindings are told in order: when a new one is known, those before it are known too.
    """
    key = f"bench.probe.{secrets.token_hex(4)}"
    probes = {f"{key}.{number}": connection for number, connection in enumerate(elsewhere)}
    for queue, connection in probes.items():
        connection.call(frames.queue_declare(1, queue, exclusive=True), frames.QUEUE_DECLARE_OK)
        connection.call(frames.queue_bind(1, queue, PROBE_EXCHANGE, key), frames.QUEUE_BIND_OK)
    message = frames.publish(1, PROBE_EXCHANGE, key, b"", frame_max=0, persistent=False)
    deadline = time.monotonic() + KNOWN_SECONDS
    unknown = dict(probes)
    while unknown:
        publisher.send(message)
        time.sleep(STEP_SECONDS)
        unknown = {queue: connection for queue, connection in unknown.items() if not _count(queue, connection)}
        if time.monotonic() > deadline:
            names = ", ".join(connection.url.address for connection in unknown.values())
            raise BenchError(
                f"what {publisher.url.address} publishes does not reach {names} after {KNOWN_SECONDS:.0f} s: "
                "are they brokers of one cluster?"
            )
    for queue, connection in probes.items():
        connection.call(frames.queue_delete(1, queue), frames.QUEUE_DELETE_OK)


def _count(queue: str, connection: BenchConnection) -> int:
    answer = connection.call(frames.queue_declare(1, queue, passive=True), frames.QUEUE_DECLARE_OK)
    return frames.message_count(answer)
