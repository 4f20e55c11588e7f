"""Small clusters of all shapes, for hypothesis."""

from __future__ import annotations

import msgspec
from hypothesis import strategies as st

from openclust.cluster.protocol.redirect import Mode, Redirect
from openclust.shell.config.schema import Config, TopologySection
from topology.model.file_entries import Key, ListedBroker, ListedLink, ListedNode
from topology.model.graph import Model


def model_of(
    brokers: tuple[ListedBroker, ...],
    nodes: tuple[ListedNode, ...] = (),
    between: tuple[tuple[Key, Key], ...] = (),
    *,
    clients: int = 0,
    client_mbit: int = 0,
    mode: Mode = "balanced",
) -> Model:
    """A model without a file."""
    config = Config(cluster_key="test", name="p1")
    config = msgspec.structs.replace(
        config, topology=TopologySection(clients=clients, client_mbit=client_mbit), redirect=Redirect(mode=mode)
    )
    links = tuple(ListedLink(index=i, ends=ends, line=i + 1) for i, ends in enumerate(between))
    return Model(config, file="cluster.toml", brokers=brokers, nodes=nodes, links=links)


def broker(name: str, **of: object) -> ListedBroker:
    return msgspec.convert({"name": name, "is_primary": name.startswith("p"), **of}, ListedBroker)


@st.composite
def models(draw: st.DrawFn, *, primaries_max: int = 5, secondaries_max: int = 3) -> Model:
    """Up to so many brokers, with and without places, physical nodes and links."""
    names = [f"p{i + 1}" for i in range(draw(st.integers(0, primaries_max)))]
    names += [f"s{i + 1}" for i in range(draw(st.integers(0, secondaries_max)))]
    place = st.sampled_from(["", "a", "b", "c"])
    brokers = tuple(
        broker(
            name,
            host=draw(st.sampled_from(["", name, "h1", "h2"])),
            rack=draw(place),
            zone=draw(place),
            connections=draw(st.integers(0, 50)),
            bandwidth_mbit=draw(st.integers(0, 3)),
            weight=draw(st.integers(0, 3)),
        )
        for name in names
    )
    nodes = tuple(
        ListedNode(name=f"n{i + 1}", zone=draw(place), rack=draw(place)) for i in range(draw(st.integers(0, 4)))
    )
    keys: list[Key] = [*(each.key for each in brokers), *(each.key for each in nodes)]
    ends = st.tuples(st.sampled_from(keys), st.sampled_from(keys)) if len(keys) > 1 else st.nothing()
    between = draw(st.lists(ends.filter(lambda pair: pair[0] != pair[1]), max_size=14)) if len(keys) > 1 else []
    return model_of(
        brokers,
        nodes,
        tuple(between),
        clients=draw(st.integers(0, 200)),
        client_mbit=draw(st.integers(0, 8)),
        mode=draw(st.sampled_from(["balanced", "active-passive"])),
    )
