"""The methods by which a channel receives: consume, cancel, get, qos, flow, and the answers to deliveries."""

from __future__ import annotations

from functools import partial

from openclust.broker.amqp.channel import Channel, handles
from openclust.broker.amqp.declaring import named_queue
from openclust.broker.amqp.deferred_reply import answer
from openclust.broker.amqp.trace import TracedConsumer
from openclust.broker.backlog.backlog import Entry
from openclust.broker.cluster_port import GetResult
from openclust.broker.delivery.consumer import Consumer, Origin, pack_tag
from openclust.broker.delivery.direct_reply import REPLY_PREFIX, REPLY_TO, ReplyQueue
from openclust.broker.model.message import counted_header
from openclust.broker.queues.queue import Queue
from openclust.wire.errors import (
    ACCESS_REFUSED,
    NOT_ALLOWED,
    NOT_IMPLEMENTED,
    PRECONDITION_FAILED,
    RESOURCE_ERROR,
    ChannelError,
    ConnectionError,
)
from openclust.wire.frames import ENVELOPE, FRAME_METHOD, content_frames
from openclust.wire.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetEmpty,
    BasicNack,
    BasicQos,
    BasicQosOk,
    BasicRecover,
    BasicRecoverAsync,
    BasicRecoverOk,
    BasicReject,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelFlowOk,
)
from openclust.wire.table import Table


@handles(BasicQos)
def basic_qos(channel: Channel, method: BasicQos) -> None:
    """As in RabbitMQ: without `global` for each new consumer, with it for all consumers of the channel together."""
    if method.prefetch_size:
        raise ConnectionError(NOT_IMPLEMENTED, f"prefetch_size != 0 ({method.prefetch_size})")
    # kombu expects the specification's meaning of any broker that is not called RabbitMQ: there a qos without `global`
    # is for the whole channel. Celery relies on that, and raises its prefetch while tasks wait for their eta.
    by_specification = channel.connection.client_properties.get("product") == "py-amqp"
    if method.global_ or by_specification:
        channel.prefetch_all = method.prefetch_count
        # In the specification prefetch does not count for consumers without acks; in RabbitMQ that of a channel does.
        channel.prefetch_binds_no_ack = method.global_ and method.prefetch_count > 0
        channel.broker.cluster.credit_changed(channel)
        channel.pause_consumers()
        channel.wake_consumers()
    else:
        channel.prefetch_each = method.prefetch_count
    channel.send(BasicQosOk())


@handles(ChannelFlow)
def channel_flow(channel: Channel, method: ChannelFlow) -> None:
    channel.flowing = method.active
    channel.send(ChannelFlowOk(active=method.active))
    if method.active:
        channel.wake_consumers()
    else:
        channel.pause_consumers()


@handles(ChannelFlowOk)
def channel_flow_ok(channel: Channel, method: ChannelFlowOk) -> None:
    """Nothing to do: this broker never sends channel.flow."""


@handles(ChannelClose)
def channel_close(channel: Channel, method: ChannelClose) -> None:
    channel.send_confirms()
    channel.release()
    channel.send(ChannelCloseOk())
    channel.connection.forget_channel(channel)


@handles(BasicConsume)
def basic_consume(channel: Channel, method: BasicConsume) -> None:
    consumers = channel.consumers if channel.consumers is not None else {}
    tag = method.consumer_tag or channel.broker.name_consumer()
    if tag in consumers:
        raise ConnectionError(NOT_ALLOWED, f"attempt to reuse consumer tag '{tag}'")
    limit = channel.broker.limits.consumers_per_channel_max
    if len(consumers) >= limit:
        raise ChannelError(RESOURCE_ERROR, f"this channel has {limit} consumers, the most it may have")
    if method.queue == REPLY_TO:
        _consume_replies(channel, method, consumers, tag)
        return
    connection = channel.connection
    name = named_queue(channel, method.queue)
    connection.demand("read", name)
    queue = connection.vhost.queue(name, connection)
    is_traced = channel.broker.tracer is not None and queue.owner is None
    consumer = (TracedConsumer if is_traced else Consumer)(
        channel,
        queue,
        tag,
        no_ack=method.no_ack,
        exclusive=method.exclusive,
        priority=_priority(method.arguments),
        arguments=method.arguments,
    )
    consumer.timeout_ms = _timeout(method.arguments, queue.settings.consumer_timeout_ms, channel)

    def attached(_: object = None) -> None:
        channel.consumers = consumers
        consumers[tag] = consumer
        if not method.no_wait:
            channel.send(BasicConsumeOk(consumer_tag=tag))

    if channel.broker.cluster.is_elsewhere(queue):
        answer(channel, method, partial(channel.broker.cluster.consume, consumer), attached)
        return
    demand_exclusive(queue, method.exclusive)
    attached()
    queue.add_consumer(consumer)


