"""How often the root changes, and how long there is none."""

from __future__ import annotations

from openclust.cluster.membership.root_changes import RootChanges
from openclust.cluster.protocol.status import Reign


def test_the_time_without_a_root_begins_with_the_broker_and_with_the_end_of_each_reign() -> None:
    changes = RootChanges(1_000)
    changes.follow(Reign(1, "p1"), 1_500, is_own=False)
    changes.follow(None, 5_000, is_own=False)
    changes.follow(None, 6_000, is_own=False)
    changes.follow(Reign(2, "p2"), 7_000, is_own=False)
    assert changes.waits.sum == 2.5 and sum(changes.waits.counts) == 2


def test_only_a_reign_after_another_one_is_a_change() -> None:
    changes = RootChanges(0)
    changes.follow(Reign(1, "p1"), 10, is_own=False)
    assert changes.count == 0, "the first reign that a broker hears of is no change"
    changes.follow(None, 20, is_own=False)
    changes.follow(Reign(1, "p1"), 30, is_own=False)
    assert changes.count == 0, "it is the same root again"
    changes.follow(Reign(2, "p2"), 40, is_own=True)
    assert (changes.count, changes.elected) == (1, 1)
