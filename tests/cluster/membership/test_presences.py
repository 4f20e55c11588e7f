"""Who is there: each broker tells the primaries of itself, the root tells everybody of all."""

from __future__ import annotations

import msgspec
import pytest

from openclust.cluster.membership.presences import SILENT_MAX_MS, TELL_EVERY_MS
from openclust.cluster.protocol.messages import Presence, RosterTold
from openclust.cluster.protocol.roster import BrokerInfo
from tests.cluster.log.test_replica import said
from tests.support.cluster.joined import HEARTBEAT_MS, Joined


@pytest.fixture
def cluster() -> Joined:
    joined = Joined("p1", "p2", secondaries=("s1",))
    joined.tick(TELL_EVERY_MS)
    return joined


def names(cluster: Joined, at: str) -> list[str]:
    return [each.name for each in cluster[at].roster.brokers]


def test_every_broker_knows_all_brokers_and_the_root(cluster: Joined) -> None:
    for at in cluster.members:
        assert names(cluster, at) == ["p1", "p2", "s1"]
        assert cluster[at].roster.root == "p1"
    roster = cluster["s1"].roster
    assert [each.partition for each in roster.brokers] == ["primary", "primary", "secondary"]


def test_each_tells_how_many_clients_and_queues_it_has(cluster: Joined) -> None:
    client = cluster.client("s1")
    client.queue("mine", exclusive=True)
    cluster.client("s1")
    cluster.tick(2 * TELL_EVERY_MS)
    info = cluster["p2"].roster.find("s1")
    assert info is not None and (info.connections, info.queues) == (2, 1), "links of peers are no clients"


def test_each_tells_how_many_came_there(cluster: Joined) -> None:
    cluster.client("s1")
    cluster.tick(2 * TELL_EVERY_MS)
    infos = [cluster["p2"].roster.find(name) for name in ("p1", "s1")]
    assert [(each.newcomers, each.redirected) for each in infos if each is not None] == [(0, 0), (1, 0)]


def test_the_root_tells_how_old_it_is_what_a_broker_said(cluster: Joined) -> None:
    cluster.tick(4 * HEARTBEAT_MS)
    cluster.start("s2")  # the roster is told at once, and then once a second
    cluster.tick(2 * TELL_EVERY_MS)
    ages = {each.name: each.age_ms for each in cluster["p2"].roster.brokers}
    assert ages["p1"] == 0 < ages["s1"] < TELL_EVERY_MS


def test_it_is_told_once_a_second(cluster: Joined) -> None:
    sent = cluster.tap("s1")
    cluster.tick(3 * TELL_EVERY_MS)
    assert len(said(sent, "p1", Presence)) == len(said(sent, "p2", Presence)) == 3


def test_who_comes_or_goes_is_told_within_a_heartbeat(cluster: Joined) -> None:
    cluster.start("s2")
    cluster.tick(2 * HEARTBEAT_MS)
    assert names(cluster, "p2") == ["p1", "p2", "s1", "s2"]
    cluster.kill("s1")
    cluster.tick(HEARTBEAT_MS)
    assert names(cluster, "p2") == ["p1", "p2", "s2"]


def test_without_a_root_nobody_is_called_root(cluster: Joined) -> None:
    cluster.kill("p1")
    cluster.tick(HEARTBEAT_MS)
    assert cluster["p2"].roster.root == cluster["s1"].roster.root == ""
    assert names(cluster, "s1") == ["p1", "p2", "s1"], "who was there last is known"


def test_the_next_root_knows_all_at_once() -> None:
    cluster = Joined("p1", "p2", "p3", secondaries=("s1",))
    cluster.tick(TELL_EVERY_MS)
    cluster.step_down("p1")
    assert cluster.await_root() == "p2"
    cluster.tick(HEARTBEAT_MS)
    assert names(cluster, "s1") == ["p1", "p2", "p3", "s1"] and cluster["s1"].roster.root == "p2"


def test_a_peer_tells_of_itself_only(cluster: Joined) -> None:
    before = [cluster["p1"].presences.info(name) for name in ("p2", "s1")]
    cluster["p1"].presences.heard("s1", Presence(info=BrokerInfo(name="p2", client="elsewhere:1")))
    assert [cluster["p1"].presences.info(name) for name in ("p2", "s1")] == before


def test_who_has_said_nothing_for_three_seconds_is_not_listed(cluster: Joined) -> None:
    presences = cluster["s1"].presences
    presences.tell = lambda name: None  # type: ignore[method-assign]
    cluster.tick(SILENT_MAX_MS + TELL_EVERY_MS)
    assert names(cluster, "p2") == ["p1", "p2"]


def test_what_a_broker_is_comes_from_itself_or_by_way_of_the_root(cluster: Joined) -> None:
    assert cluster["p1"].presences.info("s1") is not None
    own = cluster["s1"].presences.info("p2")
    assert own is not None and own.partition == "primary", "p2 tells secondaries nothing itself"
    assert cluster["s1"].presences.info("nobody") is None


def test_a_drained_broker_says_so(cluster: Joined) -> None:
    cluster["s1"].is_draining = True
    cluster.tick(2 * TELL_EVERY_MS)
    info = cluster["p2"].roster.find("s1")
    assert info is not None and info.is_draining


def test_a_roster_of_a_former_root_is_passed_over(cluster: Joined) -> None:
    roster = msgspec.structs.replace(cluster["s1"].roster, root="p2", brokers=())
    cluster["s1"].presences.told("p2", RosterTold(roster=roster))
    assert cluster["s1"].roster.root == "p1"