def demand_exclusive(queue: Queue, exclusive: bool) -> None:
    """Raise 403 if the queue has an exclusive consumer, or cannot get one."""
    place = f"queue '{queue.name}' in vhost '{queue.vhost.name}'"
    others = queue.consumers.all
    if exclusive and queue.args.single_active_consumer:
        raise ChannelError(ACCESS_REFUSED, f"{place} in exclusive use: it has a single active consumer")
    if any(other.exclusive for other in others) or (exclusive and others):
        raise ChannelError(ACCESS_REFUSED, f"{place} in exclusive use")


def _priority(arguments: Table) -> int:
    priority = arguments.get("x-priority", 0)
    if isinstance(priority, bool) or not isinstance(priority, int):
        raise ChannelError(PRECONDITION_FAILED, f"invalid arg 'x-priority' of a consumer: {priority!r} is not a number")
    return priority


def _timeout(arguments: Table, of_queue_ms: int | None, channel: Channel) -> int:
    """How long a delivery may wait for its ack: by the consumer, its queue, or the broker's default."""
    timeout_ms = arguments.get("x-consumer-timeout", of_queue_ms)
    if timeout_ms is None:
        return channel.broker.limits.consumer_timeout_ms
    if isinstance(timeout_ms, bool) or not isinstance(timeout_ms, int) or timeout_ms < 0:
        text = f"invalid arg 'x-consumer-timeout' of a consumer: {timeout_ms!r} is not a number of milliseconds"
        raise ChannelError(PRECONDITION_FAILED, text)
    return timeout_ms


def _consume_replies(channel: Channel, method: BasicConsume, consumers: dict[str, Consumer], tag: str) -> None:
    if not method.no_ack:
        raise ChannelError(PRECONDITION_FAILED, "reply consumer cannot acknowledge")
    if channel.reply is not None:
        raise ChannelError(PRECONDITION_FAILED, "reply consumer already set")
    broker = channel.broker
    # The broker's name in the address tells other brokers where to send replies.
    reply = ReplyQueue(channel.connection.vhost, f"{REPLY_PREFIX}{broker.name}.{broker.unguessable()}")
    channel.reply = reply
    channel.broker.replies[reply.address] = reply
    channel.consumers = consumers
    consumers[tag] = reply.attach(channel, tag)
    if not method.no_wait:
        channel.send(BasicConsumeOk(consumer_tag=tag))


@handles(BasicCancel)
def basic_cancel(channel: Channel, method: BasicCancel) -> None:
    """Cancelling a consumer that does not exist succeeds, as in RabbitMQ."""
    consumer = channel.consumers.pop(method.consumer_tag, None) if channel.consumers else None
    if consumer is not None:
        if channel.reply is not None and channel.reply.consumer is consumer:
            channel.close_reply_address()
        else:
            channel.connection.vhost.drop_consumer(consumer)
    if not method.no_wait:
        channel.send(BasicCancelOk(consumer_tag=method.consumer_tag))


@handles(BasicCancelOk)
def basic_cancel_ok(channel: Channel, method: BasicCancelOk) -> None:
    """A client's answer to our basic.cancel: nothing to do."""


