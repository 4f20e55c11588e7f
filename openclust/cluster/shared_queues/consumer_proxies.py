"""The consumer proxies on the root: one for each consumer of a shared queue on another broker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from openclust.broker.amqp.consuming import demand_exclusive, fetched_header
from openclust.broker.backlog.backlog import Entry
from openclust.cluster.definitions.name_collisions import shared_queue
from openclust.cluster.protocol.messages import (
    NO_CONSUMER,
    Answer,
    Cancelled,
    Consume,
    FetchedMessage,
    Get,
    Lane,
    Settle,
)
from openclust.cluster.protocol.outbox import CONTROL_CHANNEL, LANE_MAX, SOURCE_LANE_MIN
from openclust.cluster.shared_queues.consumer_proxy import ConsumerProxy
from openclust.cluster.shared_queues.traced_lanes import TracedProxy
from openclust.wire.errors import RESOURCE_ERROR, ChannelError
from openclust.wire.text import decode_text, encode_text

if TYPE_CHECKING:
    from openclust.broker.amqp.connection import Connection
    from openclust.broker.queues.queue import Queue
    from openclust.broker.server.broker import Broker
    from openclust.cluster.protocol.links import Links
    from openclust.cluster.protocol.messages import Cancel, Prefetch, Taken


class _PeerDeliveries:
    """The proxies and fetched messages of one broker, as long as `connection`, its link to this one, is there."""

    __slots__ = ("connection", "fetched", "free_lanes", "next_lane", "proxies")

    def __init__(self, connection: Connection | None) -> None:
        self.connection = connection
        self.proxies: dict[int, ConsumerProxy] = {}
        self.fetched: dict[int, tuple[Queue, Entry]] = {}
        self.free_lanes: list[int] = []
        self.next_lane = SOURCE_LANE_MIN

    def take_lane(self) -> int:
        if self.free_lanes:
            return self.free_lanes.pop()
        lane = self.next_lane
        if lane > LANE_MAX:
            text = f"a broker may have {LANE_MAX - SOURCE_LANE_MIN + 1} consumers of shared queues, and this one has"
            raise ChannelError(RESOURCE_ERROR, text)
        self.next_lane = lane + 1
        return lane


class ConsumerProxies:
    """Call `flush` at the end of a turn, when all answers are in the outboxes.

    `choked` are proxies that wait until the outbox of their broker has room.
    """

    def __init__(self, broker: Broker, links: Links, connections: Mapping[str, Connection]) -> None:
        self._broker = broker
        self._links = links
        self._connections = connections
        self._by_peer: dict[str, _PeerDeliveries] = {}
        self._starting: list[ConsumerProxy] = []
        self._fetches = 0
        self.choked: dict[ConsumerProxy, None] = {}

    def __iter__(self) -> Iterator[ConsumerProxy]:
        return (proxy for name in sorted(self._by_peer) for proxy in self._by_peer[name].proxies.values())

    # -- questions

    def ask(self, peer: str, question: Consume | Get, number: int) -> Answer:
        """Consume or fetch for a broker; AmqpError where that cannot be."""
        queue = shared_queue(self._broker, decode_text(question.vhost), decode_text(question.queue))
        if isinstance(question, Get):
            return self._fetch(self._of_peer(peer), queue, question, number)
        if peer == self._links.name:
            # This broker asked before it became root; now its consumer needs no proxy.
            demand_exclusive(queue, question.exclusive)
            return Answer(number=number)
        theirs = self._of_peer(peer)
        if question.source not in theirs.proxies:
            self._make(peer, theirs, queue, question)
        return Answer(number=number)

    def _of_peer(self, peer: str) -> _PeerDeliveries:
        connection = self._connections.get(peer)
        theirs = self._by_peer.get(peer)
        if theirs is not None and theirs.connection is not connection:
            self.peer_gone(peer)
            theirs = None
        if theirs is None:
            theirs = self._by_peer[peer] = _PeerDeliveries(connection)
        return theirs

    def _make(self, peer: str, theirs: _PeerDeliveries, queue: Queue, question: Consume) -> None:
        demand_exclusive(queue, question.exclusive)
        outbox = self._links.outboxes.get(peer)
        if outbox is None or not outbox.is_up or theirs.connection is None:
            # No answer would reach that broker now, and it asks again when there is a link.
            raise ChannelError(RESOURCE_ERROR, f"there is no link to {peer}")
        channel = theirs.connection.channels[CONTROL_CHANNEL]
        kind = ConsumerProxy if self._broker.tracer is None else TracedProxy
        proxy = kind(self, peer, channel, queue, question, outbox, theirs.take_lane())
        theirs.proxies[question.source] = proxy
        # It takes no delivery before `start`, but is a consumer of the queue from now on.
        queue.add_consumer(proxy)
        self._starting.append(proxy)

    def _fetch(self, theirs: _PeerDeliveries, queue: Queue, question: Get, number: int) -> Answer:
        entry = queue.get(no_ack=question.no_ack)
        if entry is None:
            return Answer(number=number)
        self._fetches += 1
        message = entry.message
        fetched = FetchedMessage(
            number=self._fetches,
            exchange=encode_text(message.exchange),
            routing_key=encode_text(message.routing_key),
            header=fetched_header(queue, entry),
            body=message.body,
            deliveries=entry.deliveries,
            left=len(queue),
        )
        if question.no_ack and theirs.connection is not None:
            queue.forget(entry)
        else:
            theirs.fetched[self._fetches] = (queue, entry)
        queue.refresh_direct()
        return Answer(number=number, fetched=fetched)

    def fetched_here(self, number: int) -> tuple[Queue, Entry] | None:
        """A message that this broker asked for before it became root; the caller must settle it."""
        theirs = self._by_peer.get(self._links.name)
        return None if theirs is None else theirs.fetched.pop(number, None)

    # -- what consumers say

    def _find(self, peer: str, source: int) -> ConsumerProxy | None:
        theirs = self._by_peer.get(peer)
        return None if theirs is None else theirs.proxies.get(source)

    def named(self, peer: str, message: Settle) -> list[Entry] | None:
        """The deliveries that a `Settle` of a broker names; None where one of them is not with that broker any more."""
        held: dict[int, Entry] = {}
        if message.source == NO_CONSUMER:
            theirs = self._by_peer.get(peer)
            if theirs is not None:
                held = {number: entry for number, (_, entry) in theirs.fetched.items()}
        else:
            proxy = self._find(peer, message.source)
            held = {} if proxy is None else proxy.held
        last = max(message.acked[1::2], default=0)
        if last > max(self._fetches, max(held, default=0)):
            return None
        numbers = [*_numbers(message.acked, last), *message.returned, *message.rejected]
        entries = [held[number] for number in numbers if number in held]
        return entries if len(entries) == len(numbers) else None

    def settle(self, peer: str, message: Settle) -> None:
        if message.source == NO_CONSUMER:
            self._settle_fetched(peer, message)
            return
        proxy = self._find(peer, message.source)
        if proxy is None:
            return
        queue, held = proxy.queue, proxy.held
        for number in _numbers(message.acked, proxy.number):
            entry = held.pop(number, None)
            if entry is not None:
                queue.forget(entry)
        for number in message.rejected:
            entry = held.pop(number, None)
            if entry is not None:
                queue.reject(entry)
        returned = [held.pop(number) for number in message.returned if number in held]
        for entry in returned:
            queue.put_back(entry)
        if returned:
            queue.dispatch()
        if proxy.cancelled:
            self._end_settled(proxy)
        elif not proxy.waiting:
            proxy.wake()

    def _settle_fetched(self, peer: str, message: Settle) -> None:
        theirs = self._by_peer.get(peer)
        if theirs is None:
            return
        fetched = theirs.fetched
        for number in _numbers(message.acked, self._fetches):
            if number in fetched:
                queue, entry = fetched.pop(number)
                queue.forget(entry)
        for number in message.rejected:
            if number in fetched:
                queue, entry = fetched.pop(number)
                queue.reject(entry)
        _return([fetched.pop(number) for number in message.returned if number in fetched])

    def taken(self, peer: str, message: Taken) -> None:
        proxy = self._find(peer, message.source)
        if proxy is not None:
            proxy.taken(message.number)

    def prefetch(self, peer: str, message: Prefetch) -> None:
        proxy = self._find(peer, message.source)
        if proxy is not None and not proxy.no_ack:
            proxy.prefetch_asked = message.count
            proxy.follow_prefetch(proxy.queue.settings.consumer_prefetch_max)
            if not proxy.waiting:
                proxy.wake()

    # -- the end

    def cancel(self, peer: str, message: Cancel) -> None:
        """A consumer ends. If the message says `keeps`, its client may still settle the deliveries that it has."""
        if message.source == NO_CONSUMER:
            self.peer_gone(peer)
            return
        proxy = self._find(peer, message.source)
        if proxy is None:
            return
        proxy.queue.stop(proxy)
        if not message.keeps:
            proxy.return_all()
        proxy.queue.vhost.drop_consumer(proxy)
        self._end_settled(proxy)

    def _end_settled(self, proxy: ConsumerProxy) -> None:
        """Forget a cancelled proxy, if all its deliveries are settled."""
        if not proxy.held:
            self._forget(proxy)

    def _forget(self, proxy: ConsumerProxy) -> None:
        self.choked.pop(proxy, None)
        theirs = self._by_peer.get(proxy.peer)
        if theirs is not None and theirs.proxies.get(proxy.source) is proxy:
            del theirs.proxies[proxy.source]
            theirs.free_lanes.append(proxy.lane)

    def queue_deleted(self, proxy: ConsumerProxy) -> None:
        """The queue is deleted, and its unsettled deliveries with it."""
        self._links.send(proxy.peer, Cancelled(proxy.source))
        proxy.return_all()
        self._forget(proxy)

    def peer_gone(self, name: str) -> None:
        """A broker is gone, or gives up all it has: its unsettled deliveries go back into their queues."""
        theirs = self._by_peer.pop(name, None)
        if theirs is None:
            return
        proxies = list(theirs.proxies.values())
        # All are stopped before the first gives back: its deliveries must not go to another of them.
        for proxy in proxies:
            self.choked.pop(proxy, None)
            proxy.queue.stop(proxy)
        for proxy in proxies:
            proxy.return_all()
        _return(list(theirs.fetched.values()))
        for proxy in proxies:
            proxy.queue.vhost.drop_consumer(proxy)

    def end(self) -> None:
        """The reign ends: all proxies end, and the queues here take back all unsettled deliveries."""
        ended, self._by_peer = self._by_peer, {}
        self._starting.clear()
        self.choked.clear()
        for theirs in ended.values():
            for proxy in theirs.proxies.values():
                proxy.queue.stop(proxy)
                proxy.return_all()
            for queue, entry in theirs.fetched.values():
                queue.put_back(entry)

    # -- turns

    def flush(self) -> None:
        """Start proxies whose answer is in the outbox, and wake those that waited for room in one."""
        if self._starting:
            starting, self._starting = self._starting, []
            for proxy in starting:
                self._start(proxy)
        if self.choked:
            choked, self.choked = self.choked, {}
            for proxy in choked:
                proxy.wake()

    def _start(self, proxy: ConsumerProxy) -> None:
        # Its broker may have gone since it asked; then the proxy is cancelled.
        outbox = self._links.outboxes.get(proxy.peer)
        if not proxy.cancelled and outbox is not None and outbox.is_up:
            outbox.open_lane(Lane(number=proxy.lane, vhost=encode_text(proxy.queue.vhost.name), source=proxy.source))
            proxy.start()


def _numbers(ranges: list[int], last: int) -> Iterator[int]:
    """All numbers from 1 to `last` in ranges that are given by first and last in turn."""
    for at in range(0, len(ranges) - 1, 2):
        yield from range(max(1, ranges[at]), min(last, ranges[at + 1]) + 1)


def _return(fetched: list[tuple[Queue, Entry]]) -> None:
    for queue, entry in fetched:
        queue.put_back(entry)
    for queue in dict.fromkeys(queue for queue, _ in fetched):
        queue.dispatch()
