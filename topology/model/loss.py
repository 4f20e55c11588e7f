"""What is left of a cluster when something fails: a broker, a failure domain, a physical node, a link."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, get_args

import msgspec
import networkx as nx  # type: ignore[import-untyped]

from topology.model.capacity import clients, connections, is_active_passive
from topology.model.graph import Model

LossKind = Literal["broker", "host", "rack", "zone", "region", "node", "link"]
LOSS_KINDS: tuple[LossKind, ...] = get_args(LossKind)

Outlook = Literal["elected", "stays", "none"]
"""After a loss: a root can be elected; a sitting root stays, because exactly half are left; or there is none."""

Pair = tuple[str, str]


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that fails, and everything that fails with it. `links` are indexes of the file's list."""

    kind: LossKind
    name: str
    brokers: frozenset[str] = frozenset()
    nodes: frozenset[str] = frozenset()
    links: frozenset[int] = frozenset()

    @property
    def text(self) -> str:
        return f"{self.kind} {self.name}"


class Aftermath(msgspec.Struct, frozen=True, kw_only=True):
    """What is left. `voters` are the primaries that a root would have, `cut_off` those that run and reach no voter.

    `is_sure`: an election succeeds for every order of seniority. Otherwise "elected" depends on who is the most senior.

    `moved` are the expected clients that must find another broker, `connections` what the others can take in all.
    In mode active-passive all clients are at the root. They all
    move if a primary can no longer be root, and `connections` is that of the smallest primary that still can.
    """

    root: Outlook
    is_sure: bool
    voters: tuple[str, ...]
    gone: tuple[str, ...]
    cut_off: tuple[str, ...]
    moved: int
    connections: int


def losses(model: Model, kinds: Iterable[LossKind] = LOSS_KINDS) -> Iterator[Loss]:
    """Each thing of these kinds that can fail by itself."""
    wanted = set(kinds)
    if "broker" in wanted:
        for name in model.brokers:
            yield Loss(kind="broker", name=name, brokers=frozenset((name,)))
    for domain in model.domains.values():
        if domain.kind in wanted:
            yield Loss(
                kind=domain.kind, name=domain.name, brokers=frozenset(domain.brokers), nodes=frozenset(domain.nodes)
            )
    if "node" in wanted:
        for name in model.nodes:
            yield Loss(kind="node", name=name, nodes=frozenset((name,)))
    if "link" in wanted:
        for link in model.links:
            yield Loss(kind="link", name=link.text, links=frozenset((link.index,)))


def aftermath(model: Model, *lost: Loss) -> Aftermath:
    """What is left after all of these have failed."""
    gone = frozenset().union(*(each.brokers for each in lost))
    reach = Reachability(
        model, frozenset().union(*(each.nodes for each in lost)), frozenset().union(*(each.links for each in lost))
    )
    up = [name for name in model.primaries if name not in gone]
    voters = _voters(reach, up)
    twice = 2 * len(voters)
    root: Outlook = "elected" if twice > len(model.primaries) else "stays" if twice == len(model.primaries) else "none"
    cut_off = tuple(
        name
        for name in model.brokers
        if name not in gone and name not in voters and not any(reach.reaches(each, name) for each in voters)
    )
    without = {*gone, *cut_off}
    expected = clients(model)
    takes = connections(model)
    moved = round(sum(expected[name] for name in without))
    left = sum(each for name, each in takes.items() if name not in without)
    if is_active_passive(model):
        can_be_root = _who_can_be_root(model, reach, up)
        is_fewer = len(can_be_root) < len(_who_can_be_root(model, Reachability(model), model.primaries))
        moved = model.config.topology.clients if is_fewer else 0
        left = min((takes[name] for name in can_be_root), default=0)
    return Aftermath(
        root=root if model.primaries else "none",
        is_sure=is_sure(reach, up, len(model.primaries)),
        voters=voters,
        gone=tuple(name for name in model.brokers if name in gone),
        cut_off=cut_off,
        moved=moved,
        connections=left,
    )


def _who_can_be_root(model: Model, reach: Reachability, up: Iterable[str]) -> list[str]:
    """Those of these primaries that reach at least half of the defined ones; a root that reaches fewer resigns."""
    up = list(up)
    heard = {name: sum(1 for each in up if each == name or reach.reaches(name, each)) for name in up}
    return [name for name in up if 2 * heard[name] >= len(model.primaries)]


def is_sure(reach: Reachability, up: list[str], defined: int) -> bool:
    """Whether these primaries elect a root whoever is more senior than whom.

    Each votes for the most senior that it hears, and who stands needs the votes of all that it hears, which must be
    more than half of the defined ones. One that hears fewer can never be elected, and where it is more senior, it
    keeps the votes of all that hear it from others. Any two that hear more than half have one in common that both
    hear, so that of these the most senior is elected, unless a vote is kept from it in that way.
    """
    heard = {name: {each for each in up if each == name or reach.reaches(name, each)} for name in up}
    can_win = [name for name in up if 2 * len(heard[name]) > defined]
    cannot = {name for name in up if name not in can_win}
    return bool(can_win) and not any(heard[voter] & cannot for name in can_win for voter in heard[name])


def _voters(reach: Reachability, up: list[str]) -> tuple[str, ...]:
    """The largest electorate: the primaries that one of these reaches, and itself."""
    best: tuple[str, ...] = ()
    for candidate in up:
        heard = tuple(name for name in up if name == candidate or reach.reaches(candidate, name))
        if len(heard) > len(best):
            best = heard
        if len(best) == len(up):
            break
    return best


class Reachability:
    """Which brokers reach each other after some nodes and links have failed."""

    def __init__(self, model: Model, nodes: frozenset[str] = frozenset(), links: frozenset[int] = frozenset()) -> None:
        self._routes = routes = model.routes
        self._links = links
        if not nodes and not links:
            self._networks = routes.networks_of
            return
        network_of = routes.network_of
        if not nodes.isdisjoint(network_of) or any(each.index in links for each in routes.trunks):
            network_of = self._parts(nodes)
        self._networks = {
            name: frozenset(network_of[node] for node, link in ways if node in network_of and link.index not in links)
            for name, ways in routes.access.items()
        }

    def _parts(self, nodes: frozenset[str]) -> dict[str, int]:
        """The number of the network that each physical node is part of."""
        left = nx.Graph()
        left.add_nodes_from(node for node in self._routes.network if node not in nodes)
        for link in self._routes.trunks:
            one, other = link.names
            if link.index not in self._links and one not in nodes and other not in nodes:
                left.add_edge(one, other)
        return {node: number for number, part in enumerate(nx.connected_components(left)) for node in part}

    def reaches(self, one: str, other: str) -> bool:
        """Whether there is a path between two running brokers."""
        none: frozenset[int] = frozenset()
        if self._networks.get(one, none) & self._networks.get(other, none):
            return True
        direct = self._routes.direct.get(frozenset((one, other)), ())
        return any(each.index not in self._links for each in direct) or self._routes.is_implied(one, other)
