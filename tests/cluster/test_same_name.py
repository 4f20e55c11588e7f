"""Two clients declare the same name differently at the same moment, at two brokers: one of them wins, everywhere."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from tests.support.clients.pika_client import channel_closed, unique
from tests.support.cluster.running_cluster import Primary
from tests.support.cluster.whole_cluster import WholeCluster

pytestmark = pytest.mark.sockets

ROUNDS = 20


def at_once(brokers: Iterable[Primary], whole: WholeCluster, act: Callable[[int, BlockingChannel], Any]) -> list[int]:
    """Do something at several brokers at the same moment, each in a thread; what each was told, 0 for yes."""
    channels = [whole.channel(broker) for broker in brokers]
    told = [-1] * len(channels)
    start = threading.Barrier(len(channels))

    def run(number: int) -> None:
        start.wait()
        try:
            act(number, channels[number])
            told[number] = 0
        except ChannelClosedByBroker as error:
            told[number] = error.reply_code

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(channels))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return told


def test_of_queues_declared_differently_at_all_brokers_one_wins_everywhere(whole: WholeCluster) -> None:
    for _ in range(ROUNDS):
        name = unique("contested")
        told = at_once(
            whole.brokers.values(),
            whole,
            lambda number, channel, name=name: channel.queue_declare(name, arguments={"x-max-length": number + 1}),
        )
        assert sorted(told) == [0, 406, 406, 406, 406]
        winner = told.index(0)
        for broker in whole.brokers.values():
            assert whole.channel(broker).queue_declare(name, arguments={"x-max-length": winner + 1})
            with channel_closed(406, name):
                whole.channel(broker).queue_declare(name, arguments={"x-max-length": (winner + 1) % 5 + 1})
        whole.channel(whole.root()).queue_delete(name)
        whole.forget_channels()


def test_of_exchanges_declared_differently_at_two_secondaries_one_wins_everywhere(whole: WholeCluster) -> None:
    kinds = ("direct", "fanout")
    for _ in range(ROUNDS):
        name = unique("contested")
        told = at_once(
            whole.secondaries.values(),
            whole,
            lambda number, channel, name=name: channel.exchange_declare(name, kinds[number]),
        )
        assert sorted(told) == [0, 406]
        for broker in whole.brokers.values():
            whole.channel(broker).exchange_declare(name, kinds[told.index(0)])
        whole.channel(whole.root()).exchange_delete(name)
        whole.forget_channels()


def test_the_same_queue_declared_at_all_brokers_is_one(whole: WholeCluster) -> None:
    for _ in range(ROUNDS):
        name = unique("agreed")
        told = at_once(
            whole.brokers.values(), whole, lambda number, channel, name=name: channel.queue_declare(name, durable=True)
        )
        assert told == [0] * 5
        channel = whole.channel(whole.root())
        assert channel.queue_delete(name).method.message_count == 0
        with channel_closed(404, name):
            channel.queue_declare(name, passive=True)
        whole.forget_channels()


def test_a_queue_that_is_deleted_and_declared_at_the_same_moment_is_there_for_all_or_for_none(
    whole: WholeCluster,
) -> None:
    for _ in range(ROUNDS):
        name = unique("flickering")
        whole.channel(whole.root()).queue_declare(name)

        def act(number: int, channel: BlockingChannel, name: str = name) -> None:
            if number % 2:
                channel.queue_delete(name)
            else:
                channel.queue_declare(name)

        assert at_once(whole.brokers.values(), whole, act) == [0] * 5
        seen = set()
        for broker in whole.brokers.values():
            try:
                whole.channel(broker).queue_declare(name, passive=True)
                seen.add(200)
            except ChannelClosedByBroker as error:
                seen.add(error.reply_code)
        assert seen in ({200}, {404})
        whole.channel(whole.root()).queue_delete(name)
        whole.forget_channels()
