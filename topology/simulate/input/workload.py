"""What clients do to a cluster: groups of subscribers and publishers, shared queues, and what goes wrong meanwhile.

Read from TOML by `workload_file.read_workload`, which checks what the types here cannot say.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Literal

import msgspec

Popularity = Literal["uniform", "zipf"]
Arrivals = Literal["poisson", "even"]
Kind = Literal["subscribers", "publishers", "producers", "consumers"]


class Topics(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[topics.NAME]`: routing keys of one exchange, numbered from 0; where popularity is "zipf", 0 is the hottest."""

    count: int


class Clients(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What all groups say. `brokers` are the addresses its members know, dealt out evenly; empty: all brokers.

    `latency_ms` is that of one way to any broker, and up to `jitter_ms` more, fixed for each member.
    """

    name: str
    count: int = 1
    join_at_s: float = 0
    join_over_s: float = 0
    latency_ms: float = 0.1
    jitter_ms: float = 0
    brokers: tuple[str, ...] = ()
    follows: bool = True
    """Whether they understand connection.redirect; otherwise they stay where they came to (`fallback` accept)."""


class Subscribers(Clients, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[[subscribers]]`: each has a private queue, bound to `each` topics, drawn once (drawn twice counts once)."""

    topics: str
    each: int = 1
    popularity: Popularity = "uniform"
    exponent: float = 1.0


class Publishers(Clients, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[[publishers]]`: `rate` messages a second from each, `burst` of them at a time."""

    topics: str
    rate: float
    burst: int = 1
    arrivals: Arrivals = "poisson"
    size: int = 100
    popularity: Popularity = "uniform"
    exponent: float = 1.0


class Queues(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[[queues]]`: `count` shared queues, each with so many producers and consumers. `rate` is of each producer.

    A consumer is busy with a message for `work_ms`, and acknowledges it then.
    """

    name: str
    count: int = 1
    producers: int = 1
    rate: float
    burst: int = 1
    arrivals: Arrivals = "poisson"
    size: int = 100
    consumers: int = 1
    work_ms: float = 0
    persistent: bool = True
    replicate: Literal["messages", "configuration"] = "messages"
    latency_ms: float = 0.1
    brokers: tuple[str, ...] = ()


class ClientGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Clients that are alike, as placing sees them: numbered over the whole workload, its members from 0."""

    number: int
    kind: Kind
    name: str
    count: int
    join_at_ms: int
    join_over_ms: int
    latency_us: int
    jitter_us: int
    brokers: tuple[str, ...]
    follows: bool


class Workload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """All of it. `faults` are sentences, see `fault.parse_fault`. Time is counted in bins of `bin_ms`."""

    name: str = ""
    duration_s: float = 60
    bin_ms: int = 100
    seed: int = 1
    topics: dict[str, Topics] = {}
    subscribers: tuple[Subscribers, ...] = ()
    publishers: tuple[Publishers, ...] = ()
    queues: tuple[Queues, ...] = ()
    faults: tuple[str, ...] = ()

    @property
    def duration_ms(self) -> int:
        return round(self.duration_s * 1000)

    @property
    def subscriber_count(self) -> int:
        return sum(each.count for each in self.subscribers)

    @cached_property
    def topic_base(self) -> dict[str, int]:
        """The number of the first topic of each set: topics are numbered over all sets, in their order of name."""
        base, bases = 0, {}
        for name in sorted(self.topics):
            bases[name] = base
            base += self.topics[name].count
        return bases

    @property
    def topic_count(self) -> int:
        return sum(each.count for each in self.topics.values())

    @cached_property
    def groups(self) -> tuple[ClientGroup, ...]:
        """Subscribers first, then publishers, then producers and consumers of each kind of queue."""
        return tuple(msgspec.structs.replace(each, number=number) for number, each in enumerate(self._groups()))

    def _groups(self) -> Iterator[ClientGroup]:
        for each in self.subscribers:
            yield _group("subscribers", each)
        for publishers in self.publishers:
            yield _group("publishers", publishers)
        for queues in self.queues:
            for kind, count in (("producers", queues.producers), ("consumers", queues.consumers)):
                clients = Clients(
                    name=queues.name, count=count * queues.count, latency_ms=queues.latency_ms, brokers=queues.brokers
                )
                yield _group(kind, clients)  # type: ignore[arg-type]

    def with_subscribers(self, total: int) -> Workload:
        """The same with so many subscribers, every group scaled alike."""
        before = self.subscriber_count
        if not before or total == before:
            return self
        scaled = [each.count * total // before for each in self.subscribers]
        # What rounding left is the largest group's.
        scaled[scaled.index(max(scaled))] += total - sum(scaled)
        groups = tuple(
            msgspec.structs.replace(each, count=count) for each, count in zip(self.subscribers, scaled, strict=True)
        )
        return msgspec.structs.replace(self, subscribers=groups)


def _group(kind: Kind, clients: Clients) -> ClientGroup:
    return ClientGroup(
        number=0,
        kind=kind,
        name=clients.name,
        count=clients.count,
        join_at_ms=round(clients.join_at_s * 1000),
        join_over_ms=round(clients.join_over_s * 1000),
        latency_us=round(clients.latency_ms * 1000),
        jitter_us=round(clients.jitter_ms * 1000),
        brokers=clients.brokers,
        follows=clients.follows,
    )
