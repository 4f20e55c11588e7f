"""Placing: who stays, who goes where, and what it is told."""

from __future__ import annotations

from collections import Counter

import pytest

from openclust.broker.amqp.placement import PROXIED, REDIRECTED
from openclust.broker.model.access import User
from openclust.broker.server.broker import Broker
from openclust.cluster.placing.load_estimate import EXPECT_MAX_MS, FORGET_MS, LoadEstimate
from openclust.cluster.placing.placing import Newcomer, Placing, newcomer
from openclust.cluster.protocol.redirect import Redirect
from openclust.cluster.protocol.roster import BrokerInfo, Roster
from openclust.wire.errors import INVALID_PATH, ConnectionError
from openclust.wire.table import Table
from tests.support.client import Client, new_broker

START_MS = 1_000_000


def roster(root: str = "r", draining: str = "", **connections: int) -> Roster:
    brokers = tuple(
        BrokerInfo(name=name, client=f"{name}:5672", connections=count, is_draining=name == draining)
        for name, count in sorted(connections.items())
    )
    return Roster(root=root, brokers=brokers)


def placing(at: Roster, **settings: object) -> Placing:
    """Broker a, which knows this roster."""
    one = Placing("a", "key", Redirect(**settings))  # type: ignore[arg-type]
    one.heard(at, START_MS)
    return one


def chosen(one: Placing, own: int, *, is_draining: bool = False, **client: bool) -> str:
    """The name of the broker for a newcomer to a."""
    target = one.choose(Newcomer(**client), own, is_draining=is_draining)
    return "a" if target is None else target.name


# -- balanced


def test_a_newcomer_goes_to_the_broker_with_the_fewest_clients() -> None:
    assert chosen(placing(roster(a=10, b=7, c=3)), 10) == "c"


def test_of_two_that_are_equal_the_first_by_name_gets_it() -> None:
    assert chosen(placing(roster(a=10, b=3, c=3)), 10) == "b"


def test_a_newcomer_stays_where_it_would_not_be_better_off_elsewhere() -> None:
    assert chosen(placing(roster(a=5, b=5)), 5) == "a"
    assert chosen(placing(roster(a=6, b=5)), 6) == "b"


def test_the_threshold_counts_after_the_move() -> None:
    one = placing(roster(a=0, b=5), threshold=3)
    assert chosen(one, 7) == "a"
    assert chosen(one, 8) == "b"


def test_two_brokers_never_send_a_newcomer_back() -> None:
    """Whatever the counts and weights: only one of them would send it to the other."""
    for ours in range(8):
        for theirs in range(8):
            for weight in (1, 2, 3):
                here = BrokerInfo(name="a", client="a:1", connections=ours, weight=weight)
                there = BrokerInfo(name="b", client="b:1", connections=theirs)
                at = Roster(root="r", brokers=(here, there))
                one, two = Placing("a", "k", Redirect(weight=weight)), Placing("b", "k", Redirect())
                one.heard(at, START_MS)
                two.heard(at, START_MS)
                assert not (one.choose(Newcomer(), ours) and two.choose(Newcomer(), theirs))


def test_our_own_count_is_the_true_one_not_the_rosters() -> None:
    assert chosen(placing(roster(a=100, b=5)), 5) == "a"


def test_a_broker_of_twice_the_weight_gets_twice_as_many() -> None:
    brokers = (BrokerInfo(name="a", client="a:1"), BrokerInfo(name="b", client="b:1", weight=2))
    one = placing(Roster(root="r", brokers=brokers))
    own = 0
    for _ in range(300):
        target = one.choose(Newcomer(), own)
        if target is None:
            own += 1
        else:
            one.sent(target)
    assert 99 <= own <= 101


def test_a_burst_between_two_rosters_is_spread_evenly() -> None:
    one = placing(roster(a=0, b=0, c=0))
    counts: Counter[str] = Counter()
    for _ in range(1_000):
        target = one.choose(Newcomer(), counts["a"])
        if target is not None:
            one.sent(target)
        counts[target.name if target else "a"] += 1
    assert max(counts.values()) - min(counts.values()) <= 1


def test_a_newer_roster_that_does_not_know_them_yet_does_not_attract_another_burst() -> None:
    one = placing(roster(a=0, b=0))
    for own in range(10):
        if (target := one.choose(Newcomer(), own)) is not None:
            one.sent(target)
    one.heard(roster(a=10, b=0), START_MS + 10)
    assert chosen(one, 9) == "a"


def test_a_drained_broker_gets_nobody() -> None:
    assert chosen(placing(roster(a=10, b=7, c=3, draining="c")), 10) == "b"


