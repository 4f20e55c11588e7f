from __future__ import annotations

import pytest

from openclust.bench.client import frames
from openclust.bench.client.bench_errors import BenchError
from openclust.bench.client.confirm_counter import ConfirmCounter


def ack(tag: int, multiple: bool = False) -> bytes:
    return frames.ACK_FRAME.pack(frames.METHOD, 1, 13, *frames.BASIC_ACK, tag, multiple, frames.FRAME_END)


def test_confirms_one_by_one_are_counted() -> None:
    confirms = ConfirmCounter()
    assert confirms.feed(ack(1) + ack(2)) == []
    assert (confirms.confirmed, confirms.below) == (2, 2)


def test_a_multiple_confirm_counts_for_all_before_it_once() -> None:
    confirms = ConfirmCounter()
    confirms.feed(ack(2) + ack(5, multiple=True) + ack(5, multiple=True))
    assert (confirms.confirmed, confirms.below) == (5, 5)


def test_confirms_out_of_order_are_counted_at_once_and_joined_later() -> None:
    confirms = ConfirmCounter()
    confirms.feed(ack(3) + ack(2))
    assert (confirms.confirmed, confirms.below) == (2, 0)
    confirms.feed(ack(1))
    assert (confirms.confirmed, confirms.below) == (3, 3)


def test_a_multiple_confirm_joins_what_was_ahead_of_it() -> None:
    confirms = ConfirmCounter()
    confirms.feed(ack(4) + ack(3, multiple=True))
    assert (confirms.confirmed, confirms.below) == (4, 4)


@pytest.mark.parametrize("cut", range(1, 42))
def test_confirms_may_come_in_pieces(cut: int) -> None:
    confirms, stream = ConfirmCounter(), ack(1) + ack(2)
    assert confirms.feed(stream[:cut]) + confirms.feed(stream[cut:]) == []
    assert confirms.confirmed == 2


@pytest.mark.parametrize("cut", range(0, 60, 3))
def test_other_frames_between_confirms_are_handed_back(cut: int) -> None:
    blocked = frames.method(0, frames.CONNECTION_BLOCKED, frames.short_string("low on memory"))
    confirms, stream = ConfirmCounter(), ack(1) + blocked + ack(2)
    others = confirms.feed(stream[:cut]) + confirms.feed(stream[cut:])
    assert [frame.ids for frame in others] == [frames.CONNECTION_BLOCKED]
    assert confirms.confirmed == 2


def test_a_close_right_after_confirms_does_not_wait_for_more_bytes() -> None:
    confirms = ConfirmCounter()
    (closing,) = confirms.feed(ack(1) + frames.connection_close())
    assert frames.close_reason(closing) == "200 bench done"


def test_a_frame_shorter_than_a_confirm_is_handed_back_at_once() -> None:
    confirms = ConfirmCounter()
    (unblocked,) = confirms.feed(ack(1) + frames.method(0, frames.CONNECTION_UNBLOCKED))
    assert unblocked.ids == frames.CONNECTION_UNBLOCKED


def test_a_nack_is_an_error() -> None:
    nack = frames.ACK_FRAME.pack(frames.METHOD, 1, 13, *frames.BASIC_NACK, 1, 0, frames.FRAME_END)
    with pytest.raises(BenchError, match="refused a message"):
        ConfirmCounter().feed(nack)
