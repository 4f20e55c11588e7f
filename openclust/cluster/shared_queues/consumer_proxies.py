"""On the root: what consumers of other brokers receive from the shared queues."""

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


class _Customer:
    """What one broker has of ours. It holds as long as `connection`, its link to us: on another one it begins anew."""

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
    """Call `flush` at the end of a turn, when all answers are in the outboxes. `choked` wait for a full outbox."""

    def __init__(self, broker: Broker, links: Links, connections: Mapping[str, Connection]) -> None:
        self._broker = broker
        self._links = links
        self._connections = connections
        self._customers: dict[str, _Customer] = {}
        self._starting: list[ConsumerProxy] = []
        self._fetches = 0
        self.choked: dict[ConsumerProxy, None] = {}

    def __iter__(self) -> Iterator[ConsumerProxy]:
        return (proxy for name in sorted(self._customers) for proxy in self._customers[name].proxies.values())

    # -- questions

    def ask(self, peer: str, question: Consume | Get, number: int) -> Answer:
        """Consume or fetch for a broker; AmqpError where that cannot be."""
        queue = shared_queue(self._broker, decode_text(question.vhost), decode_text(question.queue))
        if isinstance(question, Get):
            return self._fetch(self._customer(peer), queue, question, number)
        if peer == self._links.name:
            # It asked before it was root itself; now its consumer needs nobody in between.
            demand_exclusive(queue, question.exclusive)
            return Answer(number=number)
        customer = self._customer(peer)
        if question.source not in customer.proxies:
            self._make(peer, customer, queue, question)
        return Answer(number=number)

    def _customer(self, peer: str) -> _Customer:
        connection = self._connections.get(peer)
        customer = self._customers.get(peer)
        if customer is not None and customer.connection is not connection:
            self.peer_gone(peer)
            customer = None
        if customer is None:
            customer = self._customers[peer] = _Customer(connection)
        return customer

    def _make(self, peer: str, customer: _Customer, queue: Queue, question: Consume) -> None:
        demand_exclusive(queue, question.exclusive)
        outbox = self._links.outboxes.get(peer)
        if outbox is None or not outbox.is_up or customer.connection is None:
            # It will ask again when there is a link, and no answer would reach it now.
            raise ChannelError(RESOURCE_ERROR, f"there is no link to {peer}")
        channel = customer.connection.channels[CONTROL_CHANNEL]
        kind = ConsumerProxy if self._broker.tracer is None else TracedProxy
        proxy = kind(self, peer, channel, queue, question, outbox, customer.take_lane())
        customer.proxies[question.source] = proxy
        # It has no room yet, so nothing is delivered; but from now on it counts.
        queue.add_consumer(proxy)
        self._starting.append(proxy)

    def _fetch(self, customer: _Customer, queue: Queue, question: Get, number: int) -> Answer:
        entry = queue.get()
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
        if question.no_ack and customer.connection is not None:
            queue.forget(entry)
        else:
            customer.fetched[self._fetches] = (queue, entry)
        queue.refresh_direct()
        return Answer(number=number, fetched=fetched)

    def fetched_here(self, number: int) -> tuple[Queue, Entry] | None:
        """What this broker asked for before it was root itself: from now on it is the caller's to settle."""
        customer = self._customers.get(self._links.name)
        return None if customer is None else customer.fetched.pop(number, None)

    # -- what consumers say

    def _find(self, peer: str, source: int) -> ConsumerProxy | None:
        customer = self._customers.get(peer)
        return None if customer is None else customer.proxies.get(source)

    def named(self, peer: str, message: Settle) -> list[Entry] | None:
        """The deliveries that a broker means; None where it does not hold one of them any more."""
        held: dict[int, Entry] = {}
        if message.source == NO_CONSUMER:
            customer = self._customers.get(peer)
            if customer is not None:
                held = {number: entry for number, (_, entry) in customer.fetched.items()}
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
        customer = self._customers.get(peer)
        if customer is None:
            return
        fetched = customer.fetched
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
        """A consumer ends. What its client has got may still be settled, if it `keeps` that."""
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
        """Forget one that is cancelled, if nothing of it is open any more."""
        if not proxy.held:
            self._forget(proxy)

    def _forget(self, proxy: ConsumerProxy) -> None:
        self.choked.pop(proxy, None)
        customer = self._customers.get(proxy.peer)
        if customer is not None and customer.proxies.get(proxy.source) is proxy:
            del customer.proxies[proxy.source]
            customer.free_lanes.append(proxy.lane)

    def queue_gone(self, proxy: ConsumerProxy) -> None:
        """The queue is deleted, and with it what was delivered of it."""
        self._links.send(proxy.peer, Cancelled(proxy.source))
        proxy.return_all()
        self._forget(proxy)

    def peer_gone(self, name: str) -> None:
        """A broker has nothing of ours any more: it is gone, or says so. What it had goes back."""
        customer = self._customers.pop(name, None)
        if customer is None:
            return
        proxies = list(customer.proxies.values())
        # All of them first: what one returns must not go to another.
        for proxy in proxies:
            self.choked.pop(proxy, None)
            proxy.queue.stop(proxy)
        for proxy in proxies:
            proxy.return_all()
        _return(list(customer.fetched.values()))
        for proxy in proxies:
            proxy.queue.vhost.drop_consumer(proxy)

    def end(self) -> None:
        """Be root no more: the queues here deliver nothing, and keep what was not settled."""
        customers, self._customers = self._customers, {}
        self._starting.clear()
        self.choked.clear()
        for customer in customers.values():
            for proxy in customer.proxies.values():
                proxy.queue.stop(proxy)
                proxy.return_all()
            for queue, entry in customer.fetched.values():
                queue.put_back(entry)

    # -- turns

    def flush(self) -> None:
        """Let those begin whose answer is on its way, and those go on that waited for a link."""
        if self._starting:
            starting, self._starting = self._starting, []
            for proxy in starting:
                self._start(proxy)
        if self.choked:
            choked, self.choked = self.choked, {}
            for proxy in choked:
                proxy.wake()

    def _start(self, proxy: ConsumerProxy) -> None:
        # Its broker may have gone since it asked, and then the proxy is cancelled.
        outbox = self._links.outboxes.get(proxy.peer)
        if not proxy.cancelled and outbox is not None and outbox.is_up:
            outbox.open_lane(Lane(number=proxy.lane, vhost=encode_text(proxy.queue.vhost.name), source=proxy.source))
            proxy.start()


def _numbers(ranges: list[int], last: int) -> Iterator[int]:
    """All numbers up to `last` in ranges that are given by first and last in turn."""
    for at in range(0, len(ranges) - 1, 2):
        yield from range(max(1, ranges[at]), min(last, ranges[at + 1]) + 1)


def _return(fetched: list[tuple[Queue, Entry]]) -> None:
    for queue, entry in fetched:
        queue.put_back(entry)
    for queue in dict.fromkeys(queue for queue, _ in fetched):
        queue.dispatch()
