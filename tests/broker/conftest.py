"""Brokers for tests of the core, each checked for what must hold when its test is over."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from openclust.broker.server.broker import Broker
from tests.support import client
from tests.support.client import Client
from tests.support.invariants import check


@pytest.fixture
def new_broker() -> Iterator[Callable[..., Broker]]:
    """Make a broker with these limits; in the end its memory accounts must be right, and empty when all have gone."""
    brokers: list[Broker] = []

    def make(**limits: int) -> Broker:
        brokers.append(client.new_broker(**limits))
        return brokers[-1]

    yield make
    for broker in brokers:
        client.turn(broker)
        check(broker)
        for connection in list(broker.connections):
            broker.connection_lost(connection)
        client.turn(broker)
        check(broker)
        assert not broker.connections and not broker.replies and broker.open_count() == 0


@pytest.fixture
def broker(new_broker: Callable[..., Broker]) -> Broker:
    return new_broker()


@pytest.fixture
def alice(broker: Broker) -> Client:
    return Client(broker)


@pytest.fixture
def bob(broker: Broker) -> Client:
    return Client(broker, "other")
