"""The layout of one run: its brokers, the latencies between them, and their design."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

from openclust.cluster.protocol.redirect import Redirect

Design = Literal["openclust", "single", "active-passive", "virtual-synchrony"]
DESIGNS: tuple[Design, ...] = get_args(Design)
PRIMARIES_MAX = 3
"""A layout that is given by its number of brokers has at most so many primaries; the others are secondaries."""


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """A broker. A capacity of 0 is unlimited."""

    name: str
    is_primary: bool
    weight: int = 1
    host: str = ""
    """Brokers with the same host share its cores. A broker without a host has one of its own."""
    cores: int = 0
    memory_mb: int = 0
    bandwidth_mbit: float = 0


class LocalClients(msgspec.Struct, frozen=True, kw_only=True):
    """A process of clients on the brokers' host: the publishers, and this share of all subscribers."""

    message_us: float
    """The CPU of the process for each message that it publishes or gets."""
    share: float
    others_us: float = 0.0
    """The CPU of the process with all other subscribers for each poll, every `others_every_us`."""
    others_every_us: float = 0.0


class SharedHost(msgspec.Struct, frozen=True, kw_only=True):
    """A machine with more processes than cores."""

    brokers: tuple[int, ...]
    cores: int
    clients: LocalClients | None = None


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """Primaries come first; the first of them begins as root. `latency_us[a][b]` is the one-way latency from a to b."""

    design: Design = "openclust"
    sites: tuple[Site, ...]
    latency_us: tuple[tuple[int, ...], ...]
    redirect: Redirect = Redirect()
    cluster_key: str = "simulated"
    local_clients: LocalClients | None = None
    """The processes of clients on the brokers' host, if all clients are there."""

    @property
    def hosts(self) -> tuple[SharedHost, ...]:
        """The hosts on which brokers wait for each other. A host's cores are the most that any of its brokers names."""
        by_name: dict[str, list[int]] = {}
        for number, site in enumerate(self.sites):
            if site.host:
                by_name.setdefault(site.host, []).append(number)
        others = 0 if self.local_clients is None else 1 + (self.local_clients.others_us > 0)
        found = []
        for numbers in by_name.values():
            cores = max(self.sites[number].cores for number in numbers)
            if 0 < cores < len(numbers) + others:
                found.append(SharedHost(brokers=tuple(numbers), cores=cores, clients=self.local_clients))
        return tuple(found)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.sites)

    @property
    def primaries(self) -> tuple[int, ...]:
        return tuple(number for number, each in enumerate(self.sites) if each.is_primary)

    def number(self, name: str) -> int:
        return self.names.index(name)


class GridCell(msgspec.Struct, frozen=True, kw_only=True):
    """One cell of the grid. `rate` multiplies what the workload's publishers and producers send."""

    number: int
    layout: Layout
    subscribers: int
    rate: float = 1.0


def layout_of_counts(
    primaries: int, secondaries: int, *, latency_us: int = 100, design: Design = "openclust"
) -> Layout:
    """Brokers p1, p2, ... and s1, s2, ..., all equally far from each other."""
    sites = tuple(
        Site(name=f"{letter}{number}", is_primary=letter == "p")
        for letter, count in (("p", primaries), ("s", secondaries))
        for number in range(1, count + 1)
    )
    rows = tuple(tuple(0 if a == b else latency_us for b in range(len(sites))) for a in range(len(sites)))
    return Layout(design=design, sites=sites, latency_us=rows)


def layout_of_brokers(count: int, *, latency_us: int = 100, design: Design = "openclust") -> Layout:
    """So many brokers, of which at most three are primaries."""
    primaries = min(count, PRIMARIES_MAX) if count != 2 else 1
    return layout_of_counts(primaries, count - primaries, latency_us=latency_us, design=design)


def as_design(layout: Layout, design: Design) -> Layout:
    """The same brokers under another design: `single` is the first alone; in the others all are primaries."""
    if design == "openclust":
        return msgspec.structs.replace(layout, design=design)
    if design == "single":
        return msgspec.structs.replace(layout, design=design, sites=layout.sites[:1], latency_us=((0,),))
    sites = tuple(msgspec.structs.replace(each, is_primary=True) for each in layout.sites)
    mode = "active-passive" if design == "active-passive" else layout.redirect.mode
    redirect = msgspec.structs.replace(layout.redirect, mode=mode)
    return msgspec.structs.replace(layout, design=design, sites=sites, redirect=redirect)
