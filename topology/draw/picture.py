"""The contents of a picture, without places and shapes: boxes in boxes, cards in boxes, edges between cards."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypeVar

import msgspec

from topology.model.address import host_of, spelled
from topology.model.file_entries import Key, ListedBroker, ListedLink, ListedNode
from topology.model.graph import Model
from topology.model.place import DomainKind
from topology.model.words import number
from topology.rules.finding import FileReport, Finding, Severity

ALONE_MAX = 60
"""At most so many brokers are drawn one by one. With more, equal brokers in one place are one card."""

MESH_MAX = 5
"""If the file lists no links, all links between at most so many primaries are drawn."""

PAIRS_MAX = 24
"""At most so many pairs of a finding that have no link are drawn as lines."""

CardKind = Literal["primary", "secondary", "switch", "router", "network", "wan"]
EdgeKind = Literal["physical", "direct", "mesh", "pair"]
Path = tuple[tuple[DomainKind, str], ...]
_K = TypeVar("_K")


class Mark(msgspec.Struct, frozen=True):
    """The findings of one card or edge: the worst severity, and the ids."""

    severity: Severity
    codes: tuple[str, ...]


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """One broker or node, or several equal ones, with all their `names`."""

    id: int
    kind: CardKind
    title: str
    lines: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    mark: Mark | None = None

    @property
    def is_broker(self) -> bool:
        return self.kind in ("primary", "secondary")


class Box(msgspec.Struct, kw_only=True):
    """A failure domain; or the whole picture, which has no kind."""

    kind: str = ""
    name: str = ""
    boxes: dict[tuple[str, str], Box] = {}
    cards: list[Card] = []


class Edge(msgspec.Struct, frozen=True, kw_only=True):
    """A line between two cards. The kind `pair` is no link: a finding names these two."""

    one: int
    other: int
    kind: EdgeKind
    text: str = ""
    count: int = 1
    mark: Mark | None = None


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    title: str
    subtitle: str
    root: Box
    cards: tuple[Card, ...]
    edges: tuple[Edge, ...]
    findings: tuple[Finding, ...]
    is_mesh: bool
    """Whether the file lists no links: then all brokers reach each other, and only primaries have lines."""


def picture_of(model: Model, report: FileReport) -> Picture:
    marks = Marks(report.findings)
    root = Box()
    cards = _cards(model, marks, root)
    of: dict[Key, int] = {}
    for card in cards:
        of.update((("broker" if card.is_broker else "node", name), card.id) for name in card.names)
    edges = _edges(model, marks, of, cards)
    primaries, secondaries = len(model.primaries), len(model.secondaries)
    parts = [_count(primaries, "primary", "primaries"), _count(secondaries, "secondary", "secondaries")]
    if model.nodes:
        parts.append(_count(len(model.nodes), "physical node", "physical nodes"))
    if primaries:
        parts.append(f"{model.quorum} primaries elect a root" if primaries > 1 else "its own root")
    return Picture(
        title=model.config.cluster_key or "cluster",
        subtitle=" · ".join(parts),
        root=root,
        cards=tuple(cards),
        edges=tuple(edges),
        findings=report.findings,
        is_mesh=not model.links,
    )


class Marks:
    """The findings that are drawn, by the card or edge that they are about.

    Findings of severity info are only in the legend. A warning about links is drawn at the links, an error at the links
    and their brokers.
    """

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.brokers: dict[str, Mark] = {}
        self.nodes: dict[str, Mark] = {}
        self.pairs: dict[frozenset[str], Mark] = {}
        for finding in findings:
            if finding.severity is Severity.INFO:
                continue
            if finding.severity is Severity.ERROR or not finding.links:
                _add(self.brokers, finding, finding.brokers)
            _add(self.nodes, finding, finding.nodes)
            _add(self.pairs, finding, (frozenset(pair) for pair in finding.links))


def _add(marks: dict[_K, Mark], finding: Finding, keys: Iterable[_K]) -> None:
    for key in keys:
        known = marks.get(key, Mark(finding.severity, ()))
        marks[key] = Mark(max(known.severity, finding.severity), tuple(sorted({*known.codes, finding.code})))


def _cards(model: Model, marks: Marks, root: Box) -> list[Card]:
    """All cards. Each is put into its box, too."""
    brokers = list(model.brokers.values())
    shared = _shared_hosts(brokers)
    groups: dict[tuple[Path, bool, Mark | None, str], list[ListedBroker]] = {}
    many = len(brokers) > ALONE_MAX
    for broker in brokers:
        path = _path(model, broker, with_host=broker.host in shared and not many)
        mark = marks.brokers.get(broker.name)
        is_alone = not many or (broker.is_primary and len(model.primaries) <= ALONE_MAX)
        groups.setdefault((path, broker.is_primary, mark, broker.name if is_alone else ""), []).append(broker)
    cards: list[Card] = []
    for (path, _, mark, _), alike in groups.items():
        card = _card_of(alike, len(cards), mark, shared)
        cards.append(card)
        _box(root, path).cards.append(card)
    for node in model.nodes.values():
        mark = marks.nodes.get(node.name)
        card = Card(id=len(cards), kind=node.kind, title=node.name, lines=(node.kind,), names=(node.name,), mark=mark)
        cards.append(card)
        _box(root, _path(model, node, with_host=False)).cards.append(card)
    return cards


def _shared_hosts(brokers: Sequence[ListedBroker]) -> set[str]:
    hosts = [each.host for each in brokers if each.host]
    return {host for host in hosts if hosts.count(host) > 1} if len(brokers) <= ALONE_MAX else set()


def _path(model: Model, each: ListedBroker | ListedNode, *, with_host: bool) -> Path:
    """The failure domains that a broker or node is in, the largest first."""
    domains = model.places.of(each.key)
    return tuple((domain.kind, domain.label) for domain in domains if with_host or domain.kind != "host")


def _box(root: Box, path: Path) -> Box:
    box = root
    for kind, name in path:
        box = box.boxes.setdefault((kind, name), Box(kind=kind, name=name))
    return box


def _card_of(alike: list[ListedBroker], number_: int, mark: Mark | None, shared: set[str]) -> Card:
    first = alike[0]
    kind: CardKind = "primary" if first.is_primary else "secondary"
    names = tuple(each.name for each in alike)
    if len(alike) > 1:
        title = f"{number(len(alike))} {'primaries' if first.is_primary else 'secondaries'}"
        return Card(id=number_, kind=kind, title=title, lines=(f"{names[0]} … {names[-1]}",), names=names, mark=mark)
    lines: list[str] = [kind]
    address = first.peer or first.client
    if address:
        lines.append(address)
    if first.host and first.host not in shared and host_of(address) != spelled(first.host):
        lines.append(f"host {first.host}")
    lines += capacity_of(first)
    return Card(id=number_, kind=kind, title=first.name, lines=tuple(lines), names=names, mark=mark)


def capacity_of(broker: ListedBroker) -> list[str]:
    """The broker's capacity, with two figures a line."""
    parts = []
    if broker.connections:
        parts.append(f"{number(broker.connections)} clients")
    if broker.memory_mb:
        parts.append(f"{number(broker.memory_mb)} MB")
    if broker.cores:
        parts.append(f"{broker.cores} cores")
    if broker.bandwidth_mbit:
        parts.append(speed_of(broker.bandwidth_mbit))
    return [" · ".join(parts[i : i + 2]) for i in range(0, len(parts), 2)]


