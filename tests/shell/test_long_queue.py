"""A queue that is longer than the memory its messages may take, in a real broker that is killed."""

from __future__ import annotations

import signal
from pathlib import Path

import pika
import psutil
import pytest

from tests.support.clients.broker_process import Broker, running_broker, stop

pytestmark = pytest.mark.sockets

MESSAGES = 100_000
SIZE = 1_000
GROWTH_MAX = 120_000_000
"""Without paging it is about 200 MB; what waits for the disk takes its part in both cases."""
SMALL = """
[limits]
queue_memory_bytes = 8000000
"""


def grown(broker: Broker, before: int) -> int:
    """By how many bytes its memory has."""
    assert broker.process is not None
    return psutil.Process(broker.process.pid).memory_info().rss - before


def fill(broker: Broker) -> None:
    """The last of them is confirmed, and so are all before it."""
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        channel.queue_declare("long", durable=True)
        properties = pika.BasicProperties(delivery_mode=2)
        rest = bytes(SIZE - 6)
        for number in range(MESSAGES):
            if number == MESSAGES - 1:
                channel.confirm_delivery()
            channel.basic_publish("", "long", b"%06d" % number + rest, properties)


def test_a_long_queue_stays_on_disk_and_comes_back_in_its_order(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    with running_broker(tmp_path, SMALL, "--data-dir", data) as broker:
        assert broker.process is not None and broker.log is not None
        before = psutil.Process(broker.process.pid).memory_info().rss
        fill(broker)
        assert grown(broker, before) < GROWTH_MAX, f"{grown(broker, before):,} bytes more than before"
        assert "publishers wait" not in broker.log_text()
        broker.process.send_signal(signal.SIGKILL)
        stop(broker.process, broker.log)
    with running_broker(tmp_path, SMALL, "--data-dir", data) as broker:
        assert broker.process is not None
        with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            channel = connection.channel()
            numbers = []
            for _, _, body in channel.consume("long", auto_ack=True, inactivity_timeout=5):
                if body is None:
                    break
                numbers.append(int(body[:6]))
                if len(numbers) == MESSAGES:
                    break
            channel.cancel()
            left = channel.queue_declare("long", passive=True).method.message_count
        assert numbers == list(range(MESSAGES)) and left == 0
        assert grown(broker, before) < GROWTH_MAX, f"{grown(broker, before):,} bytes more than before"
