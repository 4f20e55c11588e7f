"""Rebalancing: only the surplus moves, slowly, and two brokers never pass clients to and fro."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclust.cluster.placing.placing import Newcomer, Placing
from openclust.cluster.placing.rebalance import ROUND_MS, SETTLE_MS, Rebalance
from openclust.cluster.protocol.redirect import Redirect
from openclust.cluster.protocol.roster import BrokerInfo, Roster
from tests.support.examples import examples

FAST = 1_000
START_MS = 1_000_000
SETTLE_ROUNDS = SETTLE_MS // ROUND_MS + 1


def roster(root: str = "r", weight: int = 1, draining: tuple[str, ...] = (), **connections: int) -> Roster:
    brokers = tuple(
        BrokerInfo(name=name, client=f"{name}:5672", connections=count, weight=weight, is_draining=name in draining)
        for name, count in sorted(connections.items())
    )
    return Roster(root=root, brokers=brokers)


def settled(at: Roster, own: int, name: str = "a", **changed: object) -> tuple[Rebalance, int]:
    """A broker that has seen these brokers for long enough, and the time then."""
    one = Rebalance(name, Redirect(**changed))  # type: ignore[arg-type]
    assert one.surplus(at, own, START_MS) == 0
    return one, START_MS + SETTLE_MS


# -- one broker


def test_only_the_surplus_moves() -> None:
    at = roster(a=36, b=36, c=0)
    one, now_ms = settled(at, 36, rebalance_per_s=FAST)
    assert one.surplus(at, 36, now_ms) == 12


def test_no_more_than_the_rate_moves_in_a_round() -> None:
    at = roster(a=36, b=36, c=0)
    one, now_ms = settled(at, 36, rebalance_per_s=5)
    assert one.surplus(at, 36, now_ms) == 5


def test_nobody_moves_before_the_brokers_have_been_the_same_for_a_while() -> None:
    before, after = roster(a=36, b=36), roster(a=36, b=36, c=0)
    one, now_ms = settled(before, 36)
    assert one.surplus(after, 36, now_ms) == 0
    assert one.surplus(after, 36, now_ms + SETTLE_MS - 1) == 0
    assert one.surplus(after, 36, now_ms + SETTLE_MS) > 0


def test_a_little_above_the_share_is_near_enough() -> None:
    at = roster(a=106, b=97, c=97)
    one, now_ms = settled(at, 106)
    assert one.surplus(at, 106, now_ms) == 0
    one, now_ms = settled(at, 106, rebalance_threshold=5)
    assert one.surplus(at, 106, now_ms) == 6


def test_a_few_clients_are_not_moved_for_one_of_them() -> None:
    at = roster(a=2, b=1, c=0)
    one, now_ms = settled(at, 2)
    assert one.surplus(at, 2, now_ms) == 0


def test_who_has_begun_goes_on_until_it_has_its_share() -> None:
    one, now_ms = settled(roster(a=36, b=36, c=0), 36, rebalance_per_s=10)
    assert one.surplus(roster(a=36, b=36, c=0), 36, now_ms) == 10
    # 26 alone would be near enough.
    assert one.surplus(roster(a=26, b=26, c=20), 26, now_ms + 1_000) == 2
    assert one.surplus(roster(a=24, b=24, c=24), 24, now_ms + 2_000) == 0
    assert one.surplus(roster(a=26, b=23, c=23), 26, now_ms + 3_000) == 0


def test_clients_on_their_way_are_not_taken_for_gone() -> None:
    """The roster still says that c has none: the share has not become smaller."""
    one, now_ms = settled(roster(a=36, b=36, c=0), 36, rebalance_per_s=10)
    assert one.surplus(roster(a=36, b=36, c=0), 36, now_ms) == 10
    assert one.surplus(roster(a=26, b=26, c=0), 26, now_ms + 1_000) == 2


@pytest.mark.parametrize(("clients", "weight", "per_s", "left"), [(60, 1, 2, 30), (103, 2, 10, 35)])
def test_not_even_where_moving_takes_long_and_when_it_is_over(clients: int, weight: int, per_s: int, left: int) -> None:
    """The roster knows of two rounds ago, so for a while it has fewer clients in all than there are."""

    def seen(own: int) -> Roster:
        here = BrokerInfo(name="a", client="a:1", connections=own)
        return Roster(
            root="r", brokers=(here, BrokerInfo(name="b", client="b:1", connections=clients - own, weight=weight))
        )

    told = [seen(clients)] * 3
    one, now_ms = settled(told[0], clients, rebalance_per_s=per_s)
    own = clients
    for _ in range(30):
        own -= one.surplus(told[-3], own, now_ms)
        now_ms += ROUND_MS
        told.append(seen(own))
    assert own == left


def test_a_broker_of_weight_2_keeps_twice_as_many() -> None:
    at = Roster(
        root="a",
        brokers=(
            BrokerInfo(name="a", client="a:1", connections=40, weight=2),
            BrokerInfo(name="b", client="b:1", connections=20),
        ),
    )
    one, now_ms = settled(at, 40, weight=2)
    assert one.surplus(at, 40, now_ms) == 0
    one, now_ms = settled(at, 40, weight=1)
    assert one.surplus(at, 40, now_ms) == 10


def test_nobody_moves_clients_to_a_broker_that_is_drained() -> None:
    at = roster(a=30, b=0, draining=("b",))
    one, now_ms = settled(at, 30)
    assert one.surplus(at, 30, now_ms) == 0


@pytest.mark.parametrize("changed", [{"rebalance": False}, {"mode": "off"}])
def test_it_can_be_turned_off(changed: dict[str, object]) -> None:
    at = roster(a=30, b=0)
    one, now_ms = settled(at, 30, **changed)
    assert one.surplus(at, 30, now_ms) == 0


def test_where_all_go_to_the_root_the_others_move_theirs_there() -> None:
    at = roster(root="b", a=30, b=0)
    one, now_ms = settled(at, 30, mode="active-passive", rebalance_per_s=FAST)
    assert one.surplus(at, 30, now_ms) == 30
    at = roster(root="a", a=30, b=0)
    one, now_ms = settled(at, 30, mode="active-passive")
    assert one.surplus(at, 30, now_ms) == 0


@pytest.mark.parametrize("mode", ["balanced", "active-passive"])
def test_without_a_root_nobody_is_moved(mode: str) -> None:
    at = roster(root="", a=30, b=0)
    one, now_ms = settled(at, 30, mode=mode)
    assert one.surplus(at, 30, now_ms) == 0


# -- a cluster of them


class Cluster:
    """Brokers that place and rebalance by rosters that are `ages` rounds old, for each another number."""

    def __init__(self, counts: dict[str, int], weights: dict[str, int], ages: dict[str, int], per_s: int) -> None:
        self.counts = dict(counts)
        self.weights = weights
        self.moves = 0
        self.now_ms = START_MS
        self._ages = ages
        self._per_s = per_s
        self._told: list[Roster] = []
        self._rebalance: dict[str, Rebalance] = {}
        self._placing: dict[str, Placing] = {}
        for name in counts:
            self.start(name)

    def start(self, name: str) -> None:
        settings = Redirect(rebalance_per_s=self._per_s, weight=self.weights[name])
        self.counts.setdefault(name, 0)
        self._rebalance[name] = Rebalance(name, settings)
        self._placing[name] = Placing(name, "key", settings)

    def stop(self, name: str) -> None:
        """Its clients come back to the others, and are placed."""
        homeless = self.counts.pop(name)
        self._told.append(self._roster())
        self.arrive(homeless)

    def arrive(self, count: int) -> None:
        for number in range(count):
            self._come(sorted(self.counts)[number % len(self.counts)])

    def round(self) -> None:
        """A second: everybody hears a roster that may be old, and moves what it thinks is too much."""
        self._told.append(self._roster())
        leaving: list[str] = []
        for name in sorted(self.counts):
            at = self._heard(name)
            self._placing[name].heard(at, self.now_ms)
            surplus = self._rebalance[name].surplus(at, self.counts[name], self.now_ms)
            count = len(self._placing[name].plan(surplus, self.counts[name]))
            self.counts[name] -= count
            self.moves += count
            leaving += [name] * count
        for name in leaving:
            self._come(name)
        self.now_ms += ROUND_MS

    def _come(self, name: str) -> None:
        placing = self._placing[name]
        placing.heard(self._heard(name), self.now_ms)
        target = placing.choose(Newcomer(), self.counts[name])
        if target is not None:
            placing.sent(target)
        self.counts[name if target is None or target.name not in self.counts else target.name] += 1

    def _heard(self, name: str) -> Roster:
        return self._told[max(0, len(self._told) - 1 - self._ages[name])]

    def _roster(self) -> Roster:
        return Roster(
            root="a",
            brokers=tuple(
                BrokerInfo(name=name, client=f"{name}:1", connections=count, weight=self.weights[name])
                for name, count in sorted(self.counts.items())
            ),
        )

    def surplus(self) -> float:
        """What all brokers together have beyond their shares."""
        return sum(max(0.0, count - self.share(name)) for name, count in self.counts.items())

    def share(self, name: str) -> float:
        weights = sum(self.weights[each] for each in self.counts)
        return sum(self.counts.values()) * self.weights[name] / weights


@examples(30)
@given(data=st.data())
def test_any_cluster_comes_to_rest_and_moves_little_more_than_its_surplus(data: st.DataObject) -> None:
    names = "abcdef"[: data.draw(st.integers(2, 6))]
    counts = {name: data.draw(st.integers(0, 300)) for name in names}
    weights = {name: data.draw(st.integers(1, 4)) for name in names}
    ages = {name: data.draw(st.integers(0, 2)) for name in names}
    per_s = data.draw(st.integers(1, 100))
    cluster = Cluster(counts, weights, ages, per_s)
    surplus = cluster.surplus()
    for _ in range(SETTLE_ROUNDS + 2 * int(surplus) // per_s + 60):
        cluster.round()
    rested = cluster.moves
    for _ in range(20):
        cluster.round()
    assert cluster.moves == rested, "it goes on for ever"
    # Several that fill one broker at once, each by a roster that is two seconds old, fill it a little too much.
    # Several that fill one broker at once, each by a roster that is two seconds old, fill it a little too much.
    assert rested <= 1.6 * surplus + len(names)
    for name, count in cluster.counts.items():
        share = cluster.share(name)
        assert count < share + max(2, share * 0.1) + 1


def test_two_brokers_never_pass_clients_to_and_fro() -> None:
    cluster = Cluster({"a": 200, "b": 0}, {"a": 1, "b": 1}, {"a": 2, "b": 2}, per_s=FAST)
    for _ in range(60):
        cluster.round()
    assert cluster.counts == {"a": 100, "b": 100}
    assert cluster.moves == 100


@pytest.mark.parametrize(("clients", "weight", "per_s", "surplus"), [(37, 1, 2, 18), (103, 2, 10, 68)])
def test_a_roster_that_is_two_seconds_old_makes_nobody_move_more(
    clients: int, weight: int, per_s: int, surplus: int
) -> None:
    cluster = Cluster({"a": 0, "b": clients}, {"a": weight, "b": 1}, {"a": 2, "b": 2}, per_s)
    for _ in range(60):
        cluster.round()
    assert (cluster.moves, cluster.counts["a"]) == (surplus, surplus)


def test_24_24_24_stays_so_through_a_rolling_restart() -> None:
    names = ("a", "b", "c")
    cluster = Cluster(dict.fromkeys(names, 24), dict.fromkeys(names, 1), dict.fromkeys(names, 1), per_s=10)
    for _ in range(SETTLE_ROUNDS):
        cluster.round()
    for name in names:
        cluster.stop(name)
        for _ in range(3):
            cluster.round()
        assert max(cluster.counts.values()) <= 37
        cluster.start(name)
        for _ in range(SETTLE_ROUNDS + 10):
            cluster.round()
        assert cluster.counts == dict.fromkeys(names, 24)
    assert cluster.moves == 3 * 24, "who moved was surplus"