def speed_of(mbit: float) -> str:
    return f"{mbit / 1000:.3g} Gbit/s" if mbit >= 1000 else f"{mbit:.3g} Mbit/s"


def _edges(model: Model, marks: Marks, of: dict[Key, int], cards: list[Card]) -> list[Edge]:
    merged: dict[tuple[int, int], list[ListedLink]] = {}
    for link in model.links:
        one, other = of[link.ends[0]], of[link.ends[1]]
        if one != other:
            merged.setdefault((min(one, other), max(one, other)), []).append(link)
    edges = []
    told: set[frozenset[str]] = set()
    for (one, other), links in merged.items():
        kind: EdgeKind = "direct" if links[0].is_direct else "physical"
        found = [mark for link in links if (mark := marks.pairs.get(frozenset(link.names))) is not None]
        told.update(frozenset(link.names) for link in links)
        edges.append(Edge(one=one, other=other, kind=kind, text=_told(links), count=len(links), mark=_worst(found)))
    pairs = {pair: mark for pair, mark in marks.pairs.items() if pair not in told and len(pair) == 2}
    drawn: dict[tuple[int, int], list[Mark]] = {}
    for pair, mark in sorted(pairs.items(), key=lambda each: (-each[1].severity, sorted(each[0]))):
        ends = sorted(of.get(("broker", name), of.get(("node", name), -1)) for name in pair)
        if ends[0] >= 0 and ends[0] != ends[1] and len(drawn) < PAIRS_MAX:
            drawn.setdefault((ends[0], ends[1]), []).append(mark)
    if not model.links:
        primaries = [card.id for card in cards if card.kind == "primary"]
        if len(primaries) <= MESH_MAX:
            mesh = [(one, other) for i, one in enumerate(primaries) for other in primaries[i + 1 :]]
            edges += [Edge(one=one, other=other, kind="mesh") for one, other in mesh if (one, other) not in drawn]
    edges += [Edge(one=one, other=other, kind="pair", mark=_worst(found)) for (one, other), found in drawn.items()]
    return edges


def _told(links: list[ListedLink]) -> str:
    """The text of links that are drawn as one; empty if they differ."""
    parts = []
    for values, text in (
        ({each.latency_ms for each in links}, lambda value: f"{value:.3g} ms"),
        ({each.bandwidth_mbit for each in links}, speed_of),
        ({each.loss for each in links}, lambda value: f"{value:.2%} lost"),
    ):
        (value, *others) = values
        if value and not others:
            parts.append(text(value))
    return " · ".join(parts)


def _worst(marks: list[Mark]) -> Mark | None:
    if not marks:
        return None
    codes = {code for each in marks for code in each.codes}
    return Mark(max(each.severity for each in marks), tuple(sorted(codes)))


def _count(count: int, one: str, many: str) -> str:
    return f"{number(count)} {one if count == 1 else many}"
