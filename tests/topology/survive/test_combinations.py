from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from itertools import combinations, permutations

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from openclust.cluster.election.election import step
from openclust.cluster.election.events import CaughtUp, Event, StatusHeard, StoreRead, TakeOver, Tell, TellPeer, Tick
from openclust.cluster.election.view import ElectionRole, Terms, begin
from tests.support.examples import examples
from tests.support.topology.random_models import broker, model_of, models
from topology.model.file_entries import Key, ListedNode
from topology.model.graph import Model
from topology.model.loss import LOSS_KINDS, Loss, Reachability, aftermath, losses
from topology.survive.combinations import CombinationGroup, Smallest, Survival, survive
from topology.survive.reach import ClusterInBits
from topology.survive.smallest import smallest_against_root
from topology.survive.survival_text import root_of, sentences

QUICK = examples(20, suppress=[HealthCheck.too_slow])


def three_in_zones() -> Model:
    return model_of(tuple(broker(f"p{i + 1}", host=f"h{i + 1}", zone=zone) for i, zone in enumerate("abc")))


def by_kinds(found: Survival) -> dict[tuple[str, ...], CombinationGroup]:
    return {each.kinds: each for each in found.groups}


@given(models(), st.data())
@QUICK
def test_what_is_left_is_what_the_plain_way_says(model: Model, data: st.DataObject) -> None:
    cluster = ClusterInBits(model)
    every = list(losses(model))
    for _ in range(8):
        lost: list[Loss] = data.draw(st.lists(st.sampled_from(every), max_size=4)) if every else []
        plain = aftermath(model, *lost)
        gone = network = 0
        for loss in lost:
            blow = cluster.blow(loss)
            gone |= blow.brokers
            network |= blow.network
        left = cluster.left(gone, network)
        assert left.root == plain.root
        assert left.is_sure == plain.is_sure
        assert {name for name, bit in cluster.bit.items() if left.voters & bit} == set(plain.voters)
        assert {name for name, bit in cluster.bit.items() if left.cut_off & bit} == set(plain.cut_off)
        assert left.connections == plain.connections
        assert abs(left.moved - plain.moved) <= 1, "rounded from another order of sums"


def fewest_by_trying(model: Model, outlooks: set[str]) -> int | None:
    every = list(losses(model))
    for size in range(len(every) + 1):
        for chosen in combinations(every, size):
            if aftermath(model, *chosen).root in outlooks:
                return size
        if size == 3:
            return 99
    return None


@given(models(primaries_max=5, secondaries_max=1))
@QUICK
def test_no_fewer_failures_end_the_quorum_than_the_search_finds(model: Model) -> None:
    if not model.primaries:
        return
    cluster = ClusterInBits(model)
    every = list(losses(model))
    for wanted, outlooks in (("elected", {"stays", "none"}), ("stays", {"none"})):
        size, found = smallest_against_root(cluster, [cluster.blow(each) for each in every], wanted)
        assert found is not None, "without all brokers there is none"
        assert aftermath(model, *(every[i] for i in found)).root in outlooks
        plain = fewest_by_trying(model, outlooks)
        assert size == len(found) == plain or (plain == 99 and len(found) > 3)


@given(models(primaries_max=4, secondaries_max=2), st.integers(1, 2))
@QUICK
def test_the_groups_count_every_combination_once(model: Model, most: int) -> None:
    found = survive(model, most)
    for group in found.groups:
        assert group.looked_at == group.elected + group.by_seniority + group.stays + group.none
    for size in found.sizes:
        assert not size.is_sampled
        assert sum(each.looked_at for each in found.groups if len(each.kinds) == size.failures) == size.total


def heard_by(model: Model) -> dict[str, set[str]]:
    reach = Reachability(model)
    return {
        name: {each for each in model.primaries if each == name or reach.reaches(name, each)}
        for name in model.primaries
    }


def elected_in(heard: dict[str, set[str]], order: Sequence[str]) -> bool:
    """Whether somebody gets the votes of all that it hears, each voting for the most senior that it hears."""
    vote = {name: min(each, key=order.index) for name, each in heard.items()}
    return any(
        2 * len(each) > len(heard) and all(vote[voter] == candidate for voter in each)
        for candidate, each in heard.items()
    )


