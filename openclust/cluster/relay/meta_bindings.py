"""Meta-bindings: what each broker's private queues want, so that others send it that and nothing else.

Counted here, told in batches, withdrawn when the last binding goes; a digest shows when what was told was lost. A
secondary has no links to the others: the root tells each secondary what all the others together want.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias

from openclust.broker.routing.remote_broker import RemoteBroker
from openclust.cluster.protocol.messages import Interest, InterestDigest, InterestLost
from openclust.wire.table import Table, decode_table, encode_table
from openclust.wire.text import decode_text, encode_text

if TYPE_CHECKING:
    from openclust.broker.routing.exchange import Exchange
    from openclust.broker.server.broker import Broker
    from openclust.broker.server.vhost import VirtualHost
    from openclust.cluster.protocol.leadership import Leadership
    from openclust.cluster.protocol.links import Links

Item: TypeAlias = tuple[bytes, bytes, bytes, bytes]
Place: TypeAlias = tuple[bytes, bytes]
"""Virtual host and exchange."""

ITEMS_A_MESSAGE = 5_000
OTHERS = ""
"""The name of all other secondaries together."""


class PeerInterest:
    """What one broker wants, as it has told us. Each item has its number (`fold`), which takes longer than all else.

    While a broker tells everything anew, `unsaid` is what it has not told again yet.
    """

    __slots__ = ("count", "digest", "places", "remote", "unsaid")

    def __init__(self, name: str) -> None:
        self.remote = RemoteBroker(name)
        self.places: dict[Place, dict[tuple[bytes, bytes], int]] = {}
        self.count = 0
        self.digest = 0
        self.unsaid: dict[Item, None] | None = None

    def add(self, item: Item) -> int | None:
        """Its number, if it is new."""
        wanted = self.places.setdefault(item[:2], {})
        if item[2:] in wanted:
            return None
        wanted[item[2:]] = number = fold(item)
        self.count += 1
        self.digest ^= number
        return number

    def remove(self, item: Item) -> int | None:
        """Its number, if it was there."""
        wanted = self.places.get(item[:2], {})
        number = wanted.pop(item[2:], None)
        if number is None:
            return None
        if not wanted:
            del self.places[item[:2]]
        self.count -= 1
        self.digest ^= number
        return number

    def items(self) -> Iterable[Item]:
        return ((*place, *rest) for place, wanted in self.places.items() for rest in wanted)


class AdvertisedInterest:
    """What this broker has told its peers that it wants: its own private queues', or the secondaries'."""

    def __init__(self) -> None:
        self.counts: dict[Item, int] = {}
        self.changed: dict[Item, bool] = {}
        self.digest = 0

    def count(self, item: Item, by: int, number: int | None = None) -> None:
        """One more or less wants it; `number` is what it folds to, where that is known."""
        count = self.counts.get(item, 0) + by
        if count > 0:
            self.counts[item] = count
        else:
            self.counts.pop(item, None)
        if (by > 0 and count == 1) or (by < 0 and count == 0):
            self.digest ^= fold(item) if number is None else number
            self.changed[item] = by > 0

    def gather(self, held: PeerInterest) -> None:
        """Count all that a broker wants; it is told as a whole."""
        counts = self.counts
        for place, wanted in held.places.items():
            for rest, number in wanted.items():
                item = (*place, *rest)
                count = counts.get(item, 0)
                counts[item] = count + 1
                if not count:
                    self.digest ^= number


class MetaBindings:
    """Call `flush` at the end of a turn, and `tell_digests` now and then."""

    def __init__(self, broker: Broker, links: Links, leadership: Leadership[object], *, is_primary: bool) -> None:
        self._broker = broker
        self._links = links
        self._leadership = leadership
        self._is_primary = is_primary
        self.own = AdvertisedInterest()
        self.held: dict[str, PeerInterest] = {}
        # The root's part: for each secondary, what the other secondaries want. Without a root, that of any primary.
        self._of_others: dict[str, AdvertisedInterest] = {}
        self._unserved: list[str] = []
        self._relay = ""
        self.repaired = 0

    # -- here

    def wanted(self, vhost: str, exchange: str, routing_key: str, arguments: Table, count: int) -> None:
        """A private queue was bound, or a binding of one is gone."""
        self.own.count(item_of(vhost, exchange, routing_key, arguments), count)

    def flush(self) -> None:
        """Tell what has changed."""
        if self.own.changed:
            changed, self.own.changed = self.own.changed, {}
            for peer in self._links.outboxes:
                self._tell(peer, changed)
        for peer, told in self._of_others.items():
            if told.changed:
                changed, told.changed = told.changed, {}
                self._tell(peer, changed, of_others=True)
        if self._unserved:
            self.serve_secondary(self._unserved[0])
        self._seek_relay()

    @property
    def is_busy(self) -> bool:
        """Whether some have still to be told: another turn must follow."""
        return bool(self._unserved)

    def _seek_relay(self) -> None:
        """Where a secondary does not reach the root, the primary that it relays through tells it what others want."""
        if self._is_primary:
            return
        relay = self._links.relaying_primary()
        if relay == self._leadership.root:
            relay = ""
        if relay != self._relay:
            self._relay = relay
            if relay:
                self._links.send(relay, InterestLost(of_others=True))

    def _tell(self, peer: str, changed: dict[Item, bool], *, of_others: bool = False) -> None:
        items = list(changed.items())
        for at in range(0, len(items), ITEMS_A_MESSAGE):
            some = items[at : at + ITEMS_A_MESSAGE]
            added = [item for item, is_wanted in some if is_wanted]
            removed = [item for item, is_wanted in some if not is_wanted]
            self._links.send(peer, Interest(added=added, removed=removed, of_others=of_others))

    def tell_all(self, peer: str, *, of_others: bool = False) -> None:
        """Begin anew: the link is new, or something was lost, or a secondary has nobody else to ask."""
        if of_others and peer not in self._of_others:
            if self._links.is_secondary(peer):
                self.serve_secondary(peer)
            return
        told = self._of_others[peer] if of_others else self.own
        items = list(told.counts)
        for at in range(0, len(items) or 1, ITEMS_A_MESSAGE):
            some = items[at : at + ITEMS_A_MESSAGE]
            is_last = at + ITEMS_A_MESSAGE >= len(items)
            self._links.send(peer, Interest(added=some, is_first=not at, is_last=is_last, of_others=of_others))

    def tell_digests(self) -> None:
        self.flush()
        for peer in self._links.outboxes:
            self._links.send(peer, InterestDigest(count=len(self.own.counts), digest=self.own.digest))
        for peer, told in self._of_others.items():
            digest = InterestDigest(count=len(told.counts), digest=told.digest, of_others=True)
            self._links.send(peer, digest)

    # -- others

    def heard(self, peer: str, message: Interest) -> None:
        """A broker says what it wants."""
        held = self._held(peer, message.of_others)
        touched: set[Place] = set()
        if message.is_first:
            held.unsaid = dict.fromkeys(held.items())
        for item in message.removed:
            self._drop(held, item, touched)
        for item in message.added:
            if held.unsaid:
                held.unsaid.pop(item, None)
            number = held.add(item)
            if number is not None:
                self._place(held, item)
                touched.add(item[:2])
                self._aggregate(held, item, 1, number)
        if message.is_last:
            for item in held.unsaid or ():
                self._drop(held, item, touched)
            held.unsaid = None
        self._changed(touched)

    def checked(self, peer: str, message: InterestDigest) -> None:
        """What we hold of a peer must be what it has told."""
        held = self._held(peer, message.of_others)
        if (held.count, held.digest) != (message.count, message.digest):
            self.repaired += 1
            self._broker.note("warning", "meta-bindings differ from what was told: asked for all anew", peer=peer)
            self._links.send(peer, InterestLost(of_others=message.of_others))

    def gone(self, peer: str) -> None:
        """A broker is not there any more: it wants nothing."""
        held = self.held.pop(peer, None)
        if held is not None:
            touched: set[Place] = set()
            for item in list(held.items()):
                self._drop(held, item, touched)
            self._changed(touched)

    def link_down(self, peer: str) -> None:
        """Our link to a broker is gone: it is told anew when there is another."""
        self._of_others.pop(peer, None)
        self._unserved = [name for name in self._unserved if name != peer]

    def _held(self, peer: str, of_others: bool) -> PeerInterest:
        name = OTHERS if of_others else peer
        held = self.held.get(name)
        if held is None:
            held = self.held[name] = PeerInterest(name)
        return held

    def _drop(self, held: PeerInterest, item: Item, touched: set[Place]) -> None:
        number = held.remove(item)
        if number is None:
            return
        touched.add(item[:2])
        self._aggregate(held, item, -1, number)
        vhost = self._broker.vhosts.get(decode_text(item[0]))
        if vhost is None:
            return
        name, key = decode_text(item[1]), decode_text(item[2])
        if not name:
            brokers = vhost.elsewhere.get(key, {})
            brokers.pop(held.remote, None)
            if not brokers:
                vhost.elsewhere.pop(key, None)
        elif name in vhost.exchanges:
            exchange = vhost.exchanges[name]
            exchange.unbind_remote(held.remote, key, arguments_of(item))
            vhost.source_unbound(exchange)

    def _place(self, held: PeerInterest, item: Item) -> None:
        """Bind it, if its exchange is here; when that comes, it is bound then."""
        vhost = self._broker.vhosts.get(decode_text(item[0]))
        if vhost is None:
            return
        name, key = decode_text(item[1]), decode_text(item[2])
        if not name:
            vhost.elsewhere.setdefault(key, {})[held.remote] = None
        elif name in vhost.exchanges:
            vhost.exchanges[name].bind_remote(held.remote, key, arguments_of(item))

    def exchange_made(self, vhost: VirtualHost, exchange: Exchange) -> None:
        place = (encode_text(vhost.name), encode_text(exchange.name))
        for _, held in sorted(self.held.items()):
            for rest in held.places.get(place, ()):
                self._place(held, (*place, *rest))

    def _changed(self, places: set[Place]) -> None:
        for name in sorted({vhost for vhost, _ in places}):
            vhost = self._broker.vhosts.get(decode_text(name))
            if vhost is not None:
                vhost.topology_changed()

    # -- the root, for the secondaries

    def serve_secondaries(self, secondaries: Iterable[str]) -> None:
        """Tell these secondaries, from now on, what the others want. Empty for one that is root no more.

        One of them a turn: for many thousands of subscribers each is a tenth of a second, and a root must be heard.
        """
        self._of_others = {}
        self._unserved = sorted(secondaries)

    def serve_secondary(self, name: str) -> None:
        """Our link to this secondary is there."""
        self._unserved = [each for each in self._unserved if each != name]
        told = self._of_others[name] = AdvertisedInterest()
        for other, held in sorted(self.held.items()):
            if other != name and self._links.is_secondary(other):
                told.gather(held)
        self.tell_all(name, of_others=True)

    def _aggregate(self, held: PeerInterest, item: Item, count: int, number: int) -> None:
        name = held.remote.name
        if self._of_others and self._links.is_secondary(name):
            for other, told in self._of_others.items():
                if other != name:
                    told.count(item, count, number)


def item_of(vhost: str, exchange: str, routing_key: str, arguments: Table) -> Item:
    encoded = encode_table(dict(sorted(arguments.items()))) if arguments else b""
    return encode_text(vhost), encode_text(exchange), encode_text(routing_key), encoded


def arguments_of(item: Item) -> Table:
    return decode_table(item[3], 0)[0] if item[3] else {}


def fold(item: Item) -> int:
    """An item as a number; equal sets have equal sums of these, whatever the order."""
    joined = b"".join(b"%d:%b" % (len(part), part) for part in item)
    return int.from_bytes(hashlib.blake2b(joined, digest_size=8).digest(), "big") >> 1
