"""Compares several files: the copies that the brokers of one cluster have, or the files of several clusters."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from openclust.shell.config.checks import setting_of, value_of
from openclust.shell.config.keys import KEYS, PATHS, is_nested
from openclust.shell.config.schema import Config
from topology.model.address import normal
from topology.model.words import few

KINDS = ("client", "peer", "http")

HEARTBEAT, SECRET = "cluster.heartbeat_ms", "cluster.secret"

OWN = (
    *("name", "listen.", "tls.", "http.", "metrics.", "log.", "trace.", "topology.", "redirect.weight"),
    *("cluster.data_dir", "cluster.peer_", "cluster.client_", "cluster.join"),
)
"""Settings that are meant to differ between brokers."""

VALUE_SHOWN_MAX = 40


def addresses(config: Config) -> dict[str, tuple[str, str, str]]:
    """The addresses of all brokers in normal spelling, each with its broker, kind, and text in the file."""
    entries = (*config.cluster.primaries.items(), *config.topology.secondaries.items())
    return {
        normal(address): (name, kind, address)
        for name, entry in entries
        for kind in KINDS
        if (address := getattr(entry, kind))
    }


def have_primaries(one: Config, other: Config) -> bool:
    return bool(one.cluster.primaries and other.cluster.primaries)


def are_copies(one: Config, other: Config) -> bool:
    """Whether two files are of one cluster: they have the same cluster key, and a primary's address in common.

    Two clusters with the same key are another mistake.
    """
    if one.cluster_key != other.cluster_key:
        return False
    ours, theirs = ({normal(each.peer) for each in config.cluster.primaries.values()} for config in (one, other))
    return not ours.isdisjoint(theirs)


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """A setting that differs in two copies. `path` are the names of its section and key.

    `is_refused`: brokers with the two files do not link, or go to the wrong place. Otherwise
    clients are treated differently, depending on which broker is root.
    """

    what: str
    here: str
    there: str
    path: tuple[str, ...]
    brokers: tuple[str, ...] = ()
    is_refused: bool = True


def differences(one: Config, other: Config) -> Iterator[Difference]:
    """The settings that differ in two copies of a file."""
    ours, theirs = one.cluster.primaries, other.cluster.primaries
    if ours.keys() != theirs.keys():
        yield Difference(
            what="the list of primaries",
            here=few(sorted(ours)),
            there=few(sorted(theirs)),
            path=("cluster", "primaries"),
            brokers=tuple(sorted(ours.keys() - theirs.keys())),
        )
    common = sorted(ours.keys() & theirs.keys())
    for name in common:
        for kind in KINDS:
            here, there = getattr(ours[name], kind), getattr(theirs[name], kind)
            if normal(here) != normal(there):
                yield Difference(
                    what=f"the {kind} address of {name}",
                    here=here or "missing",
                    there=there or "missing",
                    path=("cluster", "primaries", name, kind),
                    brokers=(name,),
                )
    yield from _settings(one, other, common)


def _settings(one: Config, other: Config, primaries: list[str]) -> Iterator[Difference]:
    beats = {name: [setting_of(each, name, HEARTBEAT) for each in (one, other)] for name in primaries}
    if odd := [name for name, (here, there) in beats.items() if here != there]:
        here, there = beats[odd[0]]
        yield Difference(
            what=HEARTBEAT, here=str(here), there=str(there), path=tuple(HEARTBEAT.split(".")), brokers=tuple(odd)
        )
    if one.cluster.secret != other.cluster.secret and one.cluster.secret and other.cluster.secret:
        yield Difference(what=SECRET, here="one", there="another", path=tuple(SECRET.split(".")))
    for dotted, key in KEYS.items():
        if is_nested(key.type) or dotted in (HEARTBEAT, SECRET, *PATHS) or dotted.startswith(OWN):
            continue
        mine, its = value_of(one, dotted), value_of(other, dotted)
        if mine != its:
            yield Difference(
                what=dotted,
                here=str(mine)[:VALUE_SHOWN_MAX],
                there=str(its)[:VALUE_SHOWN_MAX],
                path=tuple(dotted.split(".")),
                is_refused=False,
            )
