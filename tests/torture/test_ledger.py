"""The counting of a torture run must find what it is there to find."""

from __future__ import annotations

from tests.torture.gaps import Gaps
from tests.torture.ledger import REPEATED, REPUBLISHED, UNEXPLAINED, Count, Ledger, Stream


def stream_of(count: int, priorities: int = 1) -> Stream:
    """A stream whose messages were all sent once and confirmed."""
    stream = Stream("orders", 0, priorities)
    for number in range(count):
        assert stream.new(float(number)) == number
        stream.confirmed(number, number + 0.5)
    return stream


def take(stream: Stream, number: int, attempt: int = 1, is_redelivered: bool = False) -> None:
    stream.received(number, attempt, is_redelivered, stream.body(number), 100.0 + number, "p1")


def counted(stream: Stream) -> Count:
    count = Count(stream.queue)
    stream.add_to(count)
    return count


def test_a_confirmed_message_that_never_came_is_lost() -> None:
    stream = stream_of(3)
    take(stream, 0)
    take(stream, 2)
    assert stream.missing == 1
    (lost,) = counted(stream).lost
    assert lost.message_id == "orders/0/1"
    assert lost.confirmed_at == 1.5


def test_what_was_not_confirmed_is_not_lost() -> None:
    stream = Stream("orders", 0)
    stream.new(0.0)
    assert counted(stream).lost_count == 0
    assert counted(stream).unconfirmed == 1


def test_a_message_may_come_before_its_confirm() -> None:
    stream = Stream("orders", 0)
    take(stream, stream.new(0.0))
    stream.confirmed(0, 1.0)
    stream.confirmed(0, 2.0)
    assert stream.missing == 0
    assert counted(stream).confirmed == 1


def test_a_message_that_comes_after_a_later_one_is_out_of_order() -> None:
    stream = stream_of(3)
    for number in (0, 2, 1):
        take(stream, number)
    (seen,) = counted(stream).disordered
    assert (seen.message_id, seen.after, seen.confirmed_at, seen.received_at) == ("orders/0/1", 2, 1.5, 101.0)


def test_order_holds_within_a_priority() -> None:
    stream = stream_of(6, priorities=3)
    for number in (2, 5, 1, 4, 0, 3):
        take(stream, number)
    assert counted(stream).disordered_count == 0
    stream = stream_of(6, priorities=3)
    for number in (5, 2):
        take(stream, number)
    assert counted(stream).disordered_count == 1


def test_what_was_redelivered_or_sent_again_has_no_place_in_the_order() -> None:
    stream = stream_of(4)
    stream.again(1)
    take(stream, 3)
    take(stream, 1, attempt=2)
    take(stream, 2, is_redelivered=True)
    assert counted(stream).disordered_count == 0


def test_what_came_late_and_was_refused_is_not_out_of_order() -> None:
    stream = stream_of(3)
    for number in (2, 0, 1):
        take(stream, number)
    assert counted(stream).disordered_count == 2
    stream.again(0)
    assert counted(stream).disordered_count == 1
    (seen,) = counted(stream).disordered
    assert seen.message_id == "orders/0/1"


def test_every_duplicate_has_a_kind() -> None:
    stream = stream_of(3)
    take(stream, 0)
    take(stream, 0, is_redelivered=True)
    take(stream, 1)
    stream.again(1)
    take(stream, 1, attempt=2)
    take(stream, 2)
    take(stream, 2)
    assert counted(stream).duplicates == {REPEATED: 1, REPUBLISHED: 1, UNEXPLAINED: 1}
    assert counted(stream).received == 3
    assert [each.message_id for each in counted(stream).unflagged] == ["orders/0/2"]


def test_what_was_never_sent_is_told() -> None:
    ledger = Ledger()
    stream = ledger.stream("orders", 0)
    stream.new(0.0)
    for message_id, attempt in (
        ("orders/0/1", 1),
        ("orders/0/0", 2),
        ("orders/7/0", 1),
        ("else", 1),
        ("orders/0/0", ""),
    ):
        ledger.received("orders", message_id, attempt, False, b"", 1.0, "p1")
    ledger.received("mails", "orders/0/0", 1, False, stream.body(0), 1.0, "p1")
    assert [len(count.never_sent) for count in ledger.counts()] == [5, 1]


def test_a_damaged_message_is_told() -> None:
    stream = stream_of(1)
    stream.received(0, 1, False, stream.body(0)[:-1], 1.0, "p1")
    assert counted(stream).damaged == ["orders/0/0"]


def test_an_outage_is_counted_only_while_somebody_tries() -> None:
    gaps = Gaps()
    gaps.begin(1.0)
    gaps.begin(2.0)
    gaps.confirmed(3.0)
    gaps.confirmed(3.05)
    gaps.end(4.05)
    gaps.begin(60.0)
    gaps.end(60.5)
    assert [round(gap.length_s, 2) for gap in gaps.found] == [2.0, 1.0, 0.5]
    assert gaps.longest.since == 1.0
