"""The commit index: it only grows, disk never ahead of memory, and neither ahead of the log."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from openclust.cluster.log.commit_index import CommitIndex
from openclust.cluster.protocol.status import Position
from tests.support.examples import examples


def at(sequence: int, epoch: int = 1) -> Position:
    return Position(epoch, sequence)


def test_nothing_is_committed_at_first() -> None:
    index = CommitIndex()
    assert index.memory == index.disk == Position()


def test_what_is_committed_stays_so_when_fewer_say_that_they_hold_it() -> None:
    index = CommitIndex()
    index.advance(at(5), at(3))
    index.advance(at(2), at(1))
    assert (index.memory, index.disk) == (at(5), at(3))


def test_what_a_root_says_of_memories_says_nothing_of_disks() -> None:
    index = CommitIndex()
    index.advance(at(5), at(3))
    index.advance(at(8))
    assert (index.memory, index.disk) == (at(8), at(3))


def test_an_entry_of_a_later_epoch_is_further_however_small_its_number() -> None:
    index = CommitIndex()
    index.advance(at(9), at(9))
    index.advance(at(3, epoch=2), at(9))
    assert (index.memory, index.disk) == (at(3, epoch=2), at(9))


def test_nothing_behind_the_end_of_the_log_is_committed() -> None:
    index = CommitIndex()
    index.advance(at(9), at(7))
    index.cut(at(8))
    assert (index.memory, index.disk) == (at(8), at(7))
    index.cut(at(4))
    assert (index.memory, index.disk) == (at(4), at(4))


def test_a_snapshot_says_nothing_of_what_is_committed() -> None:
    index = CommitIndex()
    index.advance(at(9), at(7))
    index.forget()
    assert index.memory == index.disk == Position()


positions = st.builds(Position, st.integers(0, 3), st.integers(0, 9))
steps = st.lists(
    st.one_of(st.tuples(st.just("advance"), positions, positions), st.tuples(st.just("cut"), positions)), max_size=20
)


@examples(50)
@given(steps)
def test_disks_are_never_ahead_of_memories_and_only_a_cut_goes_back(steps: list[tuple[object, ...]]) -> None:
    index = CommitIndex()
    for name, *arguments in steps:
        memory, disk = index.memory, index.disk
        getattr(index, str(name))(*arguments)
        assert index.disk <= index.memory
        if name == "advance":
            assert index.memory >= memory and index.disk >= disk
        else:
            assert index.memory <= arguments[0] and index.memory <= memory and index.disk <= disk
