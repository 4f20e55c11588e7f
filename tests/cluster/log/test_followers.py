"""The root's followers: who counts for what is committed, and who waits for it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from openclust.cluster.log.commit_index import CommitIndex
from openclust.cluster.log.followers import PATIENCE_BEATS, Followers, Waiting
from openclust.cluster.log.log import Log
from openclust.cluster.protocol.log_entry import LogEntry
from openclust.cluster.protocol.status import Position
from openclust.wire.errors import ChannelError

HEARTBEAT_MS = 100
WAIT_MS = 30_000
NOTHING = Position()


def at(sequence: int) -> Position:
    return Position(1, sequence)


class Root:
    """A root of some primaries, whose log and disk go as far as they are told to."""

    def __init__(self, primaries: int = 3, *, is_forced: bool = False) -> None:
        names = tuple(f"p{number + 1}" for number in range(primaries))
        self.log = Log()
        self.commit_index = CommitIndex()
        self.broker: Any = SimpleNamespace(now_ms=1_000)
        self.elector: Any = SimpleNamespace(is_forced=is_forced)
        self.log_store: Any = SimpleNamespace(on_disk=NOTHING)
        links: Any = SimpleNamespace(primaries=names, heartbeat_ms=HEARTBEAT_MS)
        self.followers = Followers(
            self.broker, links, self.elector, self.log, self.log_store, self.commit_index, wait_ms=WAIT_MS
        )
        self.results: list[Any] = []

    def append(self, *, to_disk: bool = True) -> Position:
        self.log.append(LogEntry(at(self.log.last.sequence + 1), "work", b"x"))
        if to_disk:
            self.log_store.on_disk = self.log.last
        self.followers.advance()
        return self.log.last

    def follower(self, name: str, held: int = 0, on_disk: int = 0, *, is_pledged: bool = False) -> None:
        self.followers.add(name, at(held), at(on_disk), is_late=False, is_pledged=is_pledged)
        self.followers.advance()

    def held(self, name: str, held: int, on_disk: int, *, is_pledged: bool = False) -> None:
        self.followers.held(name, at(held), at(on_disk), is_pledged=is_pledged)
        self.followers.advance()
        self.followers.settle()

    def wait(self, position: Position) -> None:
        """Somebody waits for a change at that position."""
        self.followers.wait(Waiting(None, position, self.results.append, "made", self.broker.now_ms))
        self.followers.settle()

    @property
    def committed(self) -> tuple[int, int]:
        """The sequences up to which the log is committed: in memory, on disk."""
        return self.commit_index.memory.sequence, self.commit_index.disk.sequence


@pytest.mark.parametrize(("primaries", "needed"), [(3, 2), (4, 2), (5, 3), (6, 3), (7, 4)])
def test_an_entry_is_committed_when_half_of_the_primaries_hold_it(primaries: int, needed: int) -> None:
    root = Root(primaries)
    root.append()
    for number in range(2, primaries + 1):
        assert (root.committed == (1, 1)) is (number > needed)
        root.follower(f"p{number}", 1, 1)
    assert root.committed == (1, 1)


@pytest.mark.parametrize("primaries", [1, 2])
def test_a_root_of_one_or_two_primaries_is_half_of_them_itself(primaries: int) -> None:
    root = Root(primaries)
    root.append()
    assert root.committed == (1, 1)
    root.append(to_disk=False)
    assert root.committed == (2, 1)


def test_an_entry_is_committed_on_disk_later_than_in_memory() -> None:
    root = Root()
    root.append(to_disk=False)
    root.follower("p2", 1, 0)
    assert root.committed == (1, 0)
    root.held("p2", 1, 1)
    assert root.committed == (1, 0), "it is on the disk of one"
    root.log_store.on_disk = at(1)
    root.followers.advance()
    assert root.committed == (1, 1)


def test_disks_of_others_make_up_for_the_root_s_own() -> None:
    root = Root()
    root.append(to_disk=False)
    root.follower("p2", 1, 1)
    root.follower("p3", 1, 1)
    assert root.committed == (1, 1)


def test_who_is_no_defined_primary_counts_for_nothing() -> None:
    root = Root()
    root.append()
    root.follower("s1", 1, 1)
    root.follower("s2", 1, 1)
    assert root.committed == (0, 0)


def test_who_may_yet_make_another_root_by_its_vote_counts_for_nothing() -> None:
    root = Root()
    root.append()
    root.follower("p2", 1, 1, is_pledged=True)
    assert root.committed == (0, 0)
    root.held("p2", 1, 1, is_pledged=False)
    assert root.committed == (1, 1)


def test_what_was_committed_stays_so_when_a_follower_goes_or_comes_back_with_less() -> None:
    root = Root()
    root.append()
    root.follower("p2", 1, 1)
    root.followers.remove("p2")
    root.followers.advance()
    assert root.committed == (1, 1)
    root.append()
    root.follower("p2")
    assert root.committed == (1, 1)


def test_a_root_by_force_commits_alone_until_it_has_half_of_the_primaries() -> None:
    root = Root(is_forced=True)
    root.append()
    assert root.committed == (1, 1)
    root.elector.is_forced = False
    root.append()
    assert root.committed == (1, 1)
    root.follower("p2", 2, 2)
    assert root.committed == (2, 2)


def test_who_waits_for_a_change_is_told_when_it_is_on_enough_disks() -> None:
    root = Root()
    root.follower("p2")
    root.wait(root.append())
    root.held("p2", 1, 0)
    assert root.results == [] and root.followers.waiting == 1
    root.held("p2", 1, 1)
    assert root.results == ["made"] and root.followers.waiting == 0


def test_a_change_waits_a_while_for_a_follower_that_usually_answers() -> None:
    root = Root()
    root.follower("p2")
    root.follower("p3")
    root.wait(root.append())
    root.held("p2", 1, 1)
    assert root.results == [], "p3 may answer yet"
    root.broker.now_ms += PATIENCE_BEATS * HEARTBEAT_MS
    root.followers.settle()
    assert root.results == ["made"]
    root.wait(root.append())
    root.held("p2", 2, 2)
    assert root.results == ["made", "made"], "it is late, and nobody waits for it"


def test_nobody_waits_for_ever() -> None:
    root = Root()
    root.wait(root.append())
    root.broker.now_ms += WAIT_MS
    root.followers.settle()
    assert root.results == []
    root.broker.now_ms += 1
    root.followers.settle()
    (error,) = root.results
    assert isinstance(error, ChannelError) and f"have not had it for {WAIT_MS} ms" in error.text


def test_a_follower_lags_behind_in_memory_and_on_disk() -> None:
    root = Root()
    root.follower("p2")
    for _ in range(3):
        root.append()
    root.held("p2", 2, 1)
    assert (root.followers.lag("p2"), root.followers.lag_on_disk("p2")) == (1, 2)
    assert root.followers.lag("p3") is None and root.followers.lag_on_disk("p3") is None
