"""Builds the model of a cluster file that has been read."""

from __future__ import annotations

import msgspec

from openclust.shell.config.keys import KeyPath
from openclust.shell.config.load import Loaded, line_of
from openclust.shell.config.schema import Place, Primary, Secondary
from topology.model.address import host_of, is_wildcard, names_of, spelled
from topology.model.file_entries import Key, ListedBroker, ListedLink, ListedNode
from topology.model.graph import Model, Other
from topology.model.live_cluster import Live
from topology.model.resolving import Resolved

_OF_PLACE = [field.name for field in msgspec.structs.fields(Place)]


def build(
    loaded: Loaded,
    *,
    file: str = "",
    others: tuple[Other, ...] = (),
    live: Live | None = None,
    resolved: Resolved | None = None,
) -> Model:
    """The model of a file. `others` are further files, `live` the cluster that runs by it, `resolved` what the resolver
    says of its names."""
    config = loaded.config
    certain = {name: found[0] for name, found in (resolved or {}).items() if len(found) == 1}
    names = names_of(hosts_of(loaded)) | certain
    lines = next((each.lines for each in loaded.given.values() if each.lines), {})
    primaries = [
        _broker(name, entry, names, is_primary=True, line=line_of(lines, ("cluster", "primaries", name)))
        for name, entry in config.cluster.primaries.items()
    ]
    secondaries = [
        _broker(name, entry, names, is_primary=False, line=line_of(lines, ("topology", "secondaries", name)))
        for name, entry in config.topology.secondaries.items()
    ]
    twins = tuple(each for each in secondaries if each.name in config.cluster.primaries)
    brokers = (*primaries, *(each for each in secondaries if each.name not in config.cluster.primaries))
    nodes = tuple(
        ListedNode(
            name=name,
            kind=each.kind,
            rack=each.rack,
            zone=each.zone,
            region=each.region,
            line=line_of(lines, ("topology", "nodes", name)),
        )
        for name, each in config.topology.nodes.items()
    )
    # A name that a broker and a node share means the broker; a rule reports it.
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
        names=names,
        resolved=resolved,
    )


def hosts_of(loaded: Loaded) -> list[list[str]]:
    """The hosts of each broker in their normal spelling: those of its addresses, and the `host` of its entry."""
    config = loaded.config
    entries: list[Primary | Secondary] = [*config.cluster.primaries.values(), *config.topology.secondaries.values()]
    return [
        [*(host_of(address) for address in (each.client, each.peer, each.http) if address), spelled(each.host)]
        for each in entries
    ]


def _broker(
    name: str, entry: Primary | Secondary, names: dict[str, str], *, is_primary: bool, line: int
) -> ListedBroker:
    values = {field: getattr(entry, field) for field in _OF_PLACE}
    client, peer, http = entry.client, entry.peer, entry.http
    if not values["host"] and not is_wildcard(peer):
        host = host_of(peer)
        values["host"] = names.get(host, host)
    return ListedBroker(name=name, is_primary=is_primary, client=client, peer=peer, http=http, line=line, **values)


def _links(
    loaded: Loaded, keys: dict[str, Key], lines: dict[KeyPath, int]
) -> tuple[list[ListedLink], list[tuple[str, str, int]]]:
    links: list[ListedLink] = []
    strangers: list[tuple[str, str, int]] = []
    for index, each in enumerate(loaded.config.topology.links):
        line = line_of(lines, ("topology", "links", str(index)))
        unknown = [name for name in each.between if name not in keys]
        strangers += [(name, f"topology.links.{index}", line) for name in unknown]
        if unknown or len(each.between) != 2 or each.between[0] == each.between[1]:
            continue
        one, other = each.between
        links.append(
            ListedLink(
                index=index,
                ends=(keys[one], keys[other]),
                latency_ms=each.latency_ms,
                bandwidth_mbit=each.bandwidth_mbit,
                loss=each.loss,
                line=line,
            )
        )
    return links, strangers