@handles(BasicGet)
def basic_get(channel: Channel, method: BasicGet) -> None:
    connection = channel.connection
    name = named_queue(channel, method.queue)
    connection.demand("read", name)
    queue = connection.vhost.queue(name, connection)
    limit = channel.broker.limits.unacked_per_channel_max
    if not method.no_ack and channel.held_count() >= limit:
        raise ChannelError(RESOURCE_ERROR, f"this channel has {limit} deliveries to acknowledge, the most it may have")
    if channel.broker.cluster.is_elsewhere(queue):

        def reply(got: GetResult | None) -> None:
            if got is None:
                channel.got_empty += 1
                channel.send(BasicGetEmpty())
            else:
                _send_got(channel, got, method.no_ack)

        answer(channel, method, partial(channel.broker.cluster.get, channel, queue, method.no_ack), reply)
        return
    entry = queue.get(no_ack=method.no_ack)
    if entry is None:
        channel.got_empty += 1
        channel.send(BasicGetEmpty())
        return
    _send_got(channel, GetResult(queue, entry, len(queue)), method.no_ack)
    queue.refresh_direct()


def fetched_header(queue: Origin, entry: Entry) -> bytes:
    """The content header of a message that basic.get fetches."""
    counted = entry.deliveries and queue.settings.queue_type == "quorum"
    return counted_header(entry.message, entry.deliveries) if counted else entry.message.header


def _send_got(channel: Channel, got: GetResult, no_ack: bool) -> None:
    queue, entry = got.queue, got.entry
    connection = channel.connection
    channel.delivery_tag = tag = channel.delivery_tag + 1
    message = entry.message
    header = fetched_header(queue, entry)
    redelivered = b"\0"
    if entry.deliveries:
        redelivered = b"\1"
        channel.redelivered += 1
    # The suffix begins with `redelivered` and ends with the frame end; the message count goes before that.
    payload = b"\0\x3c\0\x47%b%b%b%b" % (
        pack_tag(tag),
        redelivered,
        message.suffix[1:-1],
        min(got.left, 0xFFFF_FFFF).to_bytes(4, "big"),
    )
    connection.send(b"%b%b\xce" % (ENVELOPE.pack(FRAME_METHOD, channel.number, len(payload)), payload))
    connection.send(content_frames(channel.number, header, message.body, connection.frame_max))
    if channel.broker.tracer is not None:
        channel.broker.tracer.delivered(message, queue.name)
    if no_ack:
        channel.got_no_ack += 1
        queue.forget(entry)
    else:
        channel.got += 1
        channel.remember(tag, queue, None, entry)


@handles(BasicAck)
def basic_ack(channel: Channel, method: BasicAck) -> None:
    channel.ack(method.delivery_tag, method.multiple)


@handles(BasicNack)
def basic_nack(channel: Channel, method: BasicNack) -> None:
    _refuse(channel, method.delivery_tag, method.multiple, method.requeue)


@handles(BasicReject)
def basic_reject(channel: Channel, method: BasicReject) -> None:
    _refuse(channel, method.delivery_tag, False, method.requeue)


def _refuse(channel: Channel, tag: int, multiple: bool, back: bool) -> None:
    items = channel.take_unacked(tag, multiple)
    if channel.transaction is not None:
        channel.transaction.rejects.extend((item, back) for item in items)
        return
    channel.refused += len(items)
    if back:
        channel.take_back(items)
    else:
        for item in items:
            item.queue.reject(item.entry)
            channel.credit(item)


@handles(BasicRecover)
def basic_recover(channel: Channel, method: BasicRecover) -> None:
    _recover(channel, method.requeue)
    channel.send(BasicRecoverOk())


@handles(BasicRecoverAsync)
def basic_recover_async(channel: Channel, method: BasicRecoverAsync) -> None:
    _recover(channel, method.requeue)


def _recover(channel: Channel, back: bool) -> None:
    if not back:
        raise ConnectionError(NOT_IMPLEMENTED, "requeue=false: recover can only return messages to their queues")
    items = list(channel.unacked.values())
    channel.unacked.clear()
    channel.refused += len(items)
    channel.take_back(items)