@given(models(primaries_max=5, secondaries_max=0))
@QUICK
def test_a_root_is_told_to_be_elected_where_every_order_of_seniority_elects_one(model: Model) -> None:
    orders = [elected_in(heard_by(model), order) for order in permutations(model.primaries)] if model.primaries else []
    left = aftermath(model)
    assert left.is_sure == (bool(orders) and all(orders))
    assert (left.root == "elected") == any(orders)


def played(heard: dict[str, set[str]], order: Sequence[str]) -> bool:
    """Whether the brokers' own election makes a root of these, who hear each other so, the first the most senior."""
    terms = Terms(primaries=tuple(heard), heartbeat_ms=100, start_grace_ms=400)
    elections = {name: begin(terms, name, 1_000 + order.index(name), 0) for name in heard}
    waiting: deque[tuple[str, Event]] = deque((name, StoreRead(0)) for name in heard)
    for now_ms in range(0, 3_000, 100):
        waiting.extend((name, Tick(now_ms)) for name in heard)
        for _ in range(2_000):
            if not waiting:
                break
            name, event = waiting.popleft()
            elections[name], effects = step(elections[name], event)
            for effect in effects:
                if isinstance(effect, Tell):
                    told = sorted(heard[name] - {name})
                    waiting.extend((peer, StatusHeard(now_ms, effect.status)) for peer in told)
                elif isinstance(effect, TellPeer):
                    waiting.append((effect.name, StatusHeard(now_ms, effect.status)))
                elif isinstance(effect, TakeOver):
                    waiting.append((name, CaughtUp(now_ms, effect.epoch)))
    return any(each.role is ElectionRole.ROOT for each in elections.values())


STAR = {"p1": {"p1", "p2", "p3", "p4", "p5"}} | {f"p{i}": {"p1", f"p{i}"} for i in range(2, 6)}
CHAIN = {f"p{i}": {f"p{j}" for j in range(1, 5) if abs(i - j) < 2} for i in range(1, 5)}


@pytest.mark.parametrize("heard", [STAR, CHAIN], ids=["star", "chain"])
@pytest.mark.parametrize("first", ["p1", "p2", "p3", "p4"])
def test_the_brokers_elect_by_seniority_as_is_said_here(heard: dict[str, set[str]], first: str) -> None:
    order = [first, *(name for name in reversed(heard) if name != first)]
    assert played(heard, order) == elected_in(heard, order)


def test_a_star_of_five_elects_by_seniority_and_three_in_a_row_always() -> None:
    """The four outer ones hear two of five: where one of these is the most senior, it keeps the middle's vote."""
    brokers = tuple(broker(f"p{i}") for i in range(1, 6))
    star = model_of(brokers, between=tuple((brokers[0].key, each.key) for each in brokers[1:]))
    found = survive(star, 1, kinds=("broker",))
    assert found.before.root == "elected" and not found.before.is_sure
    assert found.by_seniority == Smallest(0, ((),), 1)
    row = model_of(brokers[:3], between=((brokers[0].key, brokers[1].key), (brokers[1].key, brokers[2].key)))
    assert survive(row, 1).before.is_sure


def test_a_loss_that_leaves_the_election_to_seniority_is_told_as_that() -> None:
    brokers = tuple(broker(f"p{i}") for i in range(1, 6))
    links = tuple((one.key, other.key) for one, other in combinations(brokers, 2))
    nodes = (ListedNode(name="hub"),)
    hub = ("node", "hub")
    # p5 reaches p2, p3 and p4 through the hub alone, and p1 by a link of its own.
    direct = tuple(each for each in links if brokers[4].key not in each or brokers[0].key in each)
    model = model_of(brokers, nodes, (*direct, *((each.key, hub) for each in brokers[1:])))
    found = survive(model, 1, kinds=("node",))
    (group,) = found.groups
    assert (group.by_seniority, group.elected, root_of(group)) == (1, 0, "by seniority")
    assert found.by_seniority == Smallest(1, (("node hub",),), 1)
    assert any("most senior with 1 failure: node hub." in each for each in sentences(found))


def test_three_primaries_survive_any_one_and_no_two() -> None:
    found = survive(three_in_zones(), 2, kinds=("broker",))
    groups = by_kinds(found)
    assert groups["broker",].elected == 3
    assert groups["broker", "broker"].none == 3
    assert found.no_root == found.no_election
    assert found.no_root is not None
    assert found.no_root == Smallest(2, found.no_root.sets, 3)
    assert found.no_root.sets[0] == ("broker p1", "broker p2")


