"""Computes the same as `aftermath` in `model/loss.py`, for millions of combinations: brokers, nodes, links are bits.

The effect of lost brokers is a few operations on bits. Who reaches whom depends on the lost nodes and links only, and
is cached for each set of these; so are the parts of the network for each set of lost nodes and trunks.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from topology.model.capacity import connections, is_active_passive, weight
from topology.model.graph import Model
from topology.model.loss import Loss, Outlook

FIELD_BITS = 64
"""The sum of any quantity below is less than 2 to the power of this."""

REMEMBERED_BYTES_MAX = 24_000_000
"""The size of the cache for sets of lost nodes and links. When it is full, other sets are computed each time: single
failures come first, and most combinations need those."""


class Blow(msgspec.Struct, frozen=True):
    """A loss in bits: the lost brokers; and the lost nodes and links, nodes first."""

    brokers: int
    network: int


class Left(msgspec.Struct, frozen=True):
    """Sums of what is left. Memory and bandwidth are those of brokers for which the file tells them.

    In mode active-passive, where all clients go to the root: the least of each quantity among the
    primaries that can be root. `is_sure`: an election succeeds for every order of seniority.
    """

    root: Outlook
    is_sure: bool
    voters: int
    cut_off: int
    moved: int
    connections: int
    memory_mb: int
    kbit: int


Rows = tuple[int, ...]


def bits(mask: int) -> Iterator[int]:
    """The numbers of the bits that are set."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def _lowest(mask: int) -> int:
    return mask & -mask


