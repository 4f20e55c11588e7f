"""Which failures a cluster survives: all combinations of up to a number, and the smallest that it does not survive."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

import msgspec

from topology.model.graph import Model
from topology.model.loss import LOSS_KINDS, Loss, LossKind, losses
from topology.survive.reach import Blow, ClusterInBits, Left
from topology.survive.smallest import smallest_against_root, smallest_without_room

COMBINATIONS_MAX = 1_000_000
"""The most combinations of one run, some ten seconds. If there are more, so many are drawn at random."""

DRAWN_MIN = 10_000
SEED = 1
SHOWN_MAX = 5


class PossibleFailure(msgspec.Struct, frozen=True):
    """A possible failure. `same` are others with the same effect, such as that of a host with one broker."""

    kind: LossKind
    text: str
    blow: Blow
    same: tuple[str, ...] = ()


class Rest(msgspec.Struct, frozen=True):
    """The remaining connections, and memory and bandwidth if the file tells those of all brokers."""

    root: str
    is_sure: bool
    moved: int
    connections: int
    memory_mb: int | None
    mbit: float | None
    has_room: bool


class CombinationGroup(msgspec.Struct, kw_only=True):
    """All combinations of the same kinds.

    `elected` counts those after which an election succeeds for every order of seniority, `by_seniority` for some.
    `no_room` counts those with a root and too little room for the clients. The rest, and the number of clients that
    move, are those of the worst combination, for each quantity.
    """

    kinds: tuple[LossKind, ...]
    looked_at: int = 0
    elected: int = 0
    by_seniority: int = 0
    stays: int = 0
    none: int = 0
    no_room: int = 0
    moved: int = 0
    connections: int = 0
    memory_mb: int | None = None
    mbit: float | None = None
    worst: tuple[str, ...] = ()


class CombinationCount(msgspec.Struct, frozen=True):
    """How many combinations of a size there are, and how many were checked: all, or a random sample."""

    failures: int
    total: int
    looked_at: int

    @property
    def is_sampled(self) -> bool:
        return self.looked_at < self.total


class Smallest(msgspec.Struct, frozen=True):
    """The fewest failures with some effect. `sets` are examples; `count` is None if not all are known.

    If `at_least` is less than the size of the sets, fewer failures may do, but not less than `at_least`.
    """

    at_least: int
    sets: tuple[tuple[str, ...], ...] = ()
    count: int | None = None

    @property
    def size(self) -> int | None:
        return len(self.sets[0]) if self.sets else None

    @property
    def is_exact(self) -> bool:
        return self.size == self.at_least


class Survival(msgspec.Struct, frozen=True, kw_only=True):
    """The whole result. The worst groups come first.

    `no_election`: after these no new root can be elected, though a sitting root may stay (exactly half).
    `by_seniority`: after these it depends on who is the most senior; None if no such combination was checked.
    `no_root`: no root is left.
    `no_room`: there is a root, and too little room for the clients. Each is None if no number of such failures has
    the effect.
    `is_active_passive`: all clients go to the root, so that what is left is what the smallest primary bears that can
    still be root.
    `required` failures are to leave a root that is elected for sure, 0 where nobody asked for it; `shortfall` is why
    they do not, empty where they do.
    """

    most: int
    kinds: tuple[LossKind, ...]
    primaries: int
    brokers: int
    clients: int
    client_mbit: int
    is_active_passive: bool
    failures: int
    same: tuple[tuple[str, ...], ...]
    before: Rest
    sizes: tuple[CombinationCount, ...]
    seed: int | None
    groups: tuple[CombinationGroup, ...]
    no_election: Smallest | None
    by_seniority: Smallest | None
    no_root: Smallest | None
    no_room: Smallest | None
    required: int = 0
    shortfall: str = ""


def survive(
    model: Model,
    most: int,
    *,
    kinds: Iterable[LossKind] = LOSS_KINDS,
    combinations_max: int = COMBINATIONS_MAX,
    seed: int = SEED,
    required: int = 0,
) -> Survival:
    """Every combination of up to `most` failures of these kinds; drawn by `seed` where there are too many.

    So many as are `required` are looked at in any case.
    """
    most = max(most, required)
    wanted = tuple(kind for kind in LOSS_KINDS if kind in set(kinds))
    cluster = ClusterInBits(model)
    table = Table(model, cluster, failures_of(cluster, losses(model, wanted)))
    sizes = table.fill(most, combinations_max, random.Random(seed))
    found = Survival(
        most=most,
        kinds=wanted,
        primaries=len(model.primaries),
        brokers=len(model.brokers),
        clients=model.config.topology.clients,
        client_mbit=model.config.topology.client_mbit,
        is_active_passive=cluster.is_active_passive,
        failures=len(table.failures),
        same=tuple((each.text, *each.same) for each in table.failures if each.same),
        before=table.rest(cluster.left(0, 0)),
        sizes=sizes,
        seed=seed if any(each.is_sampled for each in sizes) else None,
        groups=tuple(sorted(table.groups.values(), key=_how_bad)),
        no_election=table.smallest("no_election", sizes),
        by_seniority=table.by_seniority(),
        no_root=table.smallest("no_root", sizes),
        no_room=table.smallest("no_room", sizes),
    )
    if not required:
        return found
    return msgspec.structs.replace(
        found, required=required, shortfall=_shortfall(found, required, has_links=bool(model.links))
    )


def _shortfall(found: Survival, required: int, *, has_links: bool) -> str:
    """Why so many failures may leave no root, as the end of a sentence; empty if they never do."""
    for smallest, what in (
        (found.no_election, "no root can be elected"),
        (found.by_seniority, "it hangs on seniority"),
    ):
        if smallest is None or smallest.at_least > required:
            continue
        if not smallest.at_least:
            return f"even before anything fails {what}"
        shown = smallest.sets[0] if smallest.sets else ()
        if len(shown) <= required:
            return f"{what} after {' + '.join(shown)}"
        return f"it is not known whether {what} after {smallest.at_least} failures"
    # Without links all running primaries hear each other, and a search finds the failures that end the quorum.
    if has_links and any(each.is_sampled and each.failures <= required for each in found.sizes):
        return "not every combination was looked at: raise --survive-max, or choose fewer --survive-kinds"
    return ""


def failures_of(cluster: ClusterInBits, found: Iterable[Loss]) -> list[PossibleFailure]:
    """The failures; those with the same effect are one."""
    by_blow: dict[Blow, list[Loss]] = {}
    for loss in found:
        by_blow.setdefault(cluster.blow(loss), []).append(loss)
    return [
        PossibleFailure(first.kind, first.text, blow, tuple(each.text for each in others))
        for blow, (first, *others) in by_blow.items()
    ]


def _how_bad(group: CombinationGroup) -> tuple[object, ...]:
    counts = (group.none, group.no_room, group.stays, group.by_seniority)
    rank = next((i for i, count in enumerate(counts) if count), len(counts))
    share = counts[rank] / group.looked_at if rank < len(counts) else 0
    return rank, len(group.kinds), -share, group.connections, [LOSS_KINDS.index(kind) for kind in group.kinds]


class SmallestSoFar(msgspec.Struct):
    """The smallest combinations so far with some effect: the first few for each kinds of failures."""

    size: int
    count: int = 0
    sets: dict[tuple[LossKind, ...], list[tuple[str, ...]]] = {}

    def shown(self) -> tuple[tuple[str, ...], ...]:
        """Examples of all kinds: one of each, then a second of each."""
        kinds = [self.sets[each] for each in sorted(self.sets, key=_by_kind)]
        by_turns = [of_kind[i] for i in range(SHOWN_MAX) for of_kind in kinds if i < len(of_kind)]
        return tuple(by_turns[:SHOWN_MAX])


def _by_kind(kinds: tuple[LossKind, ...]) -> list[int]:
    return [LOSS_KINDS.index(kind) for kind in kinds]


class Table:
    """The groups while combinations are counted."""

    def __init__(self, model: Model, cluster: ClusterInBits, failures: list[PossibleFailure]) -> None:
        self._cluster = cluster
        self.failures = failures
        self.groups: dict[tuple[LossKind, ...], CombinationGroup] = {}
        topology = model.config.topology
        self._clients, self._kbit = topology.clients, topology.client_mbit * 1000
        brokers = [each for each in model.brokers.values() if each.is_primary or not cluster.is_active_passive]
        self._has_memory = bool(brokers) and all(each.memory_mb for each in brokers)
        self._has_bandwidth = bool(brokers) and all(each.bandwidth_mbit for each in brokers)
        self._worst: dict[tuple[LossKind, ...], tuple[int, bool, bool, int, int]] = {}
        self._found: dict[str, SmallestSoFar] = {}

    def fill(self, most: int, combinations_max: int, chance: random.Random) -> tuple[CombinationCount, ...]:
        sizes = []
        left = combinations_max
        for size in range(1, min(most, len(self.failures)) + 1):
            total = math.comb(len(self.failures), size)
            if total <= left:
                for chosen in combinations(self.failures, size):
                    self._add(chosen)
                looked_at = total
            else:
                looked_at = min(total - 1, max(left // (most - size + 1), DRAWN_MIN))
                for drawn in self._drawn(size, looked_at, chance):
                    self._add(drawn)
            left = max(0, left - looked_at)
            sizes.append(CombinationCount(size, total, looked_at))
        return tuple(sizes)

    def _drawn(self, size: int, count: int, chance: random.Random) -> Iterator[Sequence[PossibleFailure]]:
        for _ in range(count):
            yield [self.failures[i] for i in sorted(chance.sample(range(len(self.failures)), size))]

    def has_room(self, left: Left) -> bool:
        return left.connections >= self._clients and (not self._has_bandwidth or left.kbit >= self._kbit)

    def rest(self, left: Left) -> Rest:
        return Rest(
            left.root,
            left.is_sure,
            left.moved,
            left.connections,
            left.memory_mb if self._has_memory else None,
            left.kbit / 1000 if self._has_bandwidth else None,
            self.has_room(left),
        )

    def _add(self, chosen: Sequence[PossibleFailure]) -> None:
        gone = network = 0
        for failure in chosen:
            gone |= failure.blow.brokers
            network |= failure.blow.network
        left = self._cluster.left(gone, network)
        kinds = tuple(failure.kind for failure in chosen)
        group = self.groups.get(kinds)
        if group is None:
            rest = self.rest(left)
            group = CombinationGroup(
                kinds=kinds, connections=rest.connections, memory_mb=rest.memory_mb, mbit=rest.mbit
            )
            self.groups[kinds] = group
        group.looked_at += 1
        has_room = True
        if left.root == "none":
            group.none += 1
            self._note("no_root", chosen)
            self._note("no_election", chosen)
        else:
            if left.root == "stays":
                group.stays += 1
                self._note("no_election", chosen)
            elif left.is_sure:
                group.elected += 1
            else:
                group.by_seniority += 1
                self._note("by_seniority", chosen)
            has_room = self.has_room(left)
            if not has_room:
                group.no_room += 1
                self._note("no_room", chosen)
        group.moved = max(group.moved, left.moved)
        group.connections = min(group.connections, left.connections)
        if group.memory_mb is not None and left.memory_mb < group.memory_mb:
            group.memory_mb = left.memory_mb
        if group.mbit is not None and left.kbit < group.mbit * 1000:
            group.mbit = left.kbit / 1000
        badness = (left.voters.bit_count(), left.is_sure, has_room, left.connections, -left.moved)
        if kinds not in self._worst or badness < self._worst[kinds]:
            self._worst[kinds] = badness
            group.worst = tuple(failure.text for failure in chosen)

    def _note(self, what: str, chosen: Sequence[PossibleFailure]) -> None:
        """Keep a combination that has the effect `what`, unless a smaller one is known."""
        found = self._found.setdefault(what, SmallestSoFar(size=len(chosen)))
        if found.size == len(chosen):
            found.count += 1
            of_kinds = found.sets.setdefault(tuple(failure.kind for failure in chosen), [])
            if len(of_kinds) < SHOWN_MAX:
                of_kinds.append(tuple(failure.text for failure in chosen))

    def by_seniority(self) -> Smallest | None:
        """The smallest checked one after which an election depends on seniority. With more failures it may not."""
        before = self._cluster.left(0, 0)
        if before.root == "elected" and not before.is_sure:
            return Smallest(0, ((),), 1)
        known = self._found.get("by_seniority")
        return None if known is None else Smallest(known.size, known.shown(), known.count)

    def smallest(self, what: str, sizes: Sequence[CombinationCount]) -> Smallest | None:
        """The smallest with this effect: among the checked ones, if these were all of its size, or by a search."""
        none_below = next((each.failures for each in sizes if each.is_sampled), len(sizes) + 1)
        before = self._cluster.left(0, 0)
        if {
            "no_root": before.root == "none",
            "no_election": before.root != "elected",
            "no_room": before.root != "none" and not self.has_room(before),
        }[what]:
            return Smallest(0, ((),), 1)
        known = self._found.get(what, SmallestSoFar(size=0))
        if 0 < known.size < none_below:
            return Smallest(known.size, known.shown(), known.count)
        if what == "no_room" and (self._cluster.is_active_passive or not (self._clients or self._kbit)):
            # Failures never add a possible root, so the room at each stays as it was.
            return None
        if what == "no_room":
            at_least, found = smallest_without_room(self._cluster, [e.blow for e in self.failures], self.has_room)
        else:
            wanted = "elected" if what == "no_election" else "stays"
            at_least, found = smallest_against_root(self._cluster, [each.blow for each in self.failures], wanted)
        if found is None:
            return None
        named = tuple(self.failures[i].text for i in found)
        if 0 < known.size < len(named):
            named = known.shown()[0]
        return Smallest(min(max(at_least, none_below), len(named)), (named,))
