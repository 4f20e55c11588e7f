"""The workload of a cluster: groups of subscribers and publishers, shared queues, and faults.

`workload_file.read_workload` reads it from TOML, and checks the rules that the types here cannot express.
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
    """The fields of every group. `brokers` are the first brokers of its clients, in equal shares; empty: all brokers.

    The one-way latency to any broker is `latency_ms` plus up to `jitter_ms`, fixed for each client.
    """

    name: str
    count: int = 1
    join_at_s: float = 0
    join_over_s: float = 0
    latency_ms: float = 0.1
    jitter_ms: float = 0
    brokers: tuple[str, ...] = ()
    follows: bool = True
    """Whether the clients understand connection.redirect; otherwise they stay at their first broker."""


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
    """A group of like clients for placing. Groups are numbered through the workload, the clients of a group from 0."""

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
    """A whole workload. `faults` are sentences for `fault.parse_fault`. Time is counted in bins of `bin_ms`."""

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
        """The workload with `count` subscribers: every group is scaled by one factor."""
        before = self.subscriber_count
        if not before or total == before:
            return self
        scaled = [each.count * total // before for each in self.subscribers]
        # The largest group takes the difference that rounding leaves.
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
