"""The model of a cluster file that has been read."""

from __future__ import annotations

import msgspec

from openclust.shell.config_file import Loaded
from openclust.shell.config_lines import Path, line_of
from openclust.shell.config_topology import Place
from topology.address import host_of, is_wildcard
from topology.live import Live
from topology.model import Broker, Key, Link, Model, Node, Other

_OF_PLACE = [field.name for field in msgspec.structs.fields(Place)]


def build(loaded: Loaded, *, file: str = "", others: tuple[Other, ...] = (), live: Live | None = None) -> Model:
    """The model of a file. `others` are further files, `live` the cluster that runs by it."""
    config = loaded.config
    lines = next((each.lines for each in loaded.given.values() if each.lines), {})
    primaries = [
        _broker(name, entry, is_primary=True, line=line_of(lines, ("cluster", "primaries", name)))
        for name, entry in config.cluster.primaries.items()
    ]
    secondaries = [
        _broker(name, entry, is_primary=False, line=line_of(lines, ("topology", "secondaries", name)))
        for name, entry in config.topology.secondaries.items()
    ]
    twins = tuple(each for each in secondaries if each.name in config.cluster.primaries)
    brokers = (*primaries, *(each for each in secondaries if each.name not in config.cluster.primaries))
    nodes = tuple(
        Node(
            name=name,
            kind=each.kind,
            rack=each.rack,
            zone=each.zone,
            region=each.region,
            line=line_of(lines, ("topology", "nodes", name)),
        )
        for name, each in config.topology.nodes.items()
    )
    # A node that has a broker's name is told of by a rule; here the broker has it.
    keys = {each.name: each.key for each in nodes} | {each.name: each.key for each in brokers}
    links, strangers = _links(loaded, keys, lines)
    known = {each.name for each in brokers}
    strangers += [
        (name, f"topology.settings.{name}", line_of(lines, ("topology", "settings", name)))
        for name in config.topology.settings
        if name not in known
    ]
    return Model(
        config,
        file=file,
        brokers=brokers,
        nodes=nodes,
        links=tuple(links),
        strangers=tuple(strangers),
        twins=twins,
        others=others,
        live=live,
        lines=lines,
        is_blank=not loaded.is_written,
    )


def _broker(name: str, entry: Place, *, is_primary: bool, line: int) -> Broker:
    values = {field: getattr(entry, field) for field in _OF_PLACE}
    client, peer, http = (getattr(entry, kind) for kind in ("client", "peer", "http"))
    if not values["host"] and not is_wildcard(peer):
        values["host"] = host_of(peer)
    return Broker(name=name, is_primary=is_primary, client=client, peer=peer, http=http, line=line, **values)


def _links(
    loaded: Loaded, keys: dict[str, Key], lines: dict[Path, int]
) -> tuple[list[Link], list[tuple[str, str, int]]]:
    links: list[Link] = []
    strangers: list[tuple[str, str, int]] = []
    for index, each in enumerate(loaded.config.topology.links):
        line = line_of(lines, ("topology", "links", str(index)))
        unknown = [name for name in each.between if name not in keys]
        strangers += [(name, f"topology.links.{index}", line) for name in unknown]
        if unknown or len(each.between) != 2 or each.between[0] == each.between[1]:
            continue
        one, other = each.between
        links.append(
            Link(
                index=index,
                ends=(keys[one], keys[other]),
                latency_ms=each.latency_ms,
                bandwidth_mbit=each.bandwidth_mbit,
                loss=each.loss,
                line=line,
            )
        )
    return links, strangers
