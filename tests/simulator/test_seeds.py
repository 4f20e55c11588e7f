"""Whole clusters in chaos: seeds that always run; and that faults would be noticed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec
import pytest

from openclust.broker.backlog.backlog import Entry
from openclust.broker.journal.journal import Journal
from openclust.broker.journal.store_rows import Keep, Write
from openclust.broker.queues.queue import Queue
from openclust.cluster.election.events import CaughtUp
from openclust.cluster.election.view import Terms
from openclust.cluster.log.catch_up import CatchUp
from openclust.cluster.log.following import Following
from openclust.cluster.log.log import Log
from openclust.cluster.log.replica import Replica
from openclust.cluster.log.rollback import Rollback
from openclust.cluster.protocol.messages import Held
from openclust.cluster.relay.meta_bindings import AdvertisedInterest
from openclust.cluster.relay.relay import Relay
from openclust.cluster.roles.follower import Follower
from openclust.cluster.shared_queues.forwarding import Forwarding
from openclust.cluster.shared_queues.root_requests import RootRequests
from openclust.cluster.snapshot.contents import Passing
from tests.simulator import sweeping
from tests.simulator.disk import ForgetfulDisk
from tests.simulator.run import run
from tests.simulator.store import ModelStore

SEEDS = 40
BROKEN_SEEDS_MAX = 300


@pytest.mark.parametrize("first", range(0, SEEDS, 10))
def test_whatever_happens_all_that_is_promised_holds(first: int) -> None:
    for seed in range(first, first + 10):
        run(seed)


def test_a_seed_is_a_run() -> None:
    once: list[str] = []
    again: list[str] = []
    assert run(4, tell=once.append) == run(4, tell=again.append)
    assert once == again and len(once) > 1_000


# -- what would be noticed


def first_failure(**options: Any) -> str:
    return sweeping.first_failure(partial(run, **options), BROKEN_SEEDS_MAX)


def test_a_failure_says_how_to_see_it_again() -> None:
    failure = first_failure(steps=599, primaries=3, secondaries=1, disk=ForgetfulDisk)
    seed = failure.partition(":")[0].removeprefix("seed ")
    options = "--steps 599 --primaries 3 --secondaries 1 --trace"
    assert failure.endswith(f"python -m tests.simulator --seed {seed} {options}")


def test_two_roots_at_a_time_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Terms, "lease_ms", property(lambda terms: terms.wait_ms * 5))
    assert "root at the same time" in first_failure(primaries=3)


def test_roots_without_what_was_committed_before_them_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def begin(catch_up: CatchUp) -> None:
        """Fetch nothing."""
        catch_up._elector.tell(CaughtUp(catch_up._broker.now_ms, catch_up._epoch))

    monkeypatch.setattr(CatchUp, "begin", begin)
    assert " had committed up to " in first_failure(primaries=3)


def test_changes_that_get_lost_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Replica, "apply", lambda replica, entry: None)
    assert "has other definitions" in first_failure(primaries=3)


def test_a_log_with_a_gap_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    tail = Log.tail
    monkeypatch.setattr(Log, "tail", lambda log, *after: (tail(log, *after) or [])[1:] or tail(log, *after))
    failure = first_failure(primaries=3)
    assert "gap" in failure or "has other definitions" in failure, failure[:300]


def test_messages_that_come_back_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    sends = Relay._sends

    def to_all(relay: Relay, names: list[str], forward: bool) -> Any:
        found = sends(relay, names, forward)
        return found + found

    monkeypatch.setattr(Relay, "_sends", to_all)
    assert " twice" in first_failure(primaries=3)


def test_meta_bindings_that_are_not_withdrawn_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    count = AdvertisedInterest.count
    monkeypatch.setattr(
        AdvertisedInterest, "count", lambda told, item, by, *number: count(told, item, by, *number) if by > 0 else None
    )
    failure = first_failure(primaries=3)
    assert any(each in failure for each in ("otherwise than bound", "too much", "still holds meta-bind")), failure[:300]


def test_questions_that_are_not_asked_again_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RootRequests, "ask_again", lambda asking: None)
    monkeypatch.setattr(RootRequests, "tick", lambda asking: None)
    failure = first_failure(primaries=3)
    assert "has not answered" in failure or "asked questions" in failure, failure[:300]


def test_messages_that_nobody_settles_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Forwarding, "settled", lambda forwarding, peer, message: None)
    failure = first_failure(primaries=3)
    told = ("has not answered", "in vain for confirms", "has not settled")
    assert any(each in failure for each in told), failure[:300]


def test_followers_that_do_not_come_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Follower, "met", lambda follower: None)
    assert first_failure(primaries=3)


# -- what is kept


def test_confirms_that_come_before_the_disk_has_it_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Journal, "has", lambda journal, number, places: True)
    assert "is lost" in first_failure(primaries=3)


def test_followers_that_say_of_what_they_hold_that_it_is_on_disk_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def tell_held(following: Following) -> None:
        last = following._log.last
        following._links.send(following._root, Held(epoch=following._epoch, position=last, on_disk=last))

    monkeypatch.setattr(Following, "_tell_held", tell_held)
    assert " had committed up to " in first_failure(primaries=3)


def test_a_disk_that_loses_rows_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    perform = ModelStore.perform

    def some(store: ModelStore, writes: Sequence[Write]) -> None:
        perform(store, [each for each in writes if not (isinstance(each, Keep) and each.sequence % 17 == 16)])

    monkeypatch.setattr(ModelStore, "perform", some)
    assert "cannot begin with what it has kept" in first_failure(primaries=3)


def test_checkpoints_that_do_not_tell_what_has_left_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    check = ModelStore._check
    replace = msgspec.structs.replace
    monkeypatch.setattr(ModelStore, "_check", lambda store, each: check(store, replace(each, dead=[])))
    failure = first_failure(primaries=3)
    assert "has other messages" in failure or "cannot begin with what it has kept" in failure, failure[:300]


def test_a_journal_that_forgets_what_leaves_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Journal, "left", lambda journal, queue, entry: None)
    assert "has other messages" in first_failure(primaries=3)


def test_snapshots_without_messages_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Passing, "_all", lambda passing: iter(()))
    assert "has other messages" in first_failure(primaries=3)


def test_entries_that_are_not_undone_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Rollback, "back_to", lambda undo, position: [])
    failure = first_failure(primaries=3)
    assert "has other definitions" in failure or "has other messages" in failure, failure[:300]


def test_keys_of_dedup_windows_that_are_not_replicated_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    restore = Queue.restore

    def without_key(queue: Queue, entry: Entry) -> Entry | None:
        window, queue.dedup = queue.dedup, None
        try:
            return restore(queue, entry)
        finally:
            queue.dedup = window

    monkeypatch.setattr(Queue, "restore", without_key)
    assert "when they were published again" in first_failure(primaries=3)
