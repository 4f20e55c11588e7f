"""Placing while clients keep coming: brokers that all decide by rosters that are a second or two old."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from itertools import islice

import pytest

from openclust.cluster.placing.placing import Newcomer, Placing
from openclust.cluster.protocol.redirect import Redirect
from openclust.cluster.protocol.roster import BrokerInfo, Roster

STEP_MS = 10
TELL_EVERY_MS = 1_000
REDIRECT_MS = 30
NEW = Newcomer()
REDIRECTED = Newcomer(is_redirected=True)

Dealing = Callable[[int, Sequence[str]], str]
"""The broker that the client of this number comes to."""


def evenly(number: int, names: Sequence[str]) -> str:
    return names[number % len(names)]


def to_one(number: int, names: Sequence[str]) -> str:
    return names[1]


def two_to_one(number: int, names: Sequence[str]) -> str:
    twice = [name for place, name in enumerate(names) for _ in range(1 + place % 2)]
    return twice[number % len(twice)]


class Cluster:
    """Brokers that tell of themselves once a second, each at its own time; the first of them is root."""

    def __init__(self, count: int, weights: Sequence[int] = ()) -> None:
        self.now_ms = 1_000_000
        self.counts: Counter[str] = Counter()
        self.redirects: Counter[int] = Counter()
        """By the second of arrival."""
        self.came = 0
        self.settings: dict[str, Redirect] = {}
        self._placing: dict[str, Placing] = {}
        self._told: dict[str, tuple[BrokerInfo, int]] = {}
        self._roster = Roster()
        self._underway: deque[tuple[int, str]] = deque()
        for number in range(count):
            self.join(weights[number] if weights else 1)
        self.run(2_000)

    def join(self, weight: int = 1) -> None:
        name = f"b{len(self.settings)}"
        self.settings[name] = Redirect(weight=weight)
        self._placing[name] = Placing(name, "key", self.settings[name])
        self._tell(name)

    def run(self, duration_ms: int, rate: int = 0, dealing: Dealing = evenly, leaving: int = 0) -> None:
        """So many clients come, and of every broker so many leave, in a second."""
        came, began_ms = self.came, self.now_ms
        names = list(self.settings)
        for _ in range(duration_ms // STEP_MS):
            self._tell_what_is_due()
            while self._underway and self._underway[0][0] <= self.now_ms:
                _, name = self._underway.popleft()
                self._placing[name].came(REDIRECTED)
                self.counts[name] += 1
            if leaving and (self.now_ms - began_ms) % (1_000 // leaving) < STEP_MS:
                self.counts.subtract({name: 1 for name in names if self.counts[name]})
            while self.came < came + rate * (self.now_ms - began_ms) // 1_000:
                self._come(dealing(self.came, names), (self.now_ms - began_ms) // 1_000)
            self.now_ms += STEP_MS

    def settle(self) -> None:
        self.run(3 * TELL_EVERY_MS)

    def uneven(self) -> float:
        """By how much the broker that is farthest from its share misses it."""
        weights = sum(each.weight for each in self.settings.values())
        shares = {name: self.counts.total() * each.weight / weights for name, each in self.settings.items()}
        return max(abs(self.counts[name] - share) / share for name, share in shares.items())

    def redirected(self) -> float:
        return self.redirects.total() / self.came

    def _come(self, name: str, second: int) -> None:
        self.came += 1
        placing = self._placing[name]
        placing.came(NEW)
        target = placing.choose(NEW, self.counts[name])
        if target is None:
            self.counts[name] += 1
            return
        placing.sent(target)
        self.redirects[second] += 1
        self._underway.append((self.now_ms + REDIRECT_MS, target.name))

    def _tell_what_is_due(self) -> None:
        for number, name in enumerate(self.settings):
            if (self.now_ms + 370 * number) % TELL_EVERY_MS == 0:
                self._tell(name)
        if self.now_ms % TELL_EVERY_MS == 0:
            brokers = (self._aged(*self._told[name]) for name in sorted(self._told))
            self._roster = Roster(root="b0", brokers=tuple(brokers))
        for placing in self._placing.values():
            placing.heard(self._roster, self.now_ms)

    def _tell(self, name: str) -> None:
        info = BrokerInfo(
            name=name,
            client=f"{name}:1",
            connections=self.counts[name],
            newcomers=self._placing[name].newcomers,
            redirected=self._placing[name].redirected,
            weight=self.settings[name].weight,
        )
        self._told[name] = (info, self.now_ms)

    def _aged(self, info: BrokerInfo, told_ms: int) -> BrokerInfo:
        return BrokerInfo(
            name=info.name,
            client=info.client,
            connections=info.connections,
            newcomers=info.newcomers,
            redirected=info.redirected,
            weight=info.weight,
            age_ms=self.now_ms - told_ms,
        )


@pytest.mark.parametrize("brokers", [2, 3, 8])
def test_clients_that_come_evenly_stay_where_they_come(brokers: int) -> None:
    cluster = Cluster(brokers)
    cluster.run(45_000, rate=400, dealing=evenly)
    cluster.settle()
    assert cluster.redirected() < 0.05
    # Only in the beginning, when nobody knows yet that the others have newcomers too.
    assert sum(count for second, count in cluster.redirects.items() if second >= 4) < 0.005 * cluster.came
    assert cluster.uneven() < 0.02


@pytest.mark.parametrize("brokers", [2, 3, 8])
def test_clients_that_all_come_to_one_broker_are_spread_by_one_redirect_each(brokers: int) -> None:
    cluster = Cluster(brokers)
    cluster.run(20_000, rate=400, dealing=to_one)
    cluster.settle()
    assert cluster.redirected() == pytest.approx((brokers - 1) / brokers, abs=0.01)
    assert cluster.uneven() < 0.02


def test_a_broker_that_joins_gets_all_newcomers_until_it_has_its_share() -> None:
    cluster = Cluster(4)
    cluster.run(10_000, rate=400)
    cluster.join()
    cluster.settle()
    before, redirects = cluster.counts.copy(), cluster.redirects.total()
    cluster.run(2_000, rate=400)
    assert cluster.counts["b4"] >= 0.9 * 2 * 400
    assert all(cluster.counts[name] - before[name] <= 25 for name in before)
    cluster.run(10_000, rate=400)
    cluster.settle()
    assert cluster.uneven() < 0.02
    # A fifth of the 1,000 that it lacks come by themselves.
    assert cluster.redirects.total() - redirects < 1.1 * 800


def test_where_twice_as_many_come_to_some_brokers_only_what_is_too_many_is_sent_on() -> None:
    cluster = Cluster(6)
    cluster.run(40_000, rate=400, dealing=two_to_one)
    cluster.settle()
    # A third of all are to come to the others, of which they have a half without it.
    assert 0.15 < cluster.redirected() < 0.25
    assert cluster.uneven() < 0.02


def test_clients_that_stop_coming_and_come_again_are_spread_all_the_same() -> None:
    cluster = Cluster(5)
    for _ in range(4):
        cluster.run(10_000, rate=400)
        cluster.run(5_000)
        assert cluster.uneven() < 0.02
    # Every beginning is one that nobody knows of.
    assert cluster.redirected() < 0.2
    cluster.run(10_000, rate=400, dealing=to_one)
    cluster.settle()
    assert cluster.uneven() < 0.02


def test_a_broker_of_weight_3_gets_three_times_as_many_while_they_come_evenly() -> None:
    cluster = Cluster(3, weights=(1, 3, 1))
    cluster.run(30_000, rate=400)
    cluster.settle()
    assert cluster.uneven() < 0.02
    # A third come to it, three fifths are its share.
    assert cluster.redirected() == pytest.approx(3 / 5 - 1 / 3, abs=0.05)


def test_clients_that_come_and_go_are_not_taken_for_more_and_more() -> None:
    """As many leave as come, and that of all the brokers: nobody is to be thought to get more than it has."""
    cluster = Cluster(4)
    cluster.run(20_000, rate=400, dealing=to_one)
    cluster.run(20_000, rate=400, dealing=to_one, leaving=100)
    cluster.settle()
    # A hundred are what a broker loses in a second: so far it is not known.
    assert cluster.uneven() < 200 / 2_000


def test_a_broker_that_has_lost_its_clients_is_filled_again() -> None:
    cluster = Cluster(4)
    cluster.run(10_000, rate=400)
    cluster.counts["b3"] = 0
    cluster.run(10_000, rate=400)
    cluster.settle()
    assert cluster.uneven() < 0.02


def test_a_burst_is_spread_exactly_before_any_roster_knows_of_it() -> None:
    cluster = Cluster(7)
    for _ in range(700):
        cluster._come("b2", 0)
    cluster.run(5_000)
    assert list(islice(sorted(cluster.counts.values()), 7)) == [100] * 7
