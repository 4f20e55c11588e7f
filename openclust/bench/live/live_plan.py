"""The plan of a live run, drawn beforehand, and the results of a process that played some of its clients."""

from __future__ import annotations

from typing import Literal

import msgspec

Kind = Literal["subscribers", "publishers", "producers", "consumers"]


class LiveClient(msgspec.Struct, frozen=True, kw_only=True):
    """`number` is unique in the plan. A subscriber has `keys`; a producer or consumer has a `queue`."""

    number: int
    kind: Kind
    joins_ms: int
    contact: str
    keys: list[str] = []
    queue: str = ""
    work_us: int = 0
    follows: bool = True


class LiveMessage(msgspec.Struct, frozen=True, array_like=True):
    """One message. With `is_queued`, its key is the name of a queue."""

    at_us: int
    client: int
    key: str
    size: int
    is_queued: bool = False
    is_persistent: bool = False


class LivePlan(msgspec.Struct, frozen=True, kw_only=True):
    """The plan of one process: its clients, and the messages that they publish, in the order of their times."""

    brokers: dict[str, tuple[str, int]]
    exchange: str
    duration_ms: int
    clients: list[LiveClient]
    messages: list[LiveMessage]
    is_sampling: bool = False
    """Whether it measures its subscribers' latencies: many of them would delay each other here."""


class Begin(msgspec.Struct, frozen=True, kw_only=True):
    """Tells when the run begins, on the machine's monotonic clock."""

    start_ns: int


class Played(msgspec.Struct, kw_only=True):
    """`deliveries` are counted by second. Times are since the run began. `lost` and `back` are for clients whose broker
    ended: when the first lost its connection, and when each was attached again."""

    deliveries: list[int]
    consumed: list[int]
    published: int = 0
    unsent: int = 0
    latencies: list[tuple[int, int]] = []
    """Of each timed message, when it was sent, in ms, and its latency, in us."""
    worked: list[tuple[int, int]] = []
    """The same for messages in queues, until their consumer had finished with them."""
    lost: list[int] = []
    back: list[int] = []
    redirected: int = 0
    moved: int = 0
    attached: int = 0
    at_brokers: dict[str, int] = {}
    late_us: int = 0
    """The p99 of how late messages were sent."""
    cpu_s: float = 0.0
    """The CPU seconds of the run, without those of the preparation."""
    is_sampling: bool = False
    failed: str = ""
