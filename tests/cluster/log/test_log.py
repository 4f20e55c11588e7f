"""The log beside a naive one: what is kept, what a peer lacks, and what is too old."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclust.cluster.log.log import Log
from openclust.cluster.protocol.log_entry import LogEntry
from openclust.cluster.protocol.status import Position


def entry(epoch: int, sequence: int, body: bytes = b"") -> LogEntry:
    return LogEntry(Position(epoch, sequence), "change", body)


def filled(count: int, *, epoch: int = 1, **bounds: int) -> Log:
    log = Log(**bounds)
    for sequence in range(1, count + 1):
        log.append(entry(epoch, sequence, b"%d" % sequence))
    return log


def sequences(entries: list[LogEntry] | None) -> list[int] | None:
    return None if entries is None else [each.position.sequence for each in entries]


def test_an_empty_log_lacks_nothing_and_knows_nobody() -> None:
    log = Log()
    assert log.last == log.base == Position()
    assert log.tail(Position()) == []
    assert log.tail(Position(1, 1)) is None
    assert log.tail(Position(1, 0)) is None


def test_a_tail_is_what_follows() -> None:
    log = filled(3)
    assert log.last == Position(1, 3)
    assert sequences(log.tail(Position())) == [1, 2, 3]
    assert sequences(log.tail(Position(1, 1))) == [2, 3]
    assert log.tail(Position(1, 3)) == []
    assert log.tail(Position(1, 4)) is None


def test_a_tail_may_be_asked_for_in_parts() -> None:
    log = filled(7, entries_max=5)
    assert sequences(log.tail(Position(1, 2), 2)) == [3, 4]
    assert sequences(log.tail(Position(1, 6), 2)) == [7]
    assert log.tail(Position(1, 2), 0) == []
    assert log.tail(Position(1, 1), 0) is None


def test_a_position_of_another_epoch_is_not_in_the_log() -> None:
    log = filled(2)
    log.append(entry(3, 3))
    assert log.tail(Position(3, 2)) is None
    assert log.tail(Position(2, 3)) is None
    assert log.tail(Position(1, 3)) is None
    assert sequences(log.tail(Position(1, 2))) == [3]


def test_the_oldest_entries_are_dropped_and_the_base_moves() -> None:
    log = filled(5, entries_max=3)
    assert len(log) == 3
    assert log.base == Position(1, 2)
    assert log.tail(Position(1, 1)) is None
    assert log.tail(Position()) is None, "who knows nothing needs a snapshot"
    assert sequences(log.tail(Position(1, 2))) == [3, 4, 5]


def test_the_bytes_of_the_bodies_are_bounded() -> None:
    log = Log(bytes_max=10)
    for sequence in (1, 2, 3):
        log.append(entry(1, sequence, b"four"))
    assert log.held_bytes == 8
    assert sequences(log.tail(Position(1, 1))) == [2, 3]
    log.append(entry(1, 4, b"eleven bytes"))
    assert log.held_bytes == 0
    assert log.base == log.last == Position(1, 4), "what is larger than all of it is not kept"
    assert log.tail(Position(1, 4)) == []


def test_after_a_snapshot_the_log_goes_on_from_there() -> None:
    log = filled(3)
    log.restart(Position(4, 70))
    assert len(log) == log.held_bytes == 0
    assert log.tail(Position(4, 70)) == []
    assert log.tail(Position()) is None
    assert log.tail(Position(1, 3)) is None
    log.append(entry(4, 71))
    assert sequences(log.tail(Position(4, 70))) == [71]


@pytest.mark.parametrize("position", [Position(2, 3), Position(2, 5), Position(1, 4)])
def test_what_does_not_follow_is_our_own_mistake(position: Position) -> None:
    log = filled(3, epoch=2)
    with pytest.raises(AssertionError):
        log.append(LogEntry(position, "change", b""))


def test_an_entry_travels_as_a_short_array() -> None:
    one = LogEntry(Position(1, 2), "opening", b"\xff")
    data = msgspec.msgpack.encode(one)
    assert msgspec.msgpack.decode(data)[1:] == ["opening", b"\xff"]
    assert msgspec.msgpack.decode(data, type=LogEntry) == one


class _Naive:
    """All entries ever, and which of them are kept."""

    def __init__(self, entries_max: int, bytes_max: int) -> None:
        self.entries_max, self.bytes_max = entries_max, bytes_max
        self.positions = [Position()]
        self.kept: list[LogEntry] = []

    def append(self, entry: LogEntry) -> None:
        self.positions.append(entry.position)
        self.kept.append(entry)
        while len(self.kept) > self.entries_max or sum(len(each.body) for each in self.kept) > self.bytes_max:
            self.kept.pop(0)

    def restart(self, at: Position) -> None:
        self.positions = [at]
        self.kept = []

    @property
    def base(self) -> Position:
        return self.positions[-1 - len(self.kept)]

    def tail(self, after: Position) -> list[LogEntry] | None:
        known = self.positions[-1 - len(self.kept) :]
        return self.kept[known.index(after) :] if after in known else None


_steps = st.one_of(
    st.tuples(st.just("append"), st.sampled_from((0, 0, 0, 1, 2)), st.binary(max_size=6)),
    st.tuples(st.just("append"), st.just(0), st.binary(max_size=6)),
    st.tuples(st.just("restart"), st.integers(0, 3), st.integers(0, 30)),
)


@given(st.integers(0, 8), st.integers(0, 30), st.lists(_steps, max_size=60))
def test_the_log_is_what_a_naive_one_is(entries_max: int, bytes_max: int, steps: list[tuple[Any, ...]]) -> None:
    log, naive = Log(entries_max=entries_max, bytes_max=bytes_max), _Naive(entries_max, bytes_max)
    for name, epoch, what in steps:
        if name == "append":
            added = entry(log.last.epoch + epoch, log.last.sequence + 1, what)
            log.append(added)
            naive.append(added)
        else:
            log.restart(Position(epoch, what))
            naive.restart(Position(epoch, what))
        assert (log.base, log.last, len(log)) == (naive.base, naive.positions[-1], len(naive.kept))
        assert log.held_bytes == sum(len(each.body) for each in naive.kept)
    asked = {Position(epoch, sequence) for epoch in range(4) for sequence in range(40)}
    for after in sorted(asked | set(naive.positions)):
        assert log.tail(after) == naive.tail(after), after
