"""The fewest failures after which there is no root, or too little room, if these are too many to try one by one.

More failures never make an electorate larger. So a failure contained in another need not be tried, and a set that ends
the quorum must hit every witness of a quorum: the search branches only on failures that hit one witness.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from topology.survive.reach import Blow, ClusterInBits, Left, bits

STATES_MAX = 100_000
"""After so many states the search gives up, and tells only how many failures are not enough."""


def smallest_against_root(
    cluster: ClusterInBits, blows: Sequence[Blow], wanted: str
) -> tuple[int, tuple[int, ...] | None]:
    """The least number of failures, and the indexes of such a set; (0, None) if even all together do not do it.

    `wanted` "elected": until nobody can be elected; "stays": until no root can stay either.
    """
    search = _Search(cluster, blows, wanted)
    gone = network = 0
    for blow in blows:
        gone |= blow.brokers
        network |= blow.network
    if search.witness(gone, network) is not None:
        return 0, None
    return search.run()


class _Search:
    def __init__(self, cluster: ClusterInBits, blows: Sequence[Blow], wanted: str) -> None:
        self._cluster = cluster
        self._shift = len(cluster.names)
        count = len(cluster.primaries)
        self._needed = count // 2 + 1 if wanted == "elected" else (count + 1) // 2
        self._blows = blows
        self.choices = self._not_contained()
        self._states = 0
        self._seen: dict[int, int] = {}

    def _not_contained(self) -> list[tuple[int, int]]:
        """Index and hits of each failure that matters to primaries and is not contained in another."""
        cluster = self._cluster
        hits = []
        for place, blow in enumerate(self._blows):
            brokers = blow.brokers & cluster.of_primaries
            hit = brokers | cluster.with_links(brokers, blow.network) << self._shift
            if hit:
                hits.append((place, hit))
        kept: list[tuple[int, int]] = []
        for place, hit in sorted(hits, key=lambda each: (-each[1].bit_count(), each[0])):
            if not any(hit & ~other == 0 for _, other in kept):
                kept.append((place, hit))
        return sorted(kept)

    def witness(self, gone: int, network: int) -> int | None:
        """A witness: one way in which enough primaries reach each other, as hits; None if there is none."""
        cluster = self._cluster
        rows = cluster.rows(network)
        up = cluster.of_primaries & ~gone
        for bit, row in zip(cluster.primaries, rows, strict=True):
            heard = row & up
            if bit & up and heard.bit_count() >= self._needed:
                others = list(bits(heard & ~bit))[: self._needed - 1]
                chosen = bit | sum(1 << each for each in others)
                return chosen | cluster.ways(bit, chosen & ~bit, network) << self._shift
        return None

    def run(self) -> tuple[int, tuple[int, ...] | None]:
        for size in range(len(self.choices) + 1):
            self._seen.clear()
            found = self._within(0, size, ())
            if found is not None:
                return size, found
            if self._states > STATES_MAX:
                return size, self._greedy()
        return len(self.choices), self._greedy()

    def _within(self, lost: int, size: int, chosen: tuple[int, ...]) -> tuple[int, ...] | None:
        """Extend `chosen` by at most `size` failures to a set that ends the quorum; None if that is impossible."""
        self._states += 1
        hits = (1 << self._shift) - 1
        witness = self.witness(lost & hits, lost >> self._shift)
        if witness is None:
            return chosen
        if not size or self._states > STATES_MAX:
            return None
        for place, hit in self.choices:
            if hit & witness:
                after = lost | hit
                if self._seen.get(after, -1) >= size - 1:
                    continue
                found = self._within(after, size - 1, (*chosen, place))
                if found is not None:
                    return tuple(sorted(found))
                self._seen[after] = size - 1
        return None

    def _greedy(self) -> tuple[int, ...]:
        """A set that ends the quorum, not always the smallest: each step leaves the fewest primaries together."""
        cluster = self._cluster
        chosen: list[int] = []
        gone = network = 0
        while (witness := self.witness(gone, network)) is not None:

            def left(choice: tuple[int, int], gone: int = gone, network: int = network) -> tuple[int, int]:
                blow = self._blows[choice[0]]
                rows = cluster.rows(network | blow.network)
                return cluster.voters(gone | blow.brokers, rows).bit_count(), choice[0]

            place, _ = min((each for each in self.choices if each[1] & witness), key=left)
            chosen.append(place)
            gone |= self._blows[place].brokers
            network |= self._blows[place].network
        return tuple(sorted(chosen))


def smallest_without_room(
    cluster: ClusterInBits, blows: Sequence[Blow], has_room: Callable[[Left], bool]
) -> tuple[int, tuple[int, ...] | None]:
    """The least number of failures that leave a root and too little room, and the indexes of a set, if any.

    Each step takes the failure that leaves the least. If only brokers are lost, the sum of the largest losses is a
    lower bound. Both together are often exact.
    """
    chosen: list[int] = []
    gone = network = 0
    while len(chosen) * len(blows) < STATES_MAX:
        best: tuple[tuple[int, int, int], int] | None = None
        for place, blow in enumerate(blows):
            if not (blow.brokers & ~gone or blow.network & ~network):
                continue
            left = cluster.left(gone | blow.brokers, network | blow.network)
            if left.root == "none":
                continue
            rank = ((has_room(left), left.connections, left.kbit), place)
            best = rank if best is None or rank < best else best
        if best is None:
            return 0, None
        chosen.append(best[1])
        gone |= blows[best[1]].brokers
        network |= blows[best[1]].network
        if not best[0][0]:
            return _at_least(cluster, blows, has_room, len(chosen)), tuple(sorted(chosen))
    return 0, None


def _at_least(cluster: ClusterInBits, blows: Sequence[Blow], has_room: Callable[[Left], bool], found: int) -> int:
    if any(blow.network for blow in blows):
        return 1
    whole = cluster.left(0, 0)
    alone = [cluster.sums(blow.brokers) for blow in blows]
    takes = sorted((each[1] for each in alone), reverse=True)
    kbit = sorted((each[3] for each in alone), reverse=True)
    for size in range(1, found):
        least = Left(
            "elected",
            True,
            whole.voters,
            0,
            0,
            whole.connections - sum(takes[:size]),
            whole.memory_mb,
            whole.kbit - sum(kbit[:size]),
        )
        if not has_room(least):
            return size
    return found