def test_a_broker_that_is_alone_keeps_all() -> None:
    assert chosen(placing(roster(a=10)), 10) == "a"
    assert chosen(placing(Roster()), 10) == "a"
    assert chosen(placing(roster(a=10)), 10, is_draining=True) == "a"


def test_a_broker_that_is_drained_sends_everybody_away_but_who_stays() -> None:
    one = placing(roster(a=0, b=50, c=40, draining="a"))
    assert chosen(one, 0, is_draining=True) == "c"
    assert chosen(one, 0, is_draining=True, is_redirected=True) == "c"
    assert chosen(one, 0, is_draining=True, stays=True) == "a"


def test_one_redirect_is_enough() -> None:
    assert chosen(placing(roster(a=10, b=0)), 10, is_redirected=True) == "a"


def test_who_stays_stays() -> None:
    assert chosen(placing(roster(a=10, b=0)), 10, stays=True) == "a"


def test_who_came_by_tls_goes_only_where_there_is_tls() -> None:
    brokers = (
        BrokerInfo(name="a", client="a:1", tls="a:2"),
        BrokerInfo(name="b", client="b:1"),
        BrokerInfo(name="c", client="c:1", tls="c:2", connections=3),
    )
    one = placing(Roster(root="r", brokers=brokers))
    assert chosen(one, 10, is_tls=True) == "c"
    assert one.known_hosts(is_tls=True) == "a:2,c:2"


# -- the root


def test_who_asks_for_the_root_is_sent_there() -> None:
    one = placing(roster(root="c", a=0, b=0, c=50))
    assert chosen(one, 0, wants_root=True) == "c"
    assert chosen(one, 0, wants_root=True, is_redirected=True) == "c"


def test_who_asks_for_the_root_stays_where_it_is_or_where_there_is_none() -> None:
    assert chosen(placing(roster(root="a", a=50, b=0)), 50, wants_root=True) == "a"
    assert chosen(placing(roster(root="", a=50, b=0)), 50, wants_root=True) == "a"
    assert chosen(placing(roster(root="b", a=50, b=0, draining="b")), 50, wants_root=True) == "a"


def test_active_passive_sends_everybody_to_the_root() -> None:
    at = roster(root="c", a=0, b=0, c=50)
    assert chosen(placing(at, mode="active-passive"), 0) == "c"
    assert chosen(placing(roster(root="a", a=50, b=0), mode="active-passive"), 50) == "a"
    assert chosen(placing(roster(a=50, b=0), mode="active-passive"), 50) == "a", "it is not in the roster yet"


def test_without_a_root_nobody_is_sent_to_a_broker_that_may_be_gone() -> None:
    one = placing(roster(root="", a=50, b=0))
    assert chosen(one, 50) == "a"
    assert chosen(one, 50, is_draining=True) == "a"
    assert one.best(is_tls=False) is None
    assert one.known_hosts(is_tls=False) == "b:5672,a:5672", "they may be tried"


def test_off_sends_nobody_anywhere_but_from_a_drained_broker() -> None:
    one = placing(roster(root="b", a=50, b=0), mode="off")
    assert chosen(one, 50) == "a"
    assert chosen(one, 50, wants_root=True) == "a"
    assert chosen(one, 50, is_draining=True) == "b"


# -- known hosts


def test_known_hosts_name_all_that_take_clients_the_least_loaded_first() -> None:
    at = roster(a=10, b=7, c=3, d=0, draining="d")
    assert placing(at).known_hosts(is_tls=False) == "c:5672,b:5672,a:5672"


def test_a_broker_that_is_alone_tells_of_nobody() -> None:
    assert placing(roster(a=10)).known_hosts(is_tls=False) == ""


def test_known_hosts_are_whole_addresses_that_fit_a_short_string() -> None:
    text = placing(roster(**{f"broker-{number:02}": 0 for number in range(40)})).known_hosts(is_tls=False)
    assert len(text) <= 255
    assert all(each.endswith(":5672") for each in text.split(","))
    assert text.startswith("broker-00:5672,broker-01:5672")


def test_a_newer_roster_brings_other_known_hosts() -> None:
    one = placing(roster(a=10, b=7))
    assert one.known_hosts(is_tls=False) == "b:5672,a:5672"
    one.heard(roster(a=1, b=7), START_MS)
    assert one.known_hosts(is_tls=False) == "a:5672,b:5672"


# -- what clients say


@pytest.fixture
def broker() -> Broker:
    return new_broker()


