"""Places of brokers and nodes: hosts, racks in their zones, zones in their regions.

A name is unique only within the place around it: rack r1 of zone Frankfurt and rack r1 of zone Amsterdam are two
racks. Spaces around a name and capitals make no difference.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Literal

import msgspec

from topology.model.address import spelled
from topology.model.file_entries import Key, ListedBroker, ListedNode

DomainKind = Literal["host", "rack", "zone", "region"]
DOMAIN_KINDS: tuple[DomainKind, ...] = ("host", "rack", "zone", "region")

AROUND: dict[DomainKind, tuple[DomainKind, ...]] = {
    "host": (),
    "rack": ("zone", "region"),
    "zone": ("region",),
    "region": (),
}
"""The kinds of places around each kind. A host is known by its address, whatever rack the file gives it."""

Names = tuple[str, ...]
"""The name of a domain and those of the places around it, from the inside to the outside, in normal spelling."""
Path = tuple[DomainKind, Names]
Spellings = tuple[tuple[str, tuple[Key, ...]], ...]
Around = tuple[str, str]
"""The region and the zone that a rack is in, in normal spelling; empty if not known."""


class Domain(msgspec.Struct, frozen=True, kw_only=True):
    """A failure domain, which fails as a whole: a host, a rack, a zone, a region.

    `name` is unique among the domains of its kind, `label` within the place around it. `spellings` are those in the
    file, each with the brokers and nodes that use it, the most frequent first.
    """

    kind: DomainKind
    name: str
    label: str
    brokers: tuple[str, ...]
    nodes: tuple[str, ...]
    spellings: Spellings

    @property
    def key(self) -> Key:
        return (self.kind, self.name)

    @property
    def text(self) -> str:
        return f"{self.kind} {self.name}"


class Places:
    """All failure domains of a file. If one entry tells the zone of a rack, the whole rack is in it."""

    def __init__(self, things: Iterable[ListedBroker | ListedNode]) -> None:
        listed = list(things)
        around = _around(listed)
        members: dict[Path, list[tuple[Key, str]]] = {}
        self._paths: dict[Key, tuple[Path, ...]] = {}
        for each in listed:
            region, zone = around[each.key]
            written = {kind: getattr(each, kind, "") for kind in DOMAIN_KINDS}
            names: dict[DomainKind, Names] = {
                "region": (region,),
                "zone": (zone, region),
                "rack": (one_spelling(written["rack"]), zone, region),
                "host": (spelled(one_spelling(written["host"])),),
            }
            self._paths[each.key] = tuple(path for path in names.items() if path[1][0])
            for path in self._paths[each.key]:
                members.setdefault(path, []).append((each.key, written[path[0]]))
        self.domains: dict[Key, Domain] = {}
        """By kind and name, the smallest kinds first."""
        self._by_path: dict[Path, Domain] = {}
        spellings = {path: _spellings(path, those) for path, those in members.items()}
        alike: dict[tuple[DomainKind, str], list[Names]] = {}
        for kind, path_names in members:
            alike.setdefault((kind, path_names[0]), []).append(path_names)
        for path in sorted(members, key=lambda path: (DOMAIN_KINDS.index(path[0]), path[1])):
            label = spellings[path][0][0].strip()
            name = full = label + _told_apart(path, alike[path[0], path[1][0]], spellings)
            while (path[0], name) in self.domains:  # a name in the file may look like that itself
                name = f"{name} ({full})"
            keys = [key for key, _ in members[path]]
            domain = Domain(
                kind=path[0],
                name=name,
                label=label,
                brokers=tuple(name for kind, name in keys if kind == "broker"),
                nodes=tuple(name for kind, name in keys if kind == "node"),
                spellings=spellings[path],
            )
            self.domains[domain.key] = self._by_path[path] = domain

    def of(self, thing: Key) -> tuple[Domain, ...]:
        """All domains that a broker or a node is in, the largest first."""
        return tuple(self._by_path[path] for path in self._paths[thing])

    def within(self, thing: Key, kind: DomainKind) -> Domain | None:
        """The host, rack, zone or region of a broker or node; None if it is not known."""
        return next((self._by_path[path] for path in self._paths[thing] if path[0] == kind), None)


def one_spelling(name: str) -> str:
    """The normal spelling of a name: single spaces, none around it, small letters, one form of Unicode."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def _told_apart(path: Path, alike: list[Names], spellings: dict[Path, Spellings]) -> str:
    """` of zone Frankfurt` if another rack has this name; with the region if there are two zones Frankfurt."""
    kind, names = path
    text = ""
    for depth, around in enumerate(AROUND[kind], start=1):
        if len(alike) > 1 and names[depth]:
            text += f" of {around} {spellings[around, names[depth:]][0][0].strip()}"
            alike = [other for other in alike if other[depth] == names[depth]]
    return text


def _spellings(path: Path, those: list[tuple[Key, str]]) -> Spellings:
    """The spellings of one place, the most frequent first. An entry that leaves the name out has no spelling."""
    users: dict[str, list[Key]] = {}
    for key, written in those:
        if written:
            users.setdefault(written, []).append(key)
    if not users:
        users[path[1][0]] = []
    return tuple((each, tuple(users[each])) for each in sorted(users, key=lambda each: -len(users[each])))


def _around(listed: list[ListedBroker | ListedNode]) -> dict[Key, Around]:
    """The region and the zone of each entry: its own, or those that all other entries give its zone or rack."""
    told = {each.key: (one_spelling(each.region), one_spelling(each.zone)) for each in listed}
    racks = {each.key: one_spelling(each.rack) for each in listed}
    regions: dict[str, set[Around]] = {}
    for region, zone in told.values():
        if region and zone:
            regions.setdefault(zone, set()).add((region, zone))
    for key, (region, zone) in told.items():
        if zone and not region:
            told[key] = _the_only((region, zone), regions.get(zone, set()))
    zones: dict[str, set[Around]] = {}
    for key, rack in racks.items():
        if rack and any(told[key]):
            zones.setdefault(rack, set()).add(told[key])
    return {key: _the_only(told[key], zones.get(rack, set())) if rack else told[key] for key, rack in racks.items()}


def _the_only(own: Around, others: set[Around]) -> Around:
    """The entry's own region and zone, completed by those of the others if these agree."""
    fuller = {each for each in others if _adds(each, own)}
    fullest = [each for each in fuller if not any(_adds(other, each) for other in fuller)]
    return fullest[0] if len(fullest) == 1 else own


def _adds(one: Around, other: Around) -> bool:
    return one != other and all(its in ("", ours) for ours, its in zip(one, other, strict=True))
