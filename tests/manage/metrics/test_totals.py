"""What is counted anew for each scrape."""

from __future__ import annotations

import asyncio

from openclust.broker.amqp.channel import SIZE_SAMPLE_EVERY
from openclust.manage.metrics.totals import PassedMessages, ScrapeTotals, count
from openclust.wire.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    ChannelClose,
    ChannelCloseOk,
    ConfirmSelect,
    ConfirmSelectOk,
)
from tests.support.client import Client, new_broker


def totals_of(client: Client) -> ScrapeTotals:
    return asyncio.run(count(client.broker))


def test_it_counts_clients_and_the_messages_of_queues() -> None:
    client = Client(new_broker())
    client.queue("work")
    client.queue("idle")
    for number in range(4):
        client.publish("work", b"abc" if number else b"")
    client.call(BasicConsume(queue="idle"), BasicConsumeOk)
    found = totals_of(client)
    assert (found.connections, found.channels, found.consumers, found.publishers) == (1, 1, 1, 1)
    assert (found.queues, found.ready, found.unacked, found.ready_bytes, found.queue_consumers) == (2, 4, 0, 9, 1)
    assert found.unattended == 1, "messages wait in one queue that nobody consumes"


def test_messages_of_open_and_of_closed_channels_are_counted_once() -> None:
    client = Client(new_broker())
    client.queue("work")
    client.call(ConfirmSelect(), ConfirmSelectOk)
    client.publish("work", b"1")
    client.publish("nowhere", b"2")
    client.call(BasicConsume(queue="work"), BasicConsumeOk)
    client.send(BasicAck(delivery_tag=1))
    before = totals_of(client)
    counts = before.counts
    assert (counts.publish, counts.confirm, before.confirming, counts.drop_unroutable) == (2, 2, 2, 1)
    assert (counts.deliver, counts.ack, before.routed) == (1, 1, 1)
    client.call(ChannelClose(), ChannelCloseOk)
    after = totals_of(client)
    assert (after.counts, after.confirming) == (counts, before.confirming)


def test_a_channel_that_is_closed_while_others_are_counted_does_not_count_twice() -> None:
    client = Client(new_broker())
    client.publish("nowhere", b"1")
    passed = PassedMessages()
    passed.add(client.connection.channels.values())
    client.call(ChannelClose(), ChannelCloseOk)
    counts, _ = passed.total(client.broker)
    assert counts.publish == 1


def test_the_size_of_one_in_so_many_messages_counts_for_all_of_them() -> None:
    broker = new_broker()
    client = Client(broker)
    for _ in range(SIZE_SAMPLE_EVERY * 3):
        client.publish("nowhere", b"x" * 500)
    sizes = broker.message_sizes
    assert sizes.counts[1] == sum(sizes.counts) == SIZE_SAMPLE_EVERY * 3 and sizes.sum == 500 * sum(sizes.counts)


def test_sizes_of_messages_from_many_channels_with_few_messages_are_counted_too() -> None:
    broker = new_broker()
    for _ in range(SIZE_SAMPLE_EVERY):
        client = Client(broker)
        client.publish("nowhere", b"x")
        client.close()
    assert sum(broker.message_sizes.counts) == SIZE_SAMPLE_EVERY
