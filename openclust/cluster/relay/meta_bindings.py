"""Meta-bindings: the bindings of each broker's private queues, so that others send it those messages and no more.

A broker counts its bindings, tells meta-bindings in batches, and withdraws one when its last binding goes; by a digest
its peers find out that one was lost. A secondary has no links to other secondaries: the root tells each secondary the
meta-bindings of all others together.
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

MetaBinding: TypeAlias = tuple[bytes, bytes, bytes, bytes]
"""Virtual host, exchange, routing key, and arguments as a table or empty."""
ExchangeKey: TypeAlias = tuple[bytes, bytes]
"""Virtual host and exchange."""

BINDINGS_A_MESSAGE = 5_000
OTHERS = ""
"""The name under which the meta-bindings of all other secondaries together are held."""


class PeerInterest:
    """The meta-bindings of one broker, as it has told them. Each is kept with its hash, which takes long to compute.

    While the broker tells all of them anew, `untold` are those that it has not told again yet.
    """

    __slots__ = ("bindings", "count", "digest", "remote", "untold")

    def __init__(self, name: str) -> None:
        self.remote = RemoteBroker(name)
        self.bindings: dict[ExchangeKey, dict[tuple[bytes, bytes], int]] = {}
        self.count = 0
        self.digest = 0
        self.untold: dict[MetaBinding, None] | None = None

    def add(self, binding: MetaBinding) -> int | None:
        """Add a meta-binding; returns its hash, or None if it was there already."""
        wanted = self.bindings.setdefault(binding[:2], {})
        if binding[2:] in wanted:
            return None
        wanted[binding[2:]] = number = hash_of(binding)
        self.count += 1
        self.digest ^= number
        return number

    def remove(self, binding: MetaBinding) -> int | None:
        """Remove a meta-binding; returns its hash, or None if it was not there."""
        wanted = self.bindings.get(binding[:2], {})
        number = wanted.pop(binding[2:], None)
        if number is None:
            return None
        if not wanted:
            del self.bindings[binding[:2]]
        self.count -= 1
        self.digest ^= number
        return number

    def items(self) -> Iterable[MetaBinding]:
        return ((*place, *rest) for place, wanted in self.bindings.items() for rest in wanted)


class AdvertisedInterest:
    """Meta-bindings that this broker has told: its own to all peers, or those of other secondaries to a secondary."""

    def __init__(self) -> None:
        self.counts: dict[MetaBinding, int] = {}
        self.changed: dict[MetaBinding, bool] = {}
        self.digest = 0

    def count(self, binding: MetaBinding, by: int, number: int | None = None) -> None:
        """Count one binding more or less; `number` is its hash, where that is known."""
        count = self.counts.get(binding, 0) + by
        if count > 0:
            self.counts[binding] = count
        else:
            self.counts.pop(binding, None)
        if (by > 0 and count == 1) or (by < 0 and count == 0):
            self.digest ^= hash_of(binding) if number is None else number
            self.changed[binding] = by > 0

    def gather(self, held: PeerInterest) -> None:
        """Count all meta-bindings of a broker. They are not told as changes: all is told afterwards."""
        counts = self.counts
        for place, wanted in held.bindings.items():
            for rest, number in wanted.items():
                binding = (*place, *rest)
                count = counts.get(binding, 0)
                counts[binding] = count + 1
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
        # For each secondary that this broker serves, as root or in place of one, what it was told of the others.
        self._of_others: dict[str, AdvertisedInterest] = {}
        self._unserved: list[str] = []
        self._relay = ""
        self.repaired = 0

    # -- here

    def wanted(self, vhost: str, exchange: str, routing_key: str, arguments: Table, count: int) -> None:
        """A private queue was bound (`count` 1), or such a binding is gone (-1)."""
        self.own.count(meta_binding_of(vhost, exchange, routing_key, arguments), count)

    def flush(self) -> None:
        """Tell what has changed since the last flush."""
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
        """Whether secondaries have still to be served: another turn must follow."""
        return bool(self._unserved)

    def _seek_relay(self) -> None:
        """As a secondary without a link to the root, ask the relaying primary for the others' meta-bindings."""
        if self._is_primary:
            return
        relay = self._links.relaying_primary()
        if relay == self._leadership.root:
            relay = ""
        if relay != self._relay:
            self._relay = relay
            if relay:
                self._links.send(relay, InterestLost(of_others=True))

    def _tell(self, peer: str, changed: dict[MetaBinding, bool], *, of_others: bool = False) -> None:
        bindings = list(changed.items())
        for at in range(0, len(bindings), BINDINGS_A_MESSAGE):
            some = bindings[at : at + BINDINGS_A_MESSAGE]
            added = [binding for binding, is_wanted in some if is_wanted]
            removed = [binding for binding, is_wanted in some if not is_wanted]
            self._links.send(peer, Interest(added=added, removed=removed, of_others=of_others))

    def tell_all(self, peer: str, *, of_others: bool = False) -> None:
        """Tell all anew: the link is new, or something was lost, or a secondary asks because it reaches no root."""
        if of_others and peer not in self._of_others:
            if self._links.is_secondary(peer):
                self.serve_secondary(peer)
            return
        told = self._of_others[peer] if of_others else self.own
        bindings = list(told.counts)
        for at in range(0, len(bindings) or 1, BINDINGS_A_MESSAGE):
            some = bindings[at : at + BINDINGS_A_MESSAGE]
            is_last = at + BINDINGS_A_MESSAGE >= len(bindings)
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
        """A broker tells meta-bindings."""
        held = self._held(peer, message.of_others)
        touched: set[ExchangeKey] = set()
        if message.is_first:
            held.untold = dict.fromkeys(held.items())
        for binding in message.removed:
            self._drop(held, binding, touched)
        for binding in message.added:
            if held.untold:
                held.untold.pop(binding, None)
            number = held.add(binding)
            if number is not None:
                self._place(held, binding)
                touched.add(binding[:2])
                self._aggregate(held, binding, 1, number)
        if message.is_last:
            for binding in held.untold or ():
                self._drop(held, binding, touched)
            held.untold = None
        self._changed(touched)

    def checked(self, peer: str, message: InterestDigest) -> None:
        """A broker tells its digest: where it differs from what is held here, ask for all anew."""
        held = self._held(peer, message.of_others)
        if (held.count, held.digest) != (message.count, message.digest):
            self.repaired += 1
            self._broker.note("warning", "meta-bindings differ from what was told: asked for all anew", peer=peer)
            self._links.send(peer, InterestLost(of_others=message.of_others))

    def gone(self, peer: str) -> None:
        """A broker is not there any more: drop its meta-bindings."""
        held = self.held.pop(peer, None)
        if held is not None:
            touched: set[ExchangeKey] = set()
            for binding in list(held.items()):
                self._drop(held, binding, touched)
            self._changed(touched)

    def link_down(self, peer: str) -> None:
        """The link to a broker is gone: all is told anew on the next one."""
        self._of_others.pop(peer, None)
        self._unserved = [name for name in self._unserved if name != peer]

    def _held(self, peer: str, of_others: bool) -> PeerInterest:
        name = OTHERS if of_others else peer
        held = self.held.get(name)
        if held is None:
            held = self.held[name] = PeerInterest(name)
        return held

    def _drop(self, held: PeerInterest, binding: MetaBinding, touched: set[ExchangeKey]) -> None:
        number = held.remove(binding)
        if number is None:
            return
        touched.add(binding[:2])
        self._aggregate(held, binding, -1, number)
        vhost = self._broker.vhosts.get(decode_text(binding[0]))
        if vhost is None:
            return
        name, key = decode_text(binding[1]), decode_text(binding[2])
        if not name:
            brokers = vhost.elsewhere.get(key, {})
            brokers.pop(held.remote, None)
            if not brokers:
                vhost.elsewhere.pop(key, None)
        elif name in vhost.exchanges:
            exchange = vhost.exchanges[name]
            exchange.unbind_remote(held.remote, key, arguments_of(binding))
            vhost.source_unbound(exchange)

    def _place(self, held: PeerInterest, binding: MetaBinding) -> None:
        """Bind it at its exchange here. If that does not exist yet, `exchange_made` does it later."""
        vhost = self._broker.vhosts.get(decode_text(binding[0]))
        if vhost is None:
            return
        name, key = decode_text(binding[1]), decode_text(binding[2])
        if not name:
            vhost.elsewhere.setdefault(key, {})[held.remote] = None
        elif name in vhost.exchanges:
            vhost.exchanges[name].bind_remote(held.remote, key, arguments_of(binding))

    def exchange_made(self, vhost: VirtualHost, exchange: Exchange) -> None:
        place = (encode_text(vhost.name), encode_text(exchange.name))
        for _, held in sorted(self.held.items()):
            for rest in held.bindings.get(place, ()):
                self._place(held, (*place, *rest))

    def _changed(self, places: set[ExchangeKey]) -> None:
        for name in sorted({vhost for vhost, _ in places}):
            vhost = self._broker.vhosts.get(decode_text(name))
            if vhost is not None:
                vhost.topology_changed()

    # -- the root, for the secondaries

    def serve_secondaries(self, secondaries: Iterable[str]) -> None:
        """From now on tell each of these secondaries the meta-bindings of the others; none, where the reign has ended.

        One secondary is served in a turn: with many thousands of subscribers that takes a tenth of a second, and in
        between the root must send its heartbeats.
        """
        self._of_others = {}
        self._unserved = sorted(secondaries)

    def serve_secondary(self, name: str) -> None:
        """There is a link to this secondary: tell it all meta-bindings of the others."""
        self._unserved = [each for each in self._unserved if each != name]
        told = self._of_others[name] = AdvertisedInterest()
        for other, held in sorted(self.held.items()):
            if other != name and self._links.is_secondary(other):
                told.gather(held)
        self.tell_all(name, of_others=True)

    def _aggregate(self, held: PeerInterest, binding: MetaBinding, count: int, number: int) -> None:
        name = held.remote.name
        if self._of_others and self._links.is_secondary(name):
            for other, told in self._of_others.items():
                if other != name:
                    told.count(binding, count, number)


def meta_binding_of(vhost: str, exchange: str, routing_key: str, arguments: Table) -> MetaBinding:
    encoded = encode_table(dict(sorted(arguments.items()))) if arguments else b""
    return encode_text(vhost), encode_text(exchange), encode_text(routing_key), encoded


def arguments_of(binding: MetaBinding) -> Table:
    return decode_table(binding[3], 0)[0] if binding[3] else {}


def hash_of(binding: MetaBinding) -> int:
    """The hash of a meta-binding. The exclusive or of these is the same for equal sets, in any order."""
    joined = b"".join(b"%d:%b" % (len(part), part) for part in binding)
    return int.from_bytes(hashlib.blake2b(joined, digest_size=8).digest(), "big") >> 1