class ClusterInBits:
    """A model in bits. Brokers are numbered in the order of the model, primaries in the order of the primaries."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.names = tuple(model.brokers)
        self.bit = {name: 1 << i for i, name in enumerate(self.names)}
        self.all = (1 << len(self.names)) - 1
        self.primaries = tuple(self.bit[name] for name in model.primaries)
        self.of_primaries = sum(self.primaries)
        self._node_bit = {name: 1 << i for i, name in enumerate(model.nodes)}
        self._nodes = (1 << len(model.nodes)) - 1
        self._link_bit = {link.index: 1 << (len(model.nodes) + i) for i, link in enumerate(model.links)}
        self._wire()
        bytes_each = 60 + (len(self.names) + len(model.nodes) + len(model.links)) // 7
        self._remembered_max = REMEMBERED_BYTES_MAX // (bytes_each * (len(self.primaries) + 4))
        self._rows: dict[int, Rows] = {}
        self._parts: dict[int, list[tuple[int, int]]] = {}
        self._weigh()

    def blow(self, loss: Loss) -> Blow:
        network = sum(self._node_bit[name] for name in loss.nodes) + sum(self._link_bit[each] for each in loss.links)
        return Blow(sum(self.bit[name] for name in loss.brokers), network)

    def _wire(self) -> None:
        """Index all links."""
        routes = self._model.routes
        self._attached = [0] * len(self._model.nodes)
        """For each physical node the brokers with a link to it."""
        self._access: list[tuple[int, int, int]] = []
        """Each broker and node with a link between them, and all links of these two."""
        for name, ways in routes.access.items():
            between: dict[str, int] = {}
            for node, link in ways:
                between[node] = between.get(node, 0) | self._link_bit[link.index]
            for node, links in between.items():
                number = self._node_bit[node].bit_length() - 1
                self._attached[number] |= self.bit[name]
                self._access.append((self.bit[name], number, links))
        self._access_of = {link: each for each in self._access for link in bits(each[2])}
        self._beside = [0] * len(self._model.nodes)
        trunks: dict[tuple[int, int], int] = {}
        for link in routes.trunks:
            one, other = (self._node_bit[name].bit_length() - 1 for name in link.names)
            self._beside[one] |= 1 << other
            self._beside[other] |= 1 << one
            pair = (min(one, other), max(one, other))
            trunks[pair] = trunks.get(pair, 0) | self._link_bit[link.index]
        self._trunk_of = {link: (pair, links) for pair, links in trunks.items() for link in bits(links)}
        self._trunks = sum(1 << link for link in self._trunk_of)
        self._trunk_between = trunks
        self._place = {each: i for i, each in enumerate(self.primaries)}
        implied = [0] * len(self.primaries)
        for i, name in enumerate(self._model.primaries):
            for peer in self.names:
                if peer != name and routes.is_implied(name, peer):
                    implied[i] |= self.bit[peer]
        self._implied = implied
        self._direct = [0] * len(self.primaries)
        self._direct_of: dict[int, tuple[int, int, int]] = {}
        for ends, direct in routes.direct.items():
            links = sum(self._link_bit[each.index] for each in direct)
            first, second = (self.bit[name] for name in sorted(ends))
            for here, there in ((first, second), (second, first)):
                if here in self._place:
                    self._direct[self._place[here]] |= there
            self._direct_of.update((link, (first, second, links)) for link in bits(links))
        self._index_links()

    def _index_links(self) -> None:
        """Index the links of each node and broker, and those that matter to primaries."""
        self._access_at: dict[int, list[tuple[int, int]]] = {}
        for broker, node, links in self._access:
            self._access_at.setdefault(broker, []).append((node, links))
        keys = {("node", name): bit for name, bit in self._node_bit.items()}
        keys |= {("broker", name): bit for name, bit in self.bit.items()}
        self._links_at: dict[tuple[str, int], int] = {}
        self._between_primaries = 0
        for link in self._model.links:
            for end in link.ends:
                key = (end[0], keys[end])
                self._links_at[key] = self._links_at.get(key, 0) | self._link_bit[link.index]
            if all(kind == "node" or keys[kind, name] in self._place for kind, name in link.ends):
                self._between_primaries |= self._link_bit[link.index]

    def rows(self, network: int) -> Rows:
        """For each primary the brokers that it reaches when these nodes and links are lost."""
        known = self._rows.get(network)
        if known is not None:
            return known
        direct = self._direct
        parts = self._parts_without(network & (self._nodes | self._trunks))
        is_own = False
        for link in bits(network & ~self._nodes):
            if link in self._direct_of:
                first, second, links = self._direct_of[link]
                if links & ~network == 0:
                    direct = [*direct]
                    for here, there in ((first, second), (second, first)):
                        if here in self._place:
                            direct[self._place[here]] &= ~there
            elif link in self._access_of:
                is_own = True
        if is_own:
            parts = self._with_links_lost(parts, network)
        rows = []
        for i, bit in enumerate(self.primaries):
            row = self._implied[i] | direct[i]
            for _, members in parts:
                if members & bit:
                    row |= members
            rows.append(row | bit)
        found = tuple(rows)
        if len(self._rows) < self._remembered_max:
            self._rows[network] = found
        return found

    def _parts_without(self, lost: int) -> list[tuple[int, int]]:
        """The parts of the network without these nodes and trunks: the nodes of each, and the brokers linked to it."""
        known = self._parts.get(lost)
        if known is not None:
            return known
        left = self._nodes & ~lost
        beside = self._beside
        cut = [
            pair for pair, links in (self._trunk_of[each] for each in bits(lost & self._trunks)) if not links & ~lost
        ]
        if cut:
            beside = [*beside]
            for one, other in cut:
                beside[one] &= ~(1 << other)
                beside[other] &= ~(1 << one)
        parts = []
        while left:
            part = wave = left & -left
            while wave:
                following = 0
                for node in bits(wave):
                    following |= beside[node]
                wave = following & left & ~part
                part |= wave
            left &= ~part
            members = 0
            for node in bits(part):
                members |= self._attached[node]
            parts.append((part, members))
        if len(self._parts) < self._remembered_max:
            self._parts[lost] = parts
        return parts

    def _with_links_lost(self, parts: list[tuple[int, int]], network: int) -> list[tuple[int, int]]:
        lost = {self._access_of[link] for link in bits(network & ~self._nodes) if link in self._access_of}
        gone = [(broker, node) for broker, node, links in lost if links & ~network == 0]
        if not gone:
            return parts
        attached = {node: self._attached[node] for _, node in gone}
        for broker, node in gone:
            attached[node] &= ~broker
        found = []
        for part, members in parts:
            if any(part >> node & 1 for node in attached):
                members = 0
                for node in bits(part):
                    members |= attached.get(node, self._attached[node])
            found.append((part, members))
        return found

    def with_links(self, brokers: int, network: int) -> int:
        """These nodes and links with all links of these nodes and brokers, as far as primaries need them."""
        found = network & self._nodes
        links = network & ~self._nodes
        for each in (
            *(("node", 1 << node) for node in bits(found)),
            *(("broker", 1 << each) for each in bits(brokers)),
        ):
            links |= self._links_at.get(each, 0)
        return found | links & self._between_primaries

    def ways(self, start: int, others: int, network: int) -> int:
        """The nodes and links of a path from a primary to each of `others`, which it reaches when `network` is lost."""
        paths: dict[int, int] = {}
        wave = []
        for node, links in self._access_at.get(start, ()):
            if not network >> node & 1 and links & ~network and node not in paths:
                paths[node] = 1 << node | _lowest(links & ~network)
                wave.append(node)
        for node in wave:
            for other in bits(self._beside[node] & ~network):
                links = self._trunk_between[min(node, other), max(node, other)] & ~network
                if links and other not in paths:
                    paths[other] = paths[node] | 1 << other | _lowest(links)
                    wave.append(other)
        found = 0
        for each in bits(others):
            found |= self._way_to(1 << each, start, paths, network)
        return found

    def _way_to(self, other: int, start: int, paths: dict[int, int], network: int) -> int:
        if self._implied[self._place[start]] & other:
            return 0
        for first, second, links in self._direct_of.values():
            if {first, second} == {start, other} and links & ~network:
                return _lowest(links & ~network)
        for node, links in self._access_at.get(other, ()):
            if node in paths and links & ~network:
                return paths[node] | _lowest(links & ~network)
        raise AssertionError("only who is reached is asked for")

    def voters(self, gone: int, rows: Rows) -> int:
        """The largest electorate: the primaries that one of them reaches, and itself."""
        up = self.of_primaries & ~gone
        wanted = up.bit_count()
        best = most = 0
        for bit, row in zip(self.primaries, rows, strict=True):
            if bit & up:
                heard = row & up
                count = heard.bit_count()
                if count > most:
                    best, most = heard, count
                    if most == wanted:
                        break
        return best

    def root(self, voters: int) -> Outlook:
        twice, count = 2 * voters.bit_count(), len(self.primaries)
        if not count or twice < count:
            return "none"
        return "elected" if twice > count else "stays"

    def is_sure(self, gone: int, rows: Rows) -> bool:
        """Whether an election succeeds for every order of seniority: see `topology.model.loss.is_sure`."""
        up = self.of_primaries & ~gone
        heard = [row & up if bit & up else 0 for bit, row in zip(self.primaries, rows, strict=True)]
        enough, too_few = 0, 0
        for bit, each in zip(self.primaries, heard, strict=True):
            if 2 * each.bit_count() > len(self.primaries):
                enough |= each
            elif each:
                too_few |= bit
        if not enough or not too_few:
            return bool(enough)
        return not any(heard[self._place[1 << each]] & too_few for each in bits(enough))

    def left(self, gone: int, network: int) -> Left:
        rows = self.rows(network)
        voters = self.voters(gone, rows)
        reached = voters
        for i in (self._place[1 << each] for each in bits(voters)):
            reached |= rows[i]
            if not self.all & ~gone & ~reached:
                break
        cut_off = self.all & ~gone & ~reached
        weights, takes, memory, kbit = self.sums(gone | cut_off)
        root = self.root(voters)
        if self.is_active_passive:
            can_be_root = self._who_can_be_root(gone, rows)
            moved = self._clients if can_be_root != self._can_be_root else 0
            capacity = self._least(can_be_root)
        else:
            moved = round(self._clients * weights / self._weights) if self._weights else 0
            capacity = (self.connections - takes, self.memory_mb - memory, self.kbit - kbit)
        is_sure = root == "elected" and self.is_sure(gone, rows)
        return Left(root, is_sure, voters, cut_off, moved, *capacity)

    def _who_can_be_root(self, gone: int, rows: Rows) -> int:
        """The primaries that reach at least half of the defined ones; a root that reaches fewer resigns."""
        up = self.of_primaries & ~gone
        return sum(
            bit
            for bit, row in zip(self.primaries, rows, strict=True)
            if bit & up and 2 * (row & up).bit_count() >= len(self.primaries)
        )

    def _least(self, brokers: int) -> tuple[int, int, int]:
        """The least connections, the least memory and the least bandwidth (kbit/s) of any of these brokers."""
        each = [self.sums(1 << place)[1:] for place in bits(brokers)]
        if not each:
            return 0, 0, 0
        takes, memory, kbit = (min(of_one) for of_one in zip(*each, strict=True))
        return takes, memory, kbit

    def _weigh(self) -> None:
        """Make tables of sums for every eight brokers, with all quantities of a broker in one number."""
        model = self._model
        takes = connections(model)
        packed = [
            sum(
                quantity << (i * FIELD_BITS)
                for i, quantity in enumerate(
                    (weight(model, each), takes[name], each.memory_mb, round(each.bandwidth_mbit * 1000))
                )
            )
            for name, each in model.brokers.items()
        ]
        packed += [0] * (-len(packed) % 8)
        self._tables = []
        for start in range(0, len(packed), 8):
            table = [0]
            for value in packed[start : start + 8]:
                table += [value + each for each in table]
            self._tables.append(table)
        self._clients = model.config.topology.clients
        self.is_active_passive = is_active_passive(model)
        self._can_be_root = self._who_can_be_root(0, self.rows(0))
        self._weights, self.connections, self.memory_mb, self.kbit = self.sums(self.all)

    def sums(self, brokers: int) -> tuple[int, int, int, int]:
        """Weight, connections, memory and bandwidth (kbit/s) of these brokers."""
        total = 0
        for table, byte in zip(self._tables, brokers.to_bytes(len(self._tables), "little"), strict=True):
            if byte:
                total += table[byte]
        field = (1 << FIELD_BITS) - 1
        return (
            total & field,
            total >> FIELD_BITS & field,
            total >> 2 * FIELD_BITS & field,
            total >> 3 * FIELD_BITS,
        )
