"""Consumers here of shared queues that are active on the root."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from openclust.broker.amqp.channel import OPEN, Channel
from openclust.broker.amqp.consuming import demand_exclusive
from openclust.broker.backlog.backlog import Entry
from openclust.broker.cluster_port import GetResult
from openclust.broker.model.message import Message, delivery_suffix
from openclust.broker.queues.queue import Queue
from openclust.cluster.protocol.messages import NO_CONSUMER, Answer, Cancel, Consume, Get, Prefetch
from openclust.cluster.protocol.peer_user import peer_name
from openclust.cluster.shared_queues.delivery_lane import DeliveryLane
from openclust.cluster.shared_queues.remote_queue import GoneQueue, RemoteQueue, Run, Word
from openclust.cluster.shared_queues.traced_lanes import TracedDeliveryLane
from openclust.wire.errors import AmqpError
from openclust.wire.handshake import State
from openclust.wire.table import encode_table
from openclust.wire.text import decode_text, encode_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from openclust.broker.amqp.connection import Connection
    from openclust.broker.amqp.transaction import Unacked
    from openclust.broker.cluster_port import Done
    from openclust.broker.delivery.consumer import Consumer, ReceivingChannel
    from openclust.broker.delivery.origin import Origin
    from openclust.broker.server.broker import Broker
    from openclust.broker.server.vhost import VirtualHost
    from openclust.cluster.protocol.leadership import Leadership
    from openclust.cluster.protocol.links import Links
    from openclust.cluster.protocol.messages import Cancelled, FetchedMessage, Lane
    from openclust.cluster.shared_queues.consumer_proxies import ConsumerProxies
    from openclust.cluster.shared_queues.root_requests import RootRequests


class RegisteringRole(Protocol):
    """The role in force: it decides from where a consumer that the root has accepted receives."""

    def registered(self, consumer: Consumer, source: RemoteQueue, confirm: Callable[[], None]) -> None: ...


class RemoteConsumers:
    """Consumers follow the root: at each new one, or a new link to it, all register anew, and what they held is void.

    `dirty` are sources with something to tell; call `flush` at the end of a turn.
    """

    def __init__(
        self,
        broker: Broker,
        links: Links,
        leadership: Leadership[RegisteringRole],
        requests: RootRequests,
        proxies: ConsumerProxies,
    ) -> None:
        self._broker = broker
        self._links = links
        self._leadership = leadership
        self._requests = requests
        self._proxies = proxies
        self._run = Run()
        self._number = 0
        self._consumers: dict[Consumer, None] = {}
        # Of this run, by number; those whose answer is still to come among them.
        self._sources: dict[int, RemoteQueue] = {}
        # The questions of this run by which consumers register anew: in the next run there will be others.
        self._again: list[int] = []
        self.dirty: list[RemoteQueue] = []

    def __len__(self) -> int:
        return len(self._consumers)

    # -- consume

    def consume(self, consumer: Consumer, done: Done) -> None:
        """Let a consumer receive from a queue of the root."""
        self._register(consumer, done)

    def _register(self, consumer: Consumer, done: Done | None) -> RemoteQueue:
        self._number += 1
        queue = consumer.queue
        source = RemoteQueue(self, self._run, queue.vhost, queue.name, self._number, consumer)
        source.credit = credit(consumer)
        self._sources[source.number] = source
        question = Consume(
            vhost=encode_text(queue.vhost.name),
            queue=encode_text(queue.name),
            source=source.number,
            consumer_tag=encode_text(consumer.tag),
            no_ack=consumer.no_ack,
            exclusive=consumer.exclusive,
            priority=consumer.priority,
            prefetch=source.credit,
            arguments=encode_table(consumer.arguments),
        )
        if done is None:
            self._move(consumer, source)
        # Its client has been told that it consumes: it waits for a root that cannot be reached as for one that is none.
        number = self._requests.ask(
            question, lambda answer: self._registered(source, consumer, done, answer), lasting=done is None
        )
        if done is None:
            self._again.append(number)
        return source

    def _move(self, consumer: Consumer, source: RemoteQueue) -> None:
        consumer.queue = source
        _follow(consumer)
        # Nothing is kept for it: it need not be asked whether it takes more.
        consumer.waiting = True

    def _registered(
        self, source: RemoteQueue, consumer: Consumer, done: Done | None, answer: Answer | AmqpError
    ) -> None:
        is_refused = isinstance(answer, AmqpError)
        if done is None:
            if is_refused and source.consumer is not None:
                self._lose(consumer)
        elif source.run.is_over and not is_refused and not _is_gone(consumer):
            # What answered is not the root any more, or has forgotten by now.
            self._register(consumer, done)
        elif is_refused or _is_gone(consumer):
            self._sources.pop(source.number, None)
            source.consumer = None
            done(answer)
        else:
            self._leadership.role.registered(consumer, source, lambda: done(answer))

    def follow(self, consumer: Consumer, source: RemoteQueue) -> None:
        """What the root delivers comes by this source from now on."""
        self._consumers[consumer] = None
        self._move(consumer, source)

    def attach_here(self, consumer: Consumer) -> None:
        """This broker is root: the queue itself delivers from now on."""
        self._consumers.pop(consumer, None)
        if isinstance(consumer.queue, RemoteQueue):
            consumer.queue.empty(consumer)
        try:
            queue = consumer.queue.vhost.queue(consumer.queue.name)
            demand_exclusive(queue, consumer.exclusive)
        except AmqpError:
            self._lose(consumer)
            return
        consumer.queue = queue
        consumer.waiting = False
        queue.add_consumer(consumer)

    def _lose(self, consumer: Consumer) -> None:
        """Its queue is gone, or wants it no more: the client is told."""
        self._consumers.pop(consumer, None)
        consumer.cancelled = True
        consumer.waiting = False
        if isinstance(consumer.queue, RemoteQueue):
            source = consumer.queue
            source.is_alive = False
            source.consumer = None
            source.empty(consumer)
            self._sources.pop(source.number, None)
        consumer.queue_gone()

    def ended(self, source: RemoteQueue, consumer: Consumer) -> None:
        """The client has cancelled it, or is gone."""
        self._consumers.pop(consumer, None)
        self._sources.pop(source.number, None)

    def cancelled(self, peer: str, message: Cancelled) -> None:
        source = self._sources.get(message.source)
        if peer == self._leadership.root and source is not None and source.consumer is not None:
            self._lose(source.consumer)

    def credit_changed(self, channel: Channel) -> None:
        """What all consumers of a channel may hold together is another."""
        for consumer in channel.consumers.values() if channel.consumers else ():
            source = consumer.queue
            if isinstance(source, RemoteQueue) and not source.run.is_over and source.credit != credit(consumer):
                source.credit = credit(consumer)
                self._tell(Prefetch(source.number, source.credit))

    def policies_changed(self, vhost: VirtualHost) -> None:
        """The queues of a virtual host, here only known, have other settings: consumers of theirs follow."""
        for consumer in list(self._consumers):
            if consumer.queue.vhost is vhost:
                _follow(consumer)
                if not consumer.waiting:
                    consumer.wake()

    # -- deliveries

    def lane(self, connection: Connection, lane: Lane) -> Channel:
        """A channel of a peer's link that is to carry deliveries from now on."""
        source = self._sources.get(lane.source)
        peer = peer_name(connection)
        if source is None or peer != self._leadership.root:
            # Its client is gone, or the time is over in which it asked.
            self._links.send(peer, Cancel(lane.source))
            source = None
        tracer = self._broker.tracer
        if tracer is not None:
            return TracedDeliveryLane(connection, lane.number, source, tracer, peer)
        return DeliveryLane(connection, lane.number, source)

    # -- get

    def get(self, channel: Channel, queue: Queue, no_ack: bool, done: Done) -> None:
        run = self._run
        question = Get(encode_text(queue.vhost.name), encode_text(queue.name), NO_CONSUMER, no_ack)

        def answered(answer: Answer | AmqpError) -> None:
            told = None if isinstance(answer, AmqpError) else answer.fetched
            if told is None:
                done(answer if isinstance(answer, AmqpError) else None)
            elif self._leadership.is_root:
                self._fetched_here(channel, told, done)
            elif no_ack or not (run.is_over or _is_closed(channel)):
                done(self._fetched(queue, told, no_ack))
            else:
                self._requests.give_back(self._leadership.root, told)
                if _is_closed(channel):
                    done(None)
                else:
                    self.get(channel, queue, no_ack, done)

        self._requests.ask(question, answered)

    def _fetched(self, queue: Queue, told: FetchedMessage, no_ack: bool) -> GetResult:
        exchange, key = decode_text(told.exchange), decode_text(told.routing_key)
        message = Message(exchange, key, told.header, told.body, delivery_suffix(exchange, key))
        if no_ack:
            stand_in = GoneQueue(queue.vhost, queue.name)
        else:
            stand_in = RemoteQueue(self, self._run, queue.vhost, queue.name, NO_CONSUMER, None)
            self._broker.books.hold(message)
        return GetResult(stand_in, Entry(message, told.number, 0, told.deliveries), told.left)

    def _fetched_here(self, channel: Channel, told: FetchedMessage, done: Done) -> None:
        """This broker has become root while the question was open: it has answered itself."""
        held = self._proxies.fetched_here(told.number)
        assert held is not None, "it was just fetched"
        queue, entry = held
        if _is_closed(channel):
            queue.put_back(entry)
            queue.dispatch()
            done(None)
        else:
            done(GetResult(queue, entry, told.left))

    # -- the root comes and goes

    def attach_all_here(self) -> None:
        """This broker is root: its consumers receive from the queues themselves."""
        self.root_lost()
        for consumer in list(self._consumers):
            self.attach_here(consumer)

    def register_again(self) -> None:
        """There is a root, or another link to it: everybody registers anew."""
        self.root_lost()
        self._tell(Cancel(NO_CONSUMER))
        for consumer in list(self._consumers):
            before = consumer.queue
            after = self._register(consumer, None)
            if isinstance(before, RemoteQueue):
                after.inherit(before)

    def root_lost(self) -> None:
        """What consumers hold is void, and they wait."""
        self._run.is_over = True
        self._run = Run()
        for number in self._again:
            self._requests.forget(number)
        self._again.clear()
        sources, self._sources = self._sources, {}
        for source in sources.values():
            if not source.no_ack:
                source.drop_buffer()

    def resigned(self) -> None:
        """This broker was root: its consumers wait for the next one, and what they hold is back in the queues here."""
        self.root_lost()
        for connection in self._broker.connections:
            for channel in connection.channels.values():
                for item in _held_by(channel):
                    queue = item.queue
                    if queue.is_shared and queue.is_here:
                        item.queue = GoneQueue(queue.vhost, queue.name)
                        queue.put_back(item.entry)
                for consumer in channel.consumers.values() if channel.consumers else ():
                    if consumer.queue.is_shared and consumer.queue.is_here:
                        self._detach(consumer, consumer.queue)

    def _detach(self, consumer: Consumer, queue: Origin) -> None:
        queue.stop(consumer)
        consumer.cancelled = False
        run = Run()
        run.is_over = True
        self._move(consumer, RemoteQueue(self, run, queue.vhost, queue.name, 0, consumer))
        self._consumers[consumer] = None

    # -- turns

    def flush(self) -> None:
        """Tell the root what became of this turn's deliveries."""
        if not self.dirty:
            return
        dirty = list(self.dirty)
        self.dirty.clear()
        for source in dirty:
            for word in source.words():
                self._tell(word)

    def _tell(self, word: Word) -> None:
        self._links.send(self._leadership.root, word)


def _follow(consumer: Consumer) -> None:
    """Take the settings of the queue elsewhere, by its definition here."""
    queue = consumer.queue.vhost.queues.get(consumer.queue.name)
    if queue is not None:
        consumer.follow_timeout(queue.settings.consumer_timeout_ms)
        consumer.follow_prefetch(queue.settings.consumer_prefetch_max)


def credit(consumer: Consumer) -> int:
    """How many deliveries a consumer may hold, as far as the root can know: 0 is without end.

    Not what a policy leaves of it: the root knows the policies, and when they change.
    """
    if consumer.no_ack:
        return 0
    bounds = [each for each in (consumer.prefetch_asked, consumer.channel.prefetch_all) if each]
    return min(bounds, default=0)


def _is_closed(channel: ReceivingChannel) -> bool:
    return channel.state != OPEN or channel.connection.state is not State.OPEN


def _is_gone(consumer: Consumer) -> bool:
    return _is_closed(consumer.channel)


def _held_by(channel: Channel) -> Iterator[Unacked]:
    """All deliveries that a client has not settled, or not committed."""
    yield from channel.unacked.values()
    if channel.transaction is not None:
        yield from channel.transaction.acks
        yield from (item for item, _ in channel.transaction.rejects)
