"""One broker process for all tests here: openclust, or what OPENCLUST_TEST_URL names (RabbitMQ, to check the tests)."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.clients.broker_process import Broker, broker_at, running_broker
from tests.support.clients.pika_client import Client


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    if url := os.environ.get("OPENCLUST_TEST_URL"):
        yield broker_at(url)
        return
    with running_broker(tmp_path_factory.mktemp("broker")) as started:
        yield started


@pytest.fixture
def openclust_only(broker: Broker) -> None:
    """For what only openclust has, or where it means to differ."""
    if not broker.is_openclust:
        pytest.skip("a feature of openclust; this run talks to another broker")


@pytest.fixture
def own_process() -> None:
    """For tests that start a broker with special settings themselves."""
    if os.environ.get("OPENCLUST_TEST_URL"):
        pytest.skip("this run talks to the broker that OPENCLUST_TEST_URL names")


@pytest.fixture
def client(broker: Broker) -> Iterator[Client]:
    client = Client(broker)
    yield client
    client.close()


@pytest.fixture
def channel(client: Client) -> BlockingChannel:
    return client.channel()
