"""What must hold of a broker whenever it rests, whatever was done to it."""

from __future__ import annotations

from collections import Counter

from openclust.broker.amqp.channel import OPEN, Channel
from openclust.broker.amqp.transaction import Unacked
from openclust.broker.delivery.consumer import Consumer
from openclust.broker.model.message import Message
from openclust.broker.queues.queue import Queue
from openclust.broker.server.broker import Broker
from openclust.wire.handshake import State


def check(broker: Broker) -> None:
    """Raise AssertionError for anything that does not add up."""
    assert not broker.dead_letters and not broker.confirming and not broker.effects and not broker.dirty
    channels = [channel for connection in broker.connections for channel in connection.channels.values()]
    unacked = [(channel, item) for channel in channels for item in _unacked_of(channel)]
    queues = [queue for vhost in broker.vhosts.values() for queue in vhost.queues.values()]
    _check_memory(broker, queues, [item for _, item in unacked])
    _check_counts(broker, queues)
    of_queue = Counter(id(item.queue) for _, item in unacked)
    of_consumer = Counter(id(item.consumer) for _, item in unacked if item.consumer is not None)
    for queue in queues:
        assert queue.unacked == of_queue[id(queue)], f"{queue.name}: {queue.unacked} unacked"
        _check_queue(broker, queue, of_consumer)
    for channel in channels:
        _check_channel(channel)
    for connection in broker.connections:
        if connection.state in (State.CLOSING, State.CLOSED):
            assert not connection.channels and not connection.owned, "given back"


def _unacked_of(channel: Channel) -> list[Unacked]:
    items = list(channel.unacked.values())
    if channel.transaction is not None:
        items += channel.transaction.acks
        items += [item for item, _ in channel.transaction.rejects]
    return items


def _check_memory(broker: Broker, queues: list[Queue], unacked: list[Unacked]) -> None:
    holders: Counter[int] = Counter()
    messages: dict[int, Message] = {}
    held = [entry.message for queue in queues for entry in queue.backlog] + [item.entry.message for item in unacked]
    for message in held:
        messages[id(message)] = message
        holders[id(message)] += 1
    for key, message in messages.items():
        assert message.holders == holders[key], f"{message.body!r}: {message.holders} holders, not {holders[key]}"
    held_bytes = sum(message.cost for message in messages.values())
    in_progress = _in_progress_bytes(broker)
    assert broker.memory_accounts.held_bytes == held_bytes + in_progress, (
        f"{broker.memory_accounts.held_bytes} bytes, not {held_bytes}"
    )
    assert broker.memory_accounts.outbox_bytes == sum(connection.pending_bytes for connection in broker.connections)


def _in_progress_bytes(broker: Broker) -> int:
    """What transactions and half-sent messages hold."""
    total = 0
    for connection in broker.connections:
        for channel in connection.channels.values():
            total += channel.transaction.held_bytes if channel.transaction is not None else 0
            total += channel.incoming.got if channel.incoming is not None else 0
    return total


def _check_counts(broker: Broker, queues: list[Queue]) -> None:
    assert broker.queue_count == len(queues)
    exchanges = [exchange for vhost in broker.vhosts.values() for exchange in vhost.exchanges.values()]
    bindings = [binding for exchange in exchanges for binding in exchange.bindings.values()]
    assert broker.binding_count == len(bindings)
    incoming = [binding for target in exchanges for binding in target.incoming or ()]
    incoming += [binding for queue in queues for binding in queue.incoming or ()]
    assert Counter(map(id, incoming)) == Counter(map(id, bindings)), "both ends know a binding"
    assert broker.open_count() == sum(hasattr(connection, "vhost") for connection in broker.connections)
    _check_usage(broker)


def _check_usage(broker: Broker) -> None:
    opened = [each for each in broker.connections if hasattr(each, "vhost")]
    clients = [each for each in opened if not each.peer.is_peer and not each.peer.is_internal]
    usage = broker.usage
    assert usage.vhost_connections == Counter(each.vhost.name for each in clients)
    assert usage.user_connections == Counter(each.user.name for each in clients)
    channels = Counter(dict.fromkeys(usage.user_channels, 0))
    for each in clients:
        channels[each.user.name] += len(each.channels)
    assert usage.user_channels == +channels
    for vhost in broker.vhosts.values():
        assert vhost.private_count == sum(queue.owner is not None for queue in vhost.queues.values())


def _check_queue(broker: Broker, queue: Queue, of_consumer: Counter[int]) -> None:
    entries = list(queue.backlog)
    assert len(queue) == len(entries)
    assert queue.ready_bytes == sum(len(entry.message.body) for entry in entries)
    settings = queue.settings
    if settings.max_length is not None:
        assert len(queue) <= settings.max_length
    consumers = list(queue.consumers)
    for consumer in consumers:
        assert consumer.unacked == of_consumer[id(consumer)], f"{consumer.tag}: {consumer.unacked} unacked"
        assert (consumer in queue.consumers.ready) is consumer.waiting
        assert consumer.channel.state == OPEN and consumer.channel.consumers is not None
        assert consumer.channel.consumers[consumer.tag] is consumer
        assert consumer.channel.connection in broker.connections
        if entries and _may_take(queue, consumer):
            raise AssertionError(f"{queue.name}: {len(entries)} messages wait, though {consumer.tag} could take one")
    assert set(queue.consumers.ready) <= set(consumers)
    if queue.direct is not None:
        assert consumers == [queue.direct] and not entries and queue.direct.no_ack and queue.direct.can_take()
    due = queue.backlog.next_expiry_ms()
    if due:
        assert due > broker.now_ms, "what has expired is gone"
        assert 0 < queue.deadline_ms <= due, "somebody will look when the head expires"
    if settings.expires_ms is not None and not consumers:
        assert queue.deadline_ms, "somebody will look when the queue expires"


def _may_take(queue: Queue, consumer: Consumer) -> bool:
    if queue.consumers.single_active and queue.consumers.active() is not consumer:
        return False
    return consumer.can_take()


def _check_channel(channel: Channel) -> None:
    assert channel.credit_used == sum(item.consumer is not None for item in _unacked_of(channel))
    for tag, item in channel.unacked.items():
        assert tag == item.tag and channel.lowest_tag <= tag <= channel.delivery_tag
        assert item.consumer is None or item.consumer.channel is channel
    if channel.state != OPEN:
        assert not channel.unacked and not channel.consumers and channel.incoming is None
    elif any(item.consumer is not None and item.consumer.timeout_ms for item in channel.unacked.values()):
        soonest = min(
            item.since_ms + item.consumer.timeout_ms
            for item in channel.unacked.values()
            if item.consumer is not None and item.consumer.timeout_ms
        )
        # Looked at again at most 100 ms late, so that many deliveries do not make many looks.
        assert 0 < channel.deadline_ms <= max(soonest, channel.broker.now_ms + 100)
