"""A broker with many private bindings meets the others of its cluster: how long until they know all of them."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from contextlib import ExitStack, closing

import msgspec

from openclust.bench.client import frames
from openclust.bench.client.bench_connection import BenchConnection
from openclust.bench.client.bench_errors import BenchError
from openclust.bench.client.subscribers import Subscription, attach, detach
from openclust.bench.client.url import BrokerUrl

EXCHANGE = "amq.topic"
AT_ONCE = 16
RECEIVE_SECONDS = 10.0
KNOWN_SECONDS = 120.0
STEP_SECONDS = 0.05


class Joining(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds since the others were started, as processes."""

    bindings: int
    declare_s: float
    root_s: float
    effective_s: float


def join_with_bindings(
    joiner: BrokerUrl,
    others: list[BrokerUrl],
    *,
    queues: int,
    bindings: int,
    start_others: Callable[[], None],
    is_rooted: Callable[[], bool],
    held_by_others: Callable[[], int],
) -> Joining:
    """The joiner runs, and the others do not: `start_others` does that, when all is bound.

    `held_by_others` is the least number of meta-bindings that any of them holds.
    """
    name = f"bench.{secrets.token_hex(4)}"
    each = bindings // queues
    subscriptions = [
        Subscription(f"{name}.{queue}", EXCHANGE, [f"{name}.{queue}.{number}" for number in range(each)])
        for queue in range(queues)
    ]
    with ExitStack() as stack:
        like = stack.enter_context(closing(BenchConnection(joiner)))
        declaring = time.perf_counter()
        sockets = attach(like, [[one] for one in subscriptions], AT_ONCE, lambda _: None)
        stack.callback(detach, sockets)
        started = time.perf_counter()
        start_others()
        root_s = _wait(started, is_rooted, "the brokers do not elect a root")
        effective_s = _wait(started, lambda: held_by_others() >= queues * each, "the others do not hold all bindings")
        for number, url in enumerate(others):
            publisher = stack.enter_context(closing(BenchConnection(url)))
            key = subscriptions[-1 - number].binding_keys[-1]
            publisher.send(frames.publish(1, EXCHANGE, key, b"", frame_max=0, persistent=False))
            subscriber = sockets[-1 - number]
            subscriber.settimeout(RECEIVE_SECONDS)
            try:
                subscriber.recv(1)
            except OSError:
                raise BenchError(f"{url.address} holds the bindings, and its message did not come") from None
    return Joining(bindings=queues * each, declare_s=started - declaring, root_s=root_s, effective_s=effective_s)


def _wait(since: float, condition: Callable[[], bool], complaint: str) -> float:
    while not condition():
        if time.perf_counter() - since > KNOWN_SECONDS:
            raise BenchError(f"{complaint} after {KNOWN_SECONDS:.0f} s")
        time.sleep(STEP_SECONDS)
    return time.perf_counter() - since
