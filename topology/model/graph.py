"""A cluster file as a graph: brokers, physical nodes, failure domains, and the links between them.

Nodes of the graph are pairs of kind and name, such as `("broker", "p1")`, because one name may be used twice. Edges
have a `kind`: "logical" between two brokers that (are to) link, "physical" for what is listed and ends at a physical
node, "in" from a broker or node to the failure domain it is in.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import msgspec
import networkx as nx  # type: ignore[import-untyped]

from openclust.shell.config.checks import setting_of
from openclust.shell.config.load import line_of
from openclust.shell.config.schema import Config
from topology.model.address import is_loopback
from topology.model.file_entries import Key, ListedBroker, ListedLink, ListedNode
from topology.model.live_cluster import Live
from topology.model.network_path import NetworkPath, Routes
from topology.model.place import Domain, Places
from topology.model.resolving import Resolved


class Other(msgspec.Struct, frozen=True):
    """Another file of the same command, to compare with this one."""

    file: str
    config: Config


class Model:
    """Made by `topology.model.building.build`; nothing changes it afterwards.

    `links` are those of the file whose two ends are known. `strangers` are names that nothing has, each with the place
    of its use and the line. `others` are the other files of the command.
    """

    def __init__(
        self,
        config: Config,
        *,
        file: str = "",
        brokers: tuple[ListedBroker, ...] = (),
        nodes: tuple[ListedNode, ...] = (),
        links: tuple[ListedLink, ...] = (),
        strangers: tuple[tuple[str, str, int], ...] = (),
        twins: tuple[ListedBroker, ...] = (),
        others: tuple[Other, ...] = (),
        live: Live | None = None,
        lines: dict[tuple[str, ...], int] | None = None,
        is_blank: bool = False,
        names: dict[str, str] | None = None,
        resolved: Resolved | None = None,
    ) -> None:
        self.config = config
        self.is_blank = is_blank
        """Whether the file has no key and no section."""
        self.names = names or {}
        """The IP address of each name, if it is known from the resolver, or from an entry that has both."""
        self.resolved = resolved
        """The resolver's answers; None if it was not asked."""
        self.file = file
        self.brokers: dict[str, ListedBroker] = {each.name: each for each in brokers}
        self.primaries = tuple(each.name for each in brokers if each.is_primary)
        self.secondaries = tuple(each.name for each in brokers if not each.is_primary)
        self.nodes: dict[str, ListedNode] = {each.name: each for each in nodes}
        self.links = links
        self.strangers = strangers
        self.twins = twins
        """Secondaries with the name of a primary. They are not in `brokers`."""
        self.others = others
        self.live = live
        """The running cluster, as one of its brokers sees it, to be compared with the file."""
        self.lines = lines or {}

    @property
    def quorum(self) -> int:
        """The number of primaries that elect a root: more than half of the defined ones."""
        return len(self.primaries) // 2 + 1

    def line(self, *path: str) -> int:
        """The line of a key in the file, or of the nearest section around it; 0 if there is none."""
        return line_of(self.lines, path)

    def setting(self, broker: str, dotted: str) -> object:
        """A setting of this broker: its own, or that of the file."""
        return setting_of(self.config, broker, dotted)

    @cached_property
    def is_local(self) -> bool:
        """Whether all brokers are on the loopback: a cluster on one machine, to try things out."""
        told = [each.peer or each.client for each in self.brokers.values() if each.peer or each.client]
        return all(is_loopback(each) for each in told)

    @cached_property
    def links_by_index(self) -> dict[int, ListedLink]:
        return {each.index: each for each in self.links}

    @cached_property
    def places(self) -> Places:
        return Places((*self.brokers.values(), *self.nodes.values()))

    @property
    def domains(self) -> dict[Key, Domain]:
        """All failure domains by kind and name, the smallest kinds first."""
        return self.places.domains

    @cached_property
    def routes(self) -> Routes:
        return Routes(self.brokers, self.nodes, self.links)

    def route(self, one: str, other: str) -> NetworkPath | None:
        """The path from one broker to another; None if there is none."""
        return self.routes.between(one, other)

    def logical_pairs(self) -> Iterator[tuple[str, str]]:
        """Each pair of brokers that is to link: primaries with each other, secondaries with every primary."""
        for i, one in enumerate(self.primaries):
            for other in self.primaries[i + 1 :]:
                yield one, other
            for other in self.secondaries:
                yield one, other

    @cached_property
    def graph(self) -> nx.Graph:
        """The whole graph, for drawings. An edge has its listed `links`; `is_there` tells if its brokers can link."""
        graph = nx.Graph(name=self.config.cluster_key)
        for broker in self.brokers.values():
            graph.add_node(broker.key, kind="broker", of=broker)
        for node in self.nodes.values():
            graph.add_node(node.key, kind="node", of=node)
        for domain in self.domains.values():
            graph.add_node(domain.key, kind=domain.kind, of=domain)
            graph.add_edges_from(((("broker", each), domain.key) for each in domain.brokers), kind="in")
            graph.add_edges_from(((("node", each), domain.key) for each in domain.nodes), kind="in")
        for one, other in self.logical_pairs():
            is_there = self.routes.are_joined(one, other)
            graph.add_edge(("broker", one), ("broker", other), kind="logical", is_there=is_there, links=())
        for link in self.links:
            one_key, other_key = link.ends
            data = graph.get_edge_data(one_key, other_key, {})
            kind = "logical" if link.is_direct else "physical"
            graph.add_edge(one_key, other_key, kind=kind, is_there=True, links=(*data.get("links", ()), link))
        return graph
