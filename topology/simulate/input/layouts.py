"""Layouts from cluster files, and resized ones."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import msgspec

from openclust.shell.config.checks import setting_of
from openclust.shell.config.schema import ConfigError
from topology.lint.check import read
from topology.model.building import build
from topology.model.file_entries import ListedBroker
from topology.model.graph import Model
from topology.model.network_path import IMPLIED
from topology.simulate.input.layout import Design, Layout, Site, as_design

LATENCY_US = 100
"""One way between two brokers of which the file does not say how far they are from each other: one site's network."""


def read_model(path: str | Path) -> Model:
    """The model of a cluster file. Raises ConfigError if it cannot be used, or has no primaries."""
    model = build(read(path), file=str(path))
    if not model.primaries:
        raise ConfigError(f"{path}: there is no primary in it ([cluster.primaries.NAME]): nobody to be root")
    return model


def layout_of_model(model: Model, design: Design = "openclust") -> Layout:
    """The brokers of a cluster file, primaries first, in the file's order."""
    names = (*model.primaries, *model.secondaries)
    table = [[_latency_us(model, one, other) for other in names] for one in names]
    layout = Layout(
        sites=tuple(_site(model, model.brokers[name]) for name in names),
        latency_us=tuple(tuple(row) for row in table),
        redirect=model.config.redirect,
        cluster_key=model.config.cluster_key or "simulated",
    )
    return as_design(layout, design)


def resized(layout: Layout, primaries: int, secondaries: int) -> Layout:
    """The layout with so many brokers of each kind: the first ones, and copies of the last one if there are too few."""
    firsts = [number for number, each in enumerate(layout.sites) if each.is_primary]
    others = [number for number, each in enumerate(layout.sites) if not each.is_primary]
    chosen = [*_stretched(firsts, primaries), *_stretched(others or firsts, secondaries)]
    usual = round(median(far)) if (far := [us for row in layout.latency_us for us in row if us]) else LATENCY_US
    sites: list[Site] = []
    origins: list[int | None] = []
    used = {each.name for each in layout.sites}
    for place, number in enumerate(chosen):
        is_primary = place < primaries
        site = layout.sites[number]
        is_itself = site.is_primary is is_primary and number not in origins
        if not is_itself:
            name = _new_name("p" if is_primary else "s", used)
            used.add(name)
            site = msgspec.structs.replace(site, name=name, is_primary=is_primary, host="")
        sites.append(site)
        origins.append(number if is_itself else None)
    table = tuple(tuple(_far(layout, i, j, a, b, usual) for j, b in enumerate(origins)) for i, a in enumerate(origins))
    return msgspec.structs.replace(layout, sites=tuple(sites), latency_us=table)


def _far(layout: Layout, i: int, j: int, one: int | None, other: int | None, usual: int) -> int:
    if i == j:
        return 0
    return usual if one is None or other is None else layout.latency_us[one][other]


def _stretched(numbers: list[int], count: int) -> list[int]:
    return [*numbers[:count], *[numbers[-1]] * (count - len(numbers))]


def _new_name(letter: str, used: set[str]) -> str:
    number = 1
    while f"{letter}{number}" in used:
        number += 1
    return f"{letter}{number}"


def _site(model: Model, broker: ListedBroker) -> Site:
    own = setting_of(model.config, broker.name, "redirect.weight")
    return Site(
        name=broker.name,
        is_primary=broker.is_primary,
        weight=broker.weight or own,
        host=broker.host,
        cores=broker.cores,
        memory_mb=broker.memory_mb,
        bandwidth_mbit=broker.bandwidth_mbit,
    )


def _latency_us(model: Model, one: str, other: str) -> int:
    """The latency between two brokers; between secondaries, which have no link, by way of a primary."""
    if one == other:
        return 0
    direct = _of_route(model, one, other)
    if direct is not None:
        return direct
    through = [
        first + second
        for each in model.primaries
        if each not in (one, other)
        and (first := _of_route(model, one, each)) is not None
        and (second := _of_route(model, each, other)) is not None
    ]
    return min(through, default=2 * LATENCY_US)


def _of_route(model: Model, one: str, other: str) -> int | None:
    route = model.route(one, other)
    if route is None:
        return None
    return LATENCY_US if route is IMPLIED or not route.latency_ms else round(route.latency_ms * 1000)
