"""The work of one bench: the pattern, its sizes, and the routing and binding keys that follow from them."""

from __future__ import annotations

from typing import Literal

import msgspec

from openclust.bench.client.bench_errors import BenchError

Pattern = Literal["fanout", "topic", "p2p", "shared", "confirm", "durable", "connections"]
ACKNOWLEDGED: tuple[Pattern, ...] = ("confirm", "durable")
BY_QUEUE_NAME: tuple[Pattern, ...] = ("p2p", "shared", *ACKNOWLEDGED)
"""Patterns that publish to the default exchange, for one queue."""
LEFT_BEHIND: tuple[Pattern, ...] = ("shared", "durable")
"""Patterns whose queue is not exclusive: the load generator deletes it in the end."""

# Each fits exactly the keys of one unit, in ten ways that a topic exchange cannot look up as a plain string.
TOPIC_PATTERNS = (
    "*.{unit}.*",
    "#.{unit}.*",
    "*.{unit}.#",
    "{area}.{unit}.*",
    "{area}.{unit}.#",
    "*.{unit}.reading",
    "#.{unit}.reading",
    "#.{unit}.#",
    "*.{unit}.*.#",
    "{area}.#.{unit}.*",
)


class LoadWork(msgspec.Struct, frozen=True, kw_only=True):
    """The work of a load generator. A round is `seconds` of publishing, or `count` messages if given."""

    pattern: Pattern
    subscribers: int = 1
    size: int = 100
    window: int = 16
    seconds: float = 3.0
    count: int | None = None
    rate: float | None = None
    warm_up_seconds: float = 1.0
    bindings: int = 0
    keys: int = 1
    prefetch: int = 200
    attach_window: int = 64
    silence_seconds: float = 20.0

    def __post_init__(self) -> None:
        if self.pattern == "topic":
            if self.bindings % self.keys:
                raise BenchError(f"--bindings {self.bindings} must be a multiple of --keys {self.keys}")
            if self.bindings // self.keys > self.subscribers:
                raise BenchError(
                    f"{self.bindings // self.keys} bindings fit each key, each of another subscriber: "
                    f"--subscribers must be at least that, not {self.subscribers}"
                )

    @property
    def deliveries_per_message(self) -> int:
        """How many subscribers each message reaches, whatever its key."""
        if self.pattern in ("fanout", "connections"):
            return self.subscribers
        return self.bindings // self.keys if self.pattern == "topic" else 1

    @property
    def sampled_subscriber(self) -> int:
        """The one whose deliveries are timed: in the middle of those that the first key reaches."""
        return self.deliveries_per_message // 2

    @property
    def acknowledged(self) -> bool:
        """Publisher confirms and consumer acknowledgements, or neither."""
        return self.pattern in ACKNOWLEDGED

    def routing_keys(self, queue: str) -> list[str]:
        """The keys of the messages, in turn. All have one length, so that all deliveries have."""
        if self.pattern == "topic":
            return [f"{_area(key)}.{_unit(key)}.reading" for key in range(self.keys)]
        return [queue] if self.pattern in BY_QUEUE_NAME else ["tick"]

    def binding_keys(self, subscriber: int) -> list[str]:
        """The binding keys of this subscriber's queue; none if the default exchange routes to it."""
        if self.pattern in ("fanout", "connections"):
            return [""]
        found = []
        if self.pattern == "topic":
            for ordinal in range(self.deliveries_per_message):
                # Binding number o of key k belongs to subscriber (k + o) mod n, so no subscriber has two of one key.
                first = (subscriber - ordinal) % self.subscribers
                for key in range(first, self.keys, self.subscribers):
                    pattern = TOPIC_PATTERNS[ordinal % len(TOPIC_PATTERNS)]
                    found.append(pattern.format(area=_area(key), unit=_unit(key)))
        return found

    def reaches(self, key: int, subscriber: int) -> bool:
        """Whether messages with routing key number `key` come to this subscriber."""
        return (subscriber - key) % self.subscribers < self.deliveries_per_message


class Figures(msgspec.Struct, kw_only=True):
    """The figures of one round. Bytes and seconds are sums over the round; None if a figure could not be measured."""

    messages: int = 0
    deliveries: int = 0
    elapsed_s: float = 0.0
    broker_cpu_s: float | None = None
    generator_cpu_s: float = 0.0
    latencies_ns: list[int] = []
    confirm_latencies_ns: list[int] = []
    confirmed_at_ns: list[int] = []
    """When each of these confirms came, by the machine's monotonic clock."""
    broker_rss: int | None = None
    attached: int = 0
    attach_s: float = 0.0
    attach_cpu_s: float | None = None
    rss_before: int | None = None
    rss_idle: int | None = None
    rss_after_traffic: int | None = None
    notes: list[str] = []


def _unit(key: int) -> str:
    return f"unit{key:06d}"


def _area(key: int) -> str:
    return f"area{key % 100:02d}"
