"""Crowds of a few, at a real broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from openclust.bench.brokers.local_broker import StartedBroker
from openclust.bench.client import frames
from openclust.bench.client.bench_connection import BenchConnection
from openclust.bench.client.bench_errors import BenchError
from openclust.bench.crowd import crowd as crowd_module
from openclust.bench.crowd.crowd import Crowd, Gather, delivery_size
from openclust.bench.crowd.gathering import gather

BODY = bytes(100)


@pytest.fixture(scope="module")
def broker() -> Iterator[StartedBroker]:
    with StartedBroker() as started:
        yield started


@pytest.fixture
def publisher(broker: StartedBroker) -> Iterator[BenchConnection]:
    connection = BenchConnection(broker.url)
    yield connection
    connection.close()


@pytest.fixture
def crowd(broker: StartedBroker, publisher: BenchConnection) -> Iterator[Crowd]:
    publisher.call(frames.exchange_declare(1, "crowded", "fanout"), frames.EXCHANGE_DECLARE_OK)
    made = Crowd(Gather(url=broker.url, exchange="crowded", name="few", connections=6, queues_each=2))
    yield made
    made.close()


def message(exchange: str = "crowded") -> bytes:
    return frames.publish(1, exchange, "tick", BODY, frame_max=4_096, persistent=False)


def test_a_delivery_is_as_long_as_its_frames() -> None:
    delivery = message()
    assert delivery_size(delivery) == len(delivery)
    assert delivery_size(delivery * 2) == len(delivery)


def test_a_first_delivery_in_pieces_cannot_be_measured() -> None:
    with pytest.raises(BenchError, match="take a smaller --size"):
        delivery_size(message()[:-1])


@pytest.mark.sockets
def test_every_queue_of_a_crowd_gets_every_message(crowd: Crowd, publisher: BenchConnection) -> None:
    publisher.send(message())
    first = crowd.listen(0)
    assert (first.queues, first.size > len(BODY)) == (12, True)
    publisher.send(message())
    second = crowd.listen(first.size)
    assert second.size == first.size and second.last_ns > first.last_ns


@pytest.mark.sockets
def test_a_message_that_does_not_come_is_missed(crowd: Crowd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crowd_module, "RECEIVE_SECONDS", 0.1)
    with pytest.raises(BenchError, match="6 of 6 subscribers did not get a message"):
        crowd.listen(0)


@pytest.mark.sockets
def test_a_message_that_comes_twice_is_noticed(crowd: Crowd, publisher: BenchConnection) -> None:
    publisher.send(message())
    size = crowd.listen(0).size
    publisher.send(message() * 2)
    with pytest.raises(BenchError, match="more to a subscriber than was published"):
        crowd.listen(size)
        crowd.listen(size)


@pytest.mark.sockets
def test_a_gathering_counts_weighs_and_times(broker: StartedBroker) -> None:
    found = gather(
        [broker.url],
        (broker.pid,),
        subscribers=20,
        per_connection=4,
        messages=3,
        size=100,
        tell=lambda _: None,
    )
    assert (found.subscribers, found.connections, len(found.last_receipts_ms)) == (20, 5, 3)
    assert found.attaches_per_s > 0 and min(found.last_receipts_ms) > 0
    assert found.rss_idle >= found.rss_before > 0
