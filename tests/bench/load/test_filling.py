"""A queue filled and emptied, at a real openclust."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from openclust.bench.brokers.local_broker import StartedBroker
from openclust.bench.client.bench_errors import BenchError
from openclust.bench.load.filling import count, empty, fill

pytestmark = pytest.mark.sockets


@pytest.fixture(scope="module")
def broker() -> Iterator[StartedBroker]:
    with StartedBroker() as started:
        yield started


@pytest.mark.parametrize(("messages", "size"), [(1, 0), (4_321, 100), (50, 300_000)])
def test_what_was_filled_in_is_counted_and_comes_out_again(broker: StartedBroker, messages: int, size: int) -> None:
    seen: list[int] = []
    assert fill(broker.url, "q", messages, size, seen.append) > 0
    assert seen[-1] == messages
    assert count(broker.url, "q") == messages
    first_s, all_s = empty(broker.url, "q", messages, seen.append)
    assert 0 < first_s <= all_s
    assert seen[-1] == messages
    assert count(broker.url, "q") == 0


def test_a_message_too_many_is_noticed(broker: StartedBroker) -> None:
    fill(broker.url, "more", 11, 10, lambda _: None)
    with pytest.raises(BenchError, match="11 messages were in 'more', not 10"):
        empty(broker.url, "more", 10, lambda _: None)


def test_a_queue_that_is_not_there_is_no_empty_queue(broker: StartedBroker) -> None:
    with pytest.raises(BenchError, match="404"):
        count(broker.url, "nowhere")
