"""What the clients of a live run do, drawn beforehand; and what a process that plays some of them tells in the end."""

from __future__ import annotations

from typing import Literal

import msgspec

Kind = Literal["subscribers", "publishers", "producers", "consumers"]


class LiveClient(msgspec.Struct, frozen=True, kw_only=True):
    """`number` is its own in the plan. A subscriber has `keys`, producers and consumers a `queue`."""

    number: int
    kind: Kind
    joins_ms: int
    contact: str
    keys: list[str] = []
    queue: str = ""
    work_us: int = 0
    follows: bool = True


class LiveMessage(msgspec.Struct, frozen=True, array_like=True):
    """To a queue where `is_queued`, which is then its key."""

    at_us: int
    client: int
    key: str
    size: int
    is_queued: bool = False
    is_persistent: bool = False


class LivePlan(msgspec.Struct, frozen=True, kw_only=True):
    """Of one process: its clients, and the messages that they publish, in the order of their time."""

    brokers: dict[str, tuple[str, int]]
    exchange: str
    duration_ms: int
    clients: list[LiveClient]
    messages: list[LiveMessage]
    is_sampling: bool = False
    """Whether it takes the times of what its subscribers get. Many of them would wait for one another here."""


class Begin(msgspec.Struct, frozen=True, kw_only=True):
    """When the run begins, on the machine's monotonic clock."""

    start_ns: int


class Played(msgspec.Struct, kw_only=True):
    """`deliveries` are counted by second. Times are of the run. `lost` and `back` tell of clients whose broker ended:
    when the first lost its connection, and when each was attached again."""

    deliveries: list[int]
    consumed: list[int]
    published: int = 0
    unsent: int = 0
    latencies: list[tuple[int, int]] = []
    """When it was sent, in ms, and how long it took, in us."""
    worked: list[tuple[int, int]] = []
    """The same of messages in queues, until their consumer was done."""
    lost: list[int] = []
    back: list[int] = []
    redirected: int = 0
    moved: int = 0
    attached: int = 0
    at_brokers: dict[str, int] = {}
    late_us: int = 0
    """How long messages left after they were due: the 99th of a hundred."""
    cpu_s: float = 0.0
    """What the run took of a core, without what was made ready before."""
    is_sampling: bool = False
    failed: str = ""
