"""What must hold of a broker between turns, counted again from scratch."""

from __future__ import annotations

from collections import Counter

from openclust.broker.amqp.channel import OPEN, Channel
from openclust.broker.amqp.transaction import Unacked
from openclust.broker.delivery.consumer import Consumer
from openclust.broker.model.message import Message
from openclust.broker.queues.queue import Queue
from openclust.broker.routing.exchange import Target
from openclust.broker.server.broker import Broker
from openclust.broker.server.vhost import VirtualHost


def check_accounts(broker: Broker) -> None:
    """AssertionError where a sum, a list or a back reference does not fit what is really there."""
    assert not broker.dead_letters and not broker.confirming and not broker.effects and not broker.dirty
    channels = [channel for connection in broker.connections for channel in connection.channels.values()]
    out = [item for channel in channels for item in _unacked(channel)]
    for vhost in broker.vhosts.values():
        _check_topology(vhost)
        for queue in vhost.queues.values():
            _check_queue(queue, out, channels)
    assert broker.queue_count == sum(len(vhost.queues) for vhost in broker.vhosts.values()), "queue_count"
    bindings = sum(len(each.bindings) for vhost in broker.vhosts.values() for each in vhost.exchanges.values())
    assert broker.binding_count == bindings, f"binding_count is {broker.binding_count}, there are {bindings}"
    assert broker.open_count() == sum(hasattr(connection, "vhost") for connection in broker.connections), "open_count"
    for connection in broker.turn_waiters:
        assert connection in broker.connections, "a lost connection waits for its turn"
    _check_books(broker, channels, out)
    _check_channels(channels, out)
    _check_replies(broker, channels)
    _check_deadlines(broker, channels)


def _unacked(channel: Channel) -> list[Unacked]:
    items = list(channel.unacked.values())
    if channel.transaction is not None:
        items += channel.transaction.acks
        items += [item for item, _ in channel.transaction.rejects]
    return items


def _check_books(broker: Broker, channels: list[Channel], out: list[Unacked]) -> None:
    holders: Counter[int] = Counter()
    messages: dict[int, Message] = {}
    held = [
        entry.message for vhost in broker.vhosts.values() for queue in vhost.queues.values() for entry in queue.backlog
    ]
    for message in [*held, *(item.entry.message for item in out)]:
        holders[id(message)] += 1
        messages[id(message)] = message
    for key, message in messages.items():
        assert message.holders == holders[key], f"{message.holders} holders, counted {holders[key]}"
    total = sum(message.cost for message in messages.values())
    for channel in channels:
        total += channel.incoming.got if channel.incoming is not None else 0
        total += channel.transaction.held_bytes if channel.transaction is not None else 0
    assert broker.memory_accounts.held_bytes == total, (
        f"held_bytes is {broker.memory_accounts.held_bytes}, the messages cost {total}"
    )
    pending = sum(connection.pending_bytes for connection in broker.connections)
    assert broker.memory_accounts.outbox_bytes == pending, (
        f"outbox_bytes is {broker.memory_accounts.outbox_bytes}, pending are {pending}"
    )


def _check_topology(vhost: VirtualHost) -> None:
    targets: set[Target] = {*vhost.queues.values(), *vhost.exchanges.values()}
    incoming: Counter[object] = Counter()
    for exchange in vhost.exchanges.values():
        for binding in exchange.bindings.values():
            assert binding.source is exchange
            assert binding.target in targets, f"{exchange.name} is bound to {binding.target.name}, which is gone"
            assert binding in (binding.target.incoming or ()), "a target does not know of a binding"
            incoming[binding.target] += 1
    for target in targets:
        assert len(target.incoming or ()) == incoming[target], f"{target.name} remembers a binding that is gone"
    for routes in vhost._routes.values():
        for route in routes.values():
            for queue in route.destinations:
                assert queue.is_alive, f"a cached route leads to {queue.name}, which is gone"


def _check_queue(queue: Queue, out: list[Unacked], channels: list[Channel]) -> None:
    name = queue.name
    entries = list(queue.backlog)
    assert len(entries) == len(queue.backlog), f"{name}: the backlog's length"
    assert queue.ready_bytes == sum(len(entry.message.body) for entry in entries), f"{name}: ready_bytes"
    assert queue.unacked == sum(item.queue is queue for item in out), f"{name}: unacked is {queue.unacked}"
    sequence = [entry.seq for entry in entries]
    assert len(set(sequence)) == len(sequence), f"{name}: a message stands in the queue twice"
    if queue.owner is not None:
        assert queue.owner.owned is not None and queue.owner.owned.get(name) is queue, f"{name}: its owner forgot it"
    assert set(queue.consumers.ready) <= set(queue.consumers.all), f"{name}: a consumer that left waits for its turn"
    for consumer in queue.consumers.all:
        assert consumer.channel in channels and consumer.channel.state == OPEN, f"{name}: a dead channel consumes"
        assert (consumer.channel.consumers or {}).get(consumer.tag) is consumer, (
            f"{name}: its channel forgot a consumer"
        )
        assert consumer.waiting is (consumer in queue.consumers.ready), f"{name}: a consumer's `waiting`"
        assert not (entries and _could_be_served(queue, consumer)), (
            f"{name}: a message and a consumer wait for each other"
        )
    if queue.direct is not None:
        assert queue.direct in queue.consumers.all and not entries and queue.direct.can_take(), (
            f"{name}: `direct` is stale"
        )


def _could_be_served(queue: Queue, consumer: Consumer) -> bool:
    return consumer.can_take() and (not queue.consumers.single_active or queue.consumers.active() is consumer)


def _check_channels(channels: list[Channel], out: list[Unacked]) -> None:
    by_consumer = Counter(id(item.consumer) for item in out)
    for channel in channels:
        assert channel.connection.channels.get(channel.number) is channel
        if channel.state != OPEN:
            assert not channel.unacked and not channel.consumers and channel.incoming is None, "a dead channel holds on"
        for tag in channel.unacked:
            assert channel.lowest_tag <= tag <= channel.delivery_tag, "a delivery outside the range of tags"
        for consumer in (channel.consumers or {}).values():
            assert consumer.unacked == by_consumer[id(consumer)], f"a consumer counts {consumer.unacked} unacknowledged"
            # A policy that comes later bounds what it gets, and takes nothing back.
            asked = consumer.prefetch_asked
            assert not asked or consumer.unacked <= asked, "more than the prefetch is out"
            assert consumer is getattr(channel.reply, "consumer", None) or (
                consumer.queue.is_alive and consumer in consumer.queue.consumers.all
            ), "a consumer of nothing"


def _check_replies(broker: Broker, channels: list[Channel]) -> None:
    alive = {channel.reply.address for channel in channels if channel.reply is not None}
    assert set(broker.replies) == alive, "a reply address of a dead channel"


def _check_deadlines(broker: Broker, channels: list[Channel]) -> None:
    for at_ms, _, waiter in broker.deadlines._heap:
        if waiter.deadline_ms != at_ms:
            continue  # deleted, and dropped when its time comes
        if isinstance(waiter, Queue):
            assert waiter.is_alive, f"{waiter.name} is gone and waits for a deadline"
        elif isinstance(waiter, Channel):
            assert waiter in channels, "a dead channel waits for a deadline"