@pytest.mark.parametrize(
    ("properties", "what"),
    [
        ({}, Newcomer()),
        ({"connect_to": "root"}, Newcomer(wants_root=True)),
        ({"connect_to": "leaf"}, Newcomer()),
        ({PROXIED: True}, Newcomer(stays=True, is_redirected=True)),
        ({REDIRECTED: True}, Newcomer(is_redirected=True)),
        ({REDIRECTED: "true"}, Newcomer()),
    ],
)
def test_client_properties_say_what_a_client_wants(broker: Broker, properties: Table, what: Newcomer) -> None:
    assert newcomer(Client(broker, properties=properties).connection) == what


@pytest.mark.parametrize("kind", ["console", "cluster"])
def test_consoles_and_brokers_stay(broker: Broker, kind: str) -> None:
    client = Client(broker)
    client.connection.user = User(name="x", type=kind)  # type: ignore[arg-type]
    assert newcomer(client.connection).stays


def test_who_insists_stays(broker: Broker) -> None:
    client = Client(broker)
    client.connection.stays = True
    assert newcomer(client.connection).stays


def test_a_placement_tells_all_that_is_needed_to_bring_the_client_there(broker: Broker) -> None:
    one = placing(roster(a=10, b=3, c=3), fallback="proxy")
    placement = one.place(Client(broker).connection, 10, is_draining=False)
    assert placement is not None
    assert (placement.name, placement.address, placement.fallback) == ("b", "b:5672", "proxy")
    assert (placement.known_hosts, placement.reason) == ("b:5672,c:5672,a:5672", "placing")


def test_who_knows_no_redirects_is_closed_and_not_accepted_by_a_drained_broker(broker: Broker) -> None:
    one = placing(roster(a=0, b=3, draining="a"), fallback="accept")
    placement = one.place(Client(broker).connection, 0, is_draining=True)
    assert placement is not None
    assert (placement.name, placement.fallback, placement.reason) == ("b", "close", "draining")
    assert placement.known_hosts == "b:5672"


# -- the cluster key


def meant(broker: Broker, name: str, properties: Table | None = None, **settings: object) -> str:
    return placing(Roster(), **settings).virtual_host(Client(broker, properties=properties).connection, name)


def test_the_cluster_key_is_a_name_of_the_first_virtual_host(broker: Broker) -> None:
    assert meant(broker, "key") == "/"
    assert meant(broker, "other") == "other"
    broker.put_vhost("key")
    assert meant(broker, "key") == "key"


def test_a_wrong_key_is_402_with_the_reason(broker: Broker) -> None:
    with pytest.raises(ConnectionError) as caught:
        meant(broker, "/", {"cluster_key": "test"})
    assert caught.value.code == INVALID_PATH
    assert "cluster key 'test' is wrong" in caught.value.text


def test_the_right_key_is_no_hindrance(broker: Broker) -> None:
    assert meant(broker, "/", {"cluster_key": "key"}) == "/"


def test_a_key_that_is_demanded_must_be_given(broker: Broker) -> None:
    with pytest.raises(ConnectionError) as caught:
        meant(broker, "/", require_key=True)
    assert caught.value.code == INVALID_PATH
    assert "client property cluster_key" in caught.value.text
    assert meant(broker, "key", require_key=True) == "/"
    assert meant(broker, "/", {"cluster_key": "key"}, require_key=True) == "/"


def test_who_came_unasked_is_counted_wherever_it_is_sent(broker: Broker) -> None:
    one = placing(roster(a=10, b=3))
    for said in ({}, {REDIRECTED: True}, {PROXIED: True}):
        one.place(Client(broker, properties=said).connection, 10, is_draining=False)
    one.place(Client(broker).connection, 0, is_draining=False)
    assert (one.newcomers, one.redirected) == (2, 2)


# -- by now


def telling(ms: int, connections: int, newcomers: int = 0, redirected: int = 0, age_ms: int = 0) -> tuple[Roster, int]:
    """What the roster says of b at this time."""
    info = BrokerInfo(
        name="b",
        client="b:1",
        connections=connections,
        newcomers=newcomers,
        redirected=redirected,
        age_ms=age_ms,
    )
    return Roster(root="r", brokers=(info,)), START_MS + ms


def test_clients_are_underway_until_the_roster_counts_them() -> None:
    underway = LoadEstimate()
    underway.heard(*telling(0, 5))
    for _ in range(3):
        underway.sent("b")
    assert underway.clients("b") == 8
    underway.heard(*telling(100, 7, redirected=2))
    assert underway.clients("b") == 8
    underway.heard(*telling(200, 9, redirected=4))
    assert underway.clients("b") == 9


def test_clients_that_do_not_say_that_they_were_sent_arrive_too() -> None:
    underway = LoadEstimate()
    underway.heard(*telling(0, 5))
    underway.sent("b")
    underway.heard(*telling(100, 6, newcomers=1))
    assert underway.clients("b") == 6


