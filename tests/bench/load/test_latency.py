from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from openclust.bench.client.bench_errors import BenchError
from openclust.bench.load.latency import STAMP, DeliveryShape, SampledStream

SHAPE = DeliveryShape(size=50, body_at=30)


@pytest.fixture
def stream() -> Iterator[SampledStream]:
    with socket.socket() as sock:  # never connected: bytes are handed in by `look`
        made = SampledStream(sock, SHAPE)
        yield made


def deliveries(count: int, stamped: int) -> bytearray:
    data = bytearray(b"\xff" * (count * SHAPE.size))
    STAMP.pack_into(data, stamped * SHAPE.size + SHAPE.body_at, time.perf_counter_ns())
    return data


def feed(stream: SampledStream, data: bytearray, step: int) -> None:
    for at in range(0, len(data), step):
        piece = data[at : at + step]
        stream.look(piece, len(piece))


@pytest.mark.parametrize("step", [500, 50, 100, 70, 38])
def test_only_the_expected_place_is_read(stream: SampledStream, step: int) -> None:
    stream.expect(3)
    feed(stream, deliveries(10, stamped=3), step)
    (latency,) = stream.latencies_ns
    assert 0 < latency < 5_000_000_000


def test_a_latency_is_taken_when_the_last_byte_is_there(stream: SampledStream) -> None:
    stream.expect(0)
    data = deliveries(1, stamped=0)
    stream.look(data, 49)
    assert stream.latencies_ns == []
    stream.look(data[49:], 1)
    assert len(stream.latencies_ns) == 1


def test_a_stamp_in_two_pieces_is_one_sample_less(stream: SampledStream) -> None:
    stream.expect(0)
    stream.expect(2)
    data = deliveries(3, stamped=2)
    stream.look(data, 33)
    stream.look(data[33:], len(data) - 33)
    assert len(stream.latencies_ns) == 1


def test_a_delivery_in_another_place_than_counted_is_an_error(stream: SampledStream) -> None:
    stream.expect(1)
    with pytest.raises(BenchError, match="one size"):
        feed(stream, deliveries(2, stamped=0), 100)


def test_a_stamp_from_before_the_round_is_an_error(stream: SampledStream) -> None:
    stream.expect(0)
    data = deliveries(1, stamped=0)
    STAMP.pack_into(data, SHAPE.body_at, time.perf_counter_ns() - 60_000_000_000)
    with pytest.raises(BenchError, match="not where it should be"):
        stream.look(data, len(data))


def test_an_expected_delivery_that_never_came_is_an_error(stream: SampledStream) -> None:
    stream.expect(5)
    feed(stream, deliveries(3, stamped=0), 50)
    with pytest.raises(BenchError, match="not where it should be"):
        stream.finish()
