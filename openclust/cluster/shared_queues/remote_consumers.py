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
from openclust.cluster.shared_queues.remote_queue import ConsumerReport, GoneQueue, RemoteQueue, Run
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
    from openclust.broker.delivery.consumer import Consumer, Origin, ReceivingChannel
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
    """Consumers follow the root: at a new root, or a new link to it, all register anew, and their deliveries are void.

    `dirty` are remote queues with something to tell the root; call `flush` at the end of a turn.
    """

    def __init__(
        self,
        broker: Broker,
        links: Links,
        leadership: Leadership[RegisteringRole],
        requests: RootRequests,
        proxies: ConsumerProxies,
    ) -> None:
        self.broker = broker
        self._links = links
        self._leadership = leadership
        self._requests = requests
        self._proxies = proxies
        self._run = Run()
        self._number = 0
        self._consumers: dict[Consumer, None] = {}
        # The remote queues of this run, by number; also those for which the root has not answered yet.
        self._sources: dict[int, RemoteQueue] = {}
        # Numbers of the questions by which consumers register anew in this run: the next run will ask others.
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
        # The client of a consumer that registers anew has its consume-ok: the question waits for a root without end.
        number = self._requests.ask(
            question, lambda answer: self._registered(source, consumer, done, answer), lasting=done is None
        )
        if done is None:
            self._again.append(number)
        return source

    def _move(self, consumer: Consumer, source: RemoteQueue) -> None:
        consumer.queue = source
        _follow(self.broker, consumer)
        # The buffer is empty: the consumer need not be asked whether it takes more.
        consumer.waiting = True

    def _registered(
        self, source: RemoteQueue, consumer: Consumer, done: Done | None, answer: Answer | AmqpError
    ) -> None:
        is_refused = isinstance(answer, AmqpError)
        if done is None:
            if is_refused and source.consumer is not None:
                self._lose(consumer)
        elif source.run.is_over and not is_refused and not _is_gone(consumer):
            # The broker that answered is not root any more, or has forgotten this consumer.
            self._register(consumer, done)
        elif is_refused or _is_gone(consumer):
            self._sources.pop(source.number, None)
            source.consumer = None
            done(answer)
        else:
            self._leadership.role.registered(consumer, source, lambda: done(answer))

    def follow(self, consumer: Consumer, source: RemoteQueue) -> None:
        """The consumer receives by this remote queue from now on."""
        self._consumers[consumer] = None
        self._move(consumer, source)

    def attach_here(self, consumer: Consumer) -> None:
        """This broker is root: the queue itself delivers from now on."""
        self._consumers.pop(consumer, None)
        if isinstance(consumer.queue, RemoteQueue):
            consumer.queue.empty(consumer)
        try:
            queue = self.broker.vhost(consumer.queue.vhost.name).queue(consumer.queue.name)
            demand_exclusive(queue, consumer.exclusive)
        except AmqpError:
            self._lose(consumer)
            return
        consumer.queue = queue
        consumer.waiting = False
        queue.add_consumer(consumer)

    def _lose(self, consumer: Consumer) -> None:
        """The queue is gone or refuses the consumer: tell the client."""
        self._consumers.pop(consumer, None)
        consumer.cancelled = True
        consumer.waiting = False
        if isinstance(consumer.queue, RemoteQueue):
            source = consumer.queue
            source.is_alive = False
            source.consumer = None
            source.empty(consumer)
            self._sources.pop(source.number, None)
        consumer.queue_deleted()

    def ended(self, source: RemoteQueue, consumer: Consumer) -> None:
        """The client has cancelled the consumer, or is gone."""
        self._consumers.pop(consumer, None)
        self._sources.pop(source.number, None)

    def cancelled(self, peer: str, message: Cancelled) -> None:
        source = self._sources.get(message.source)
        if peer == self._leadership.root and source is not None and source.consumer is not None:
            self._lose(source.consumer)

    def credit_changed(self, channel: Channel) -> None:
        """The prefetch of the whole channel has changed: tell the root the credit of its consumers."""
        for consumer in channel.consumers.values() if channel.consumers else ():
            source = consumer.queue
            if isinstance(source, RemoteQueue) and not source.run.is_over and source.credit != credit(consumer):
                source.credit = credit(consumer)
                self._tell(Prefetch(source.number, source.credit))

    def policies_changed(self, vhost: VirtualHost) -> None:
        """The policies of a virtual host have changed: its consumers here follow the new settings of their queues."""
        for consumer in list(self._consumers):
            if consumer.queue.vhost is vhost:
                _follow(self.broker, consumer)
                if not consumer.waiting:
                    consumer.wake()

    # -- deliveries

    def lane(self, connection: Connection, lane: Lane) -> Channel:
        """The receiving end of a channel of a peer's link that carries deliveries from now on."""
        source = self._sources.get(lane.source)
        peer = peer_name(connection)
        if source is None or peer != self._leadership.root:
            # Its client is gone, or it was asked for in an earlier run.
            self._links.send(peer, Cancel(lane.source))
            source = None
        tracer = self.broker.tracer
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
            self.broker.memory_accounts.hold(message)
        return GetResult(stand_in, Entry(message, told.number, 0, told.deliveries), told.left)

    def _fetched_here(self, channel: Channel, told: FetchedMessage, done: Done) -> None:
        """This broker became root while the question was open, and has answered it itself."""
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
        """There is a root, or another link to it: all consumers register anew."""
        self.root_lost()
        self._tell(Cancel(NO_CONSUMER))
        for consumer in list(self._consumers):
            before = consumer.queue
            after = self._register(consumer, None)
            if isinstance(before, RemoteQueue):
                after.inherit(before)

    def root_lost(self) -> None:
        """The root is lost: deliveries to consumers are void, and the consumers wait."""
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
        """This broker was root: its consumers wait for the next one, and their deliveries go back into the queues."""
        self.root_lost()
        for connection in self.broker.connections:
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
        """Tell the root how deliveries were settled in this turn."""
        if not self.dirty:
            return
        dirty = list(self.dirty)
        self.dirty.clear()
        for source in dirty:
            for report in source.reports():
                self._tell(report)

    def _tell(self, report: ConsumerReport) -> None:
        self._links.send(self._leadership.root, report)


def _follow(broker: Broker, consumer: Consumer) -> None:
    """Give a consumer the settings of its queue, by the definition of that queue here."""
    vhost = broker.vhosts.get(consumer.queue.vhost.name)
    queue = None if vhost is None else vhost.queues.get(consumer.queue.name)
    if queue is not None:
        consumer.follow_timeout(queue.settings.consumer_timeout_ms)
        consumer.follow_prefetch(queue.settings.consumer_prefetch_max)


def credit(consumer: Consumer) -> int:
    """How many unsettled deliveries a consumer may have, by its own and its channel's prefetch; 0 is without limit.

    Limits by policy are not counted: the root knows the policies itself.
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
    """All deliveries on a channel that its client has not settled, or settled and not committed."""
    yield from channel.unacked.values()
    if channel.transaction is not None:
        yield from channel.transaction.acks
        yield from (item for item, _ in channel.transaction.rejects)