def test_of_four_primaries_two_lost_leave_a_sitting_root_and_elect_none() -> None:
    model = model_of(tuple(broker(f"p{i}") for i in range(4)))
    found = survive(model, 3, kinds=("broker",))
    assert by_kinds(found)["broker", "broker"].stays == 6
    assert found.no_election is not None and found.no_election.size == 2
    assert found.no_root is not None and found.no_root.size == 3


def test_what_is_lost_alike_is_counted_once_and_named() -> None:
    found = survive(three_in_zones(), 1)
    assert found.failures == 3
    assert ("broker p1", "host h1", "zone a") in found.same


def test_primaries_that_cannot_reach_each_other_are_lost_to_one_another() -> None:
    brokers = tuple(broker(f"p{i}") for i in (1, 2, 3))
    core: Key = ("node", "core")
    model = model_of(brokers, (ListedNode(name="core"),), tuple((each.key, core) for each in brokers))
    found = survive(model, 1, kinds=("node", "link"))
    assert by_kinds(found)["node",].none == 1
    assert by_kinds(found)["link",].elected == 3
    assert found.no_root is not None and found.no_root.sets == (("node core",),)


def test_too_little_room_is_told_with_the_smallest_set_that_leaves_a_root() -> None:
    brokers = tuple(broker(name, connections=100) for name in ("p1", "p2", "p3", "s1", "s2", "s3"))
    found = survive(model_of(brokers, clients=450), 2, kinds=("broker",))
    groups = by_kinds(found)
    assert groups["broker",].no_room == 0
    assert groups["broker", "broker"].no_room == 12, "three pairs of primaries leave no root at all"
    assert groups["broker",].connections == 500
    assert groups["broker",].moved == 75
    assert found.no_room is not None and found.no_room.size == 2 and found.no_room.count == 12


def active_passive(*connections: int, clients: int) -> Model:
    primaries = [broker(f"p{i + 1}", connections=takes) for i, takes in enumerate(connections)]
    return model_of((*primaries, broker("s1", connections=5_000)), clients=clients, mode="active-passive")


def test_in_active_passive_mode_what_is_left_is_what_the_smallest_possible_root_bears() -> None:
    found = survive(active_passive(100, 200, 300, clients=100), 1, kinds=("broker",))
    assert (found.before.connections, found.before.has_room) == (100, True)
    group = by_kinds(found)["broker",]
    assert (group.connections, group.no_room, group.moved) == (100, 0, 100)
    assert found.no_room is None, "what any primary bears alone, it bears whatever fails"
    assert any("All clients go to the root (active-passive)" in each for each in sentences(found))


def test_in_active_passive_mode_one_primary_too_small_to_be_root_is_too_little_room() -> None:
    found = survive(active_passive(100, 200, 300, clients=150), 2, kinds=("broker",))
    assert found.no_room == Smallest(0, ((),), 1), "all brokers together would have had room"
    groups = by_kinds(found)
    assert groups["broker",].no_room == 3, "without p2, p3 or s1 the root may still be p1, without p1 it is not"
    assert groups["broker", "broker"].connections == 0, "no root takes any"


def test_in_active_passive_mode_the_loss_of_a_secondary_moves_no_client() -> None:
    model = active_passive(100, 200, 300, clients=100)
    secondary = next(each for each in losses(model) if each.text == "broker s1")
    assert aftermath(model, secondary).moved == 0
    primary = next(each for each in losses(model) if each.text == "broker p1")
    assert (aftermath(model, primary).moved, aftermath(model, primary).connections) == (100, 200)


def test_in_active_passive_mode_bandwidth_is_that_of_primaries_alone() -> None:
    primaries = tuple(broker(f"p{i}", bandwidth_mbit=100 * i) for i in (1, 2, 3))
    model = model_of((*primaries, broker("s1")), client_mbit=150, mode="active-passive")
    found = survive(model, 1, kinds=("broker",))
    assert found.before.mbit == 100
    assert not found.before.has_room


