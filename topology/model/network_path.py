"""Paths between brokers: through physical nodes, never through another broker.

A file need not list links. A secondary without a listed link reaches every primary. Two primaries reach each other if
one of them has no listed link to a primary or a physical node.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import pairwise

import msgspec
import networkx as nx  # type: ignore[import-untyped]

from topology.model.file_entries import ListedBroker, ListedLink


class NetworkPath(msgspec.Struct, frozen=True, kw_only=True):
    """The fastest path between two brokers. `through` are physical nodes, `links` indexes of the file's list.

    An implied path has neither. The bandwidth is that of the narrowest link; 0 if the file gives that of none.
    """

    latency_ms: float = 0
    bandwidth_mbit: float = 0
    loss: float = 0
    through: tuple[str, ...] = ()
    links: tuple[int, ...] = ()


IMPLIED = NetworkPath()


class Routes:
    """All paths between the brokers of one file. A computed path is kept."""

    def __init__(self, brokers: Mapping[str, ListedBroker], nodes: Iterable[str], links: Iterable[ListedLink]) -> None:
        self._brokers = brokers
        self.direct: dict[frozenset[str], list[ListedLink]] = {}
        """The links between each two brokers."""
        self.access: dict[str, list[tuple[str, ListedLink]]] = {}
        """For each broker its links to physical nodes."""
        self.network = nx.Graph()
        """The graph of the physical nodes. An edge has the fastest `link` between its nodes."""
        self.network.add_nodes_from(nodes)
        self.trunks: list[ListedLink] = []
        self.doubled: set[frozenset[str]] = set()
        """Pairs of physical nodes with more than one link."""
        for link in links:
            self._add(link)
        self.is_forest = not self.doubled and (not self.network or nx.is_forest(self.network))
        """Whether there is at most one path between any two physical nodes."""
        self.network_of: dict[str, int] = {}
        """The number of the connected network of each physical node."""
        for number, part in enumerate(nx.connected_components(self.network)):
            self.network_of.update(dict.fromkeys(part, number))
        self.networks_of = {
            name: frozenset(self.network_of[node] for node, _ in ways) for name, ways in self.access.items()
        }
        primaries = {name for name, broker in brokers.items() if broker.is_primary}
        with_direct = {name for pair in self.direct if len(pair & primaries) == 2 for name in pair}
        self._wired_primaries = (with_direct | set(self.access)) & primaries
        self._wired = {name for pair in self.direct for name in pair} | set(self.access)
        self._found: dict[str, dict[str, NetworkPath]] = {}

    def _add(self, link: ListedLink) -> None:
        (one_kind, one), (other_kind, other) = link.ends
        if one_kind == other_kind == "broker":
            self.direct.setdefault(frozenset((one, other)), []).append(link)
        elif one_kind == other_kind:
            self.trunks.append(link)
            known = self.network.get_edge_data(one, other)
            if known is not None:
                self.doubled.add(frozenset((one, other)))
            if known is None or link.latency_ms < known["latency_ms"]:
                self.network.add_edge(one, other, link=link, latency_ms=link.latency_ms)
        else:
            broker, node = (one, other) if one_kind == "broker" else (other, one)
            self.access.setdefault(broker, []).append((node, link))

    def is_implied(self, one: str, other: str) -> bool:
        """Whether the two reach each other because the file lists no links for them."""
        primaries = self._brokers[one].is_primary, self._brokers[other].is_primary
        if all(primaries):
            return not {one, other} <= self._wired_primaries
        if not any(primaries):
            return False
        secondary = other if primaries[0] else one
        return secondary not in self._wired

    def are_joined(self, one: str, other: str) -> bool:
        """Whether there is any path between the two."""
        none: frozenset[int] = frozenset()
        return (
            frozenset((one, other)) in self.direct
            or bool(self.networks_of.get(one, none) & self.networks_of.get(other, none))
            or self.is_implied(one, other)
        )

    def between(self, one: str, other: str) -> NetworkPath | None:
        """The fastest path; None if there is none."""
        if self._brokers[other].is_primary and not self._brokers[one].is_primary:
            one, other = other, one
        ways = [
            NetworkPath(
                latency_ms=each.latency_ms, bandwidth_mbit=each.bandwidth_mbit, loss=each.loss, links=(each.index,)
            )
            for each in self.direct.get(frozenset((one, other)), ())
        ]
        if one in self.access and other in self.access:
            if one not in self._found:
                self._found[one] = self._from(one)
            through = self._found[one].get(other)
            ways += [through] if through is not None else []
        if ways:
            return min(ways, key=lambda way: (way.latency_ms, way.links))
        return IMPLIED if self.is_implied(one, other) else None

    def _from(self, start: str) -> dict[str, NetworkPath]:
        """The paths from one broker to all others through the physical network."""
        network = self.network
        origin = ("from", start)
        network.add_node(origin)
        first: dict[str, ListedLink] = {}
        for node, link in self.access[start]:
            if node not in first or link.latency_ms < first[node].latency_ms:
                first[node] = link
                network.add_edge(origin, node, link=link, latency_ms=link.latency_ms)
        try:
            far, paths = nx.single_source_dijkstra(network, origin, weight="latency_ms")
            links_to = {node: self._links_along(path) for node, path in paths.items() if node != origin}
        finally:
            network.remove_node(origin)
        found: dict[str, NetworkPath] = {}
        for name, ways in self.access.items():
            reached = [(far[node] + link.latency_ms, node, link) for node, link in ways if node in links_to]
            if name != start and reached:
                _, node, last = min(reached, key=lambda way: (way[0], way[1], way[2].index))
                found[name] = _route((*links_to[node], last), tuple(paths[node][1:]))
        return found

    def _links_along(self, path: list[str]) -> tuple[ListedLink, ...]:
        return tuple(self.network.edges[one, other]["link"] for one, other in pairwise(path))


def _route(links: tuple[ListedLink, ...], through: tuple[str, ...]) -> NetworkPath:
    return NetworkPath(
        latency_ms=math.fsum(each.latency_ms for each in links),
        bandwidth_mbit=min((each.bandwidth_mbit for each in links if each.bandwidth_mbit), default=0),
        loss=1 - math.prod(1 - each.loss for each in links),
        through=through,
        links=tuple(each.index for each in links),
    )
