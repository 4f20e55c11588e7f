"""OC3: which brokers reach each other, and by which and how many paths."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import combinations, pairwise

import networkx as nx  # type: ignore[import-untyped]

from topology.model.graph import Model
from topology.model.loss import Aftermath, Loss, Reachability, aftermath, losses
from topology.model.words import few
from topology.rules.finding import Found, Severity
from topology.rules.rule import rule


@rule(
    "OC301",
    Severity.ERROR,
    title="Primaries that are not all connected with each other",
    why="Every primary must hear every other. Where two do not, each counts the other as offline; which root they "
    "elect, and whether they do, hangs on who is the most senior.",
    fix="Add the link, or a way through the physical nodes. Other brokers pass nothing on.",
)
def primaries_apart(model: Model) -> Iterator[Found]:
    for one, other in combinations(model.primaries, 2):
        if not model.routes.are_joined(one, other):
            yield Found(
                f"{one} and {other} have no way to each other",
                brokers=(one, other),
                links=((one, other),),
                alike="no way",
                subject=f"{one} and {other}",
            )


@rule(
    "OC302",
    Severity.ERROR,
    title="A secondary that does not reach every primary",
    why="Any primary may become root. When one does that a secondary cannot reach, the secondary is out of the "
    "cluster: its clients' shared queues stand still.",
    fix="Add the missing links, or a way through the physical nodes.",
)
def secondary_apart(model: Model) -> Iterator[Found]:
    for name in model.secondaries:
        missing = [each for each in model.primaries if not model.routes.are_joined(each, name)]
        if missing:
            yield Found(
                f"{name} has no way to {few(missing)}",
                brokers=(name, *missing),
                links=tuple((each, name) for each in missing),
                alike=few(missing),
                subject=name,
            )


@rule(
    "OC303",
    Severity.WARNING,
    title="A secondary linked to a secondary",
    why="Secondaries do not link to each other, and refuse it; what goes between them goes through the root.",
    fix="Take the link out. Where it is a cable, name the switch or network that it goes to.",
)
def secondaries_linked(model: Model) -> Iterator[Found]:
    for link in model.links:
        one, other = link.names
        if link.is_direct and one in model.secondaries and other in model.secondaries:
            yield Found(
                f"{one} and {other} are linked, and both are secondaries",
                brokers=(one, other),
                links=((one, other),),
                line=link.line,
                alike="linked",
                subject=f"{one} and {other}",
            )


@rule(
    "OC304",
    Severity.INFO,
    title="More than one network path between two primaries",
    why="One path at a time is what the cluster is made for: a second link between two brokers takes the place of the "
    "first. Spare paths are good where the network makes one of them (bonding, one routed network), so that it is up "
    "for all or for nobody.",
    fix="Leave it to the network to change paths, and give brokers one address each.",
)
def several_paths(model: Model) -> Iterator[Found]:
    for one, other in combinations(model.primaries, 2):
        if _has_several_paths(model, one, other):
            yield Found(
                f"more than one path lies between {one} and {other}",
                brokers=(one, other),
                links=((one, other),),
                alike="several",
                subject=f"{one} and {other}",
            )


def _has_several_paths(model: Model, one: str, other: str) -> bool:
    routes = model.routes
    direct = len(routes.direct.get(frozenset((one, other)), ()))
    ways = routes.access.get(one, ()), routes.access.get(other, ())
    if not all(ways) or not routes.networks_of[one] & routes.networks_of[other]:
        return direct > 1
    if direct:
        return True
    if all(len(each) == 1 for each in ways) and routes.is_forest:
        return False
    graph = routes.network.copy()
    doubled: set[frozenset[object]] = {frozenset(each) for each in routes.doubled}
    for name, each in ((one, ways[0]), (other, ways[1])):
        for node, _ in each:
            if graph.has_edge(("of", name), node):
                doubled.add(frozenset((("of", name), node)))
            graph.add_edge(("of", name), node)
    path = nx.shortest_path(graph, ("of", one), ("of", other))
    on_path = {frozenset(edge) for edge in pairwise(path)}
    bridges = {frozenset(edge) for edge in nx.bridges(graph)} - doubled
    return not on_path <= bridges


@rule(
    "OC305",
    Severity.WARNING,
    title="Paths that fail apart and give brokers different views",
    why="After this failure a primary hears two others that do not hear each other. One root at most serves all the "
    "same; but which is elected, and whether any is, hangs on seniority, and brokers go on seeing different clusters.",
    fix="Bring all primaries into one network, so that a failure cuts a broker off from all of the others or from "
    "none.",
)
def different_views(model: Model) -> Iterator[Found]:
    routes = model.routes
    wired = [name for name in model.primaries if name in routes.access]
    direct = {link for pair, links in routes.direct.items() for link in links if pair <= set(model.primaries)}
    is_plain = all(len(routes.access[name]) == 1 for name in wired) and not (direct and wired)
    if len(model.primaries) < 3 or is_plain:
        return
    nodes = {node for name in wired for node, _ in routes.access[name]} | set(nx.articulation_points(routes.network))
    for name in sorted(nodes):
        yield from _views(model, Loss(kind="node", name=name, nodes=frozenset((name,))))
    bridges = {frozenset(edge) for edge in nx.bridges(routes.network)}
    for link in model.links:
        kinds = {kind for kind, _ in link.ends}
        is_of_primary = any(name in model.primaries for name in link.names)
        if (kinds == {"node"} and frozenset(link.names) in bridges) or ("broker" in kinds and is_of_primary):
            yield from _views(model, Loss(kind="link", name=link.text, links=frozenset((link.index,))))


def _views(model: Model, loss: Loss) -> Iterator[Found]:
    reach = Reachability(model, loss.nodes, loss.links)
    before = Reachability(model)
    for one in model.primaries:
        heard = [each for each in model.primaries if each != one and reach.reaches(one, each)]
        for other, third in combinations(heard, 2):
            if not reach.reaches(other, third) and before.reaches(other, third):
                yield Found(
                    f"without {loss.text}, {one} hears {other} and {third}, which do not hear each other",
                    brokers=(one, other, third),
                    nodes=tuple(loss.nodes),
                    links=tuple(model.links_by_index[each].names for each in loss.links),
                    alike=" ".join(sorted((one, other, third))),
                    subject=f"without {loss.text}",
                )
                return


@lru_cache(maxsize=2)
def _points(model: Model) -> tuple[tuple[Loss, Aftermath], ...]:
    """The nodes, and the links between nodes, whose loss separates brokers; each with the aftermath."""
    routes = model.routes
    lost = []
    only_way = {node for ways in routes.access.values() for node, _ in ways if len({each for each, _ in ways}) == 1}
    for name in sorted(set(nx.articulation_points(routes.network)) | only_way):
        lost.append(Loss(kind="node", name=name, nodes=frozenset((name,))))
    bridges = {frozenset(edge) for edge in nx.bridges(routes.network)} - routes.doubled
    for link in routes.trunks:
        if frozenset(link.names) in bridges:
            lost.append(Loss(kind="link", name=link.text, links=frozenset((link.index,))))
    return tuple((each, aftermath(model, each)) for each in lost)


def _where(model: Model, loss: Loss) -> tuple[str, tuple[tuple[str, str], ...], int]:
    links = tuple(model.links_by_index[index].names for index in loss.links)
    if loss.nodes:
        node = model.nodes[loss.name]
        return f"{node.kind} {node.name}", links, node.line
    return f"the link {loss.name}", links, max(model.links_by_index[index].line for index in loss.links)


@rule(
    "OC306",
    Severity.ERROR,
    title="One physical node or link whose loss costs the quorum",
    why="When it fails, no set of primaries that reach each other is more than half of the defined: nobody can be "
    "elected, and shared queues stand still until it is repaired.",
    fix="Add a second way (a spare switch, a second trunk), or move primaries so that more than half stay together.",
)
def points_of_quorum(model: Model) -> Iterator[Found]:
    if len(model.primaries) < 2:
        return
    for loss, left in _points(model):
        if left.root == "elected":
            continue
        what, links, line = _where(model, loss)
        count = len(left.voters) if len(left.voters) > 1 else 0
        together = (
            f"only {count} of {len(model.primaries)} primaries reach each other"
            if count
            else "no primary reaches another"
        )
        half = ": exactly half, so that a root stays but none is made" if left.root == "stays" else ""
        yield Found(
            f"without {what} {together}{half}",
            brokers=model.primaries,
            nodes=tuple(loss.nodes),
            links=links,
            line=line,
        )


@rule(
    "OC309",
    Severity.ERROR,
    title="One failure domain whose switches and brokers together cost the quorum",
    why="Fewer than half of the primaries are in it, and none of its nodes alone is the only way. But they fail "
    "together: then the primaries outside of it do not reach each other, and nobody can be elected.",
    fix="Give the primaries outside a way to each other that does not lead through this rack, zone or region.",
)
def domains_of_quorum(model: Model) -> Iterator[Found]:
    count = len(model.primaries)
    if count < 2 or aftermath(model).root != "elected":
        return
    told = {name for loss, left in _points(model) if left.root != "elected" for name in loss.nodes}
    for loss in losses(model, ("rack", "zone", "region")):
        inside = sum(1 for name in loss.brokers if name in model.primaries)
        if loss.nodes and not loss.nodes & told and 2 * (count - inside) > count:
            left = aftermath(model, loss)
            if left.root != "elected":
                nodes = tuple(sorted(loss.nodes))
                few_left = len(left.voters) > 1
                count_left = f"only {len(left.voters)} of {count} primaries reach" if few_left else "no primary reaches"
                yield Found(
                    f"without {loss.text}, which has {few(nodes)}, {count_left} another",
                    brokers=model.primaries,
                    nodes=nodes,
                    line=max(model.nodes[name].line for name in nodes),
                )


@rule(
    "OC307",
    Severity.WARNING,
    title="One physical node or link whose loss cuts brokers off",
    why="The rest of the cluster goes on, and these brokers run on without it: their clients have no shared queues.",
    fix="Give these brokers a second way, or count their clients as moved when it fails (`openclust lint --survive "
    "1`).",
)
def points_of_brokers(model: Model) -> Iterator[Found]:
    if len(model.brokers) < 2:
        return
    before = set(aftermath(model).cut_off)
    for loss, left in _points(model):
        cut_off = tuple(name for name in left.cut_off if name not in before)
        if left.root != "elected" or not cut_off:
            continue
        what, links, line = _where(model, loss)
        yield Found(
            f"without {what}, {few(cut_off)} cannot be reached",
            brokers=cut_off,
            nodes=tuple(loss.nodes),
            links=links,
            line=line,
        )


@rule(
    "OC308",
    Severity.INFO,
    title="A physical node that no link goes to",
    why="It is in nobody's way, so either links are missing or it is no part of this.",
    fix="List its links, or take it out.",
)
def idle_nodes(model: Model) -> Iterator[Found]:
    used = {key for link in model.links for key in link.ends}
    for node in model.nodes.values():
        if node.key not in used:
            yield Found(
                f"no link goes to {node.kind} {node.name}",
                nodes=(node.name,),
                line=node.line,
                alike="idle",
                subject=f"{node.kind} {node.name}",
            )