def test_the_worst_combinations_come_first() -> None:
    brokers = tuple(broker(f"p{i}", zone="a" if i < 3 else "b") for i in range(5))
    found = survive(model_of(brokers), 2)
    ranks = [bool(each.none) for each in found.groups]
    assert ranks == sorted(ranks, reverse=True)
    assert found.groups[0].kinds == ("zone",)


def test_what_is_beyond_the_combinations_tried_is_searched_for() -> None:
    brokers = tuple(broker(f"p{i}", host=f"h{i}") for i in range(9))
    found = survive(model_of(brokers), 1)
    assert found.no_root is not None
    assert (found.no_root.size, found.no_root.is_exact, found.no_root.count) == (5, True, None)


def test_when_there_are_too_many_some_are_drawn_and_that_is_said() -> None:
    brokers = tuple(broker(f"p{i}") for i in range(9)) + tuple(broker(f"s{i}") for i in range(60))
    found = survive(model_of(brokers), 4, combinations_max=3_000, seed=7)
    assert [each.is_sampled for each in found.sizes] == [False, False, True, True]
    assert found.seed == 7
    assert found.groups == survive(model_of(brokers), 4, combinations_max=3_000, seed=7).groups
    assert found.no_root is not None and found.no_root.size == 5 and found.no_root.is_exact


def test_without_primaries_there_is_no_root_before_anything_fails() -> None:
    found = survive(model_of((broker("s1"),)), 1)
    assert found.before.root == "none"
    assert found.no_root == Smallest(0, ((),), 1)


def test_links_alone_may_never_end_the_quorum() -> None:
    found = survive(three_in_zones(), 2, kinds=("link",))
    assert found.failures == 0
    assert found.no_root is None


@pytest.mark.slow
@pytest.mark.parametrize("with_network", [False, True])
def test_two_failures_among_200_brokers_in_10_zones_are_looked_at_in_seconds(with_network: bool) -> None:
    brokers = tuple(
        broker(f"{'p' if i < 9 else 's'}{i}", zone=f"z{i % 10}", rack=f"z{i % 10}-{i // 10 % 4}", connections=1000)
        for i in range(200)
    )
    nodes: tuple[ListedNode, ...] = ()
    between: tuple[tuple[Key, Key], ...] = ()
    if with_network:
        nodes = (
            *(ListedNode(name=f"sw{i}", zone=f"z{i}") for i in range(10)),
            ListedNode(name="c0"),
            ListedNode(name="c1"),
        )
        between = tuple((("node", f"sw{i}"), ("node", f"c{j}")) for i in range(10) for j in range(2))
        between += tuple((each.key, ("node", f"sw{i % 10}")) for i, each in enumerate(brokers))
    started = time.process_time()
    found = survive(model_of(brokers, nodes, between, clients=150_000), 2)
    assert time.process_time() - started < 10
    assert not any(each.is_sampled for each in found.sizes)
    assert found.kinds == LOSS_KINDS
    assert sum(each.looked_at for each in found.groups) == found.failures * (found.failures + 1) // 2


def test_the_search_finds_what_few_cuts_do_that_many_brokers_would_be_needed_for() -> None:
    brokers = tuple(broker(f"p{i}") for i in range(7))
    nodes = tuple(ListedNode(name=name) for name in ("core1", "core2", "east", "west"))
    east, west = ("node", "east"), ("node", "west")
    between = tuple((each.key, east if i < 3 else west) for i, each in enumerate(brokers[:6]))
    between += tuple((side, ("node", core)) for side in (east, west) for core in ("core1", "core2"))
    model = model_of(brokers[:6], nodes, between)
    cluster = ClusterInBits(model)
    cuts = [each for each in losses(model) if each.kind in ("node", "link")]
    size, found = smallest_against_root(cluster, [cluster.blow(each) for each in cuts], "elected")
    assert (size, [cuts[i].text for i in found or ()]) == (1, ["node east"])
    cuts = [each for each in cuts if each.name not in ("east", "west")]
    size, found = smallest_against_root(cluster, [cluster.blow(each) for each in cuts], "elected")
    assert (size, [cuts[i].text for i in found or ()]) == (2, ["node core1", "node core2"])
    cuts = [each for each in cuts if each.kind == "link" and "core" in each.name]
    size, found = smallest_against_root(cluster, [cluster.blow(each) for each in cuts], "elected")
    assert size == 2 and found is not None
    assert aftermath(model, *(cuts[i] for i in found)).root == "stays"