def test_clients_have_arrived_even_where_as_many_have_left() -> None:
    underway = LoadEstimate()
    underway.heard(*telling(0, 5))
    underway.sent("b")
    underway.heard(*telling(100, 5, redirected=1))
    assert underway.clients("b") == 5


def test_who_came_to_a_broker_before_we_sent_anybody_is_not_ours() -> None:
    underway = LoadEstimate()
    at, now_ms = telling(0, 5)
    underway.heard(at, now_ms)
    underway.heard(at, now_ms + 900)
    underway.sent("b")
    underway.heard(*telling(1_000, 9, redirected=4, age_ms=600))
    assert underway.clients("b") == 10
    underway.heard(*telling(2_000, 10, redirected=5, age_ms=600))
    assert underway.clients("b") == 10


def test_clients_that_never_arrive_are_forgotten() -> None:
    underway = LoadEstimate()
    at, now_ms = telling(0, 5)
    underway.heard(at, now_ms)
    underway.sent("b")
    underway.heard(at, now_ms + FORGET_MS)
    assert underway.clients("b") == 6
    underway.heard(at, now_ms + FORGET_MS + 1)
    assert underway.clients("b") == 5


def test_a_broker_is_thought_to_go_on_getting_newcomers_as_it_did() -> None:
    underway = LoadEstimate()
    for second in range(3):
        underway.heard(*telling(1_000 * second, 100 * second, newcomers=100 * second, age_ms=300))
    at = telling(2_000, 200)[0]
    assert underway.clients("b") == 200 + 30
    assert underway.expected("b") == 30
    underway = LoadEstimate()
    for second in range(3):
        at, now_ms = telling(1_000 * second, 100 * second, newcomers=100 * second)
        underway.heard(at, now_ms)
    underway.heard(at, now_ms + 1_000)
    assert underway.clients("b") == 300
    underway.heard(at, now_ms + 60_000)
    assert underway.clients("b") == 200 + 100 * EXPECT_MAX_MS // 1_000, "not for ever"


def test_what_has_just_begun_is_thought_to_be_twice_what_was_seen_of_it() -> None:
    underway = LoadEstimate()
    for second, count in enumerate((0, 0, 50)):
        underway.heard(*telling(1_000 * second, count, newcomers=count, age_ms=100))
    assert underway.expected("b") == 10


def test_who_was_sent_there_or_leaves_again_is_not_thought_to_go_on() -> None:
    sent, left, lost = LoadEstimate(), LoadEstimate(), LoadEstimate()
    for second in range(3):
        sent.heard(*telling(1_000 * second, 100 * second, redirected=100 * second, age_ms=500))
        left.heard(*telling(1_000 * second, 100, newcomers=100 * second, age_ms=500))
        lost.heard(*telling(1_000 * second, 300 - 100 * second, age_ms=500))
    assert (sent.clients("b"), left.clients("b"), lost.clients("b")) == (200, 100, 100)


def test_a_broker_that_has_started_again_counts_from_the_beginning() -> None:
    underway = LoadEstimate()
    for second, newcomers in enumerate((5_000, 5_100, 10)):
        underway.heard(*telling(1_000 * second, 100 * second, newcomers=newcomers, age_ms=500))
    assert underway.clients("b") == 200


def test_the_same_brokers_under_no_root_are_not_counted_anew() -> None:
    underway = LoadEstimate()
    for second in range(2):
        at, now_ms = telling(1_000 * second, 100 * second, newcomers=100 * second)
        underway.heard(at, now_ms)
    clients = [underway.clients("b")]
    for root in ("", "c"):
        underway.heard(Roster(root=root, brokers=at.brokers), now_ms + 500)
        clients.append(underway.clients("b"))
    assert clients == [100, 200, 200]


def test_what_came_to_others_meanwhile_keeps_a_newcomer_here() -> None:
    """Own clients are those of this moment: the others have got as many since the roster was told."""
    one = Placing("a", "key", Redirect())
    for second in range(3):
        brokers = tuple(
            BrokerInfo(name=name, client=f"{name}:1", connections=100 * second, newcomers=100 * second)
            for name in ("a", "b", "c")
        )
        one.heard(Roster(root="r", brokers=brokers), START_MS + 1_000 * second)
    one.heard(Roster(root="r", brokers=brokers), START_MS + 2_000)
    assert chosen(one, 200) == "a"
    assert chosen(one, 230) == "b"
    one.heard(Roster(root="r", brokers=brokers), START_MS + 2_900)
    assert chosen(one, 290) == "a"


def test_who_has_no_more_than_its_share_keeps_a_newcomer() -> None:
    assert chosen(placing(roster(a=5, b=10, c=3)), 5) == "a"
    assert chosen(placing(roster(a=6, b=10, c=3)), 6) == "c"
