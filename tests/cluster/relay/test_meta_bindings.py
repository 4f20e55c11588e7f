"""Meta-bindings: told once, withdrawn with the last binding, the same on both ends, bound where their exchange is."""

from __future__ import annotations

import pytest

from openclust.broker.model.changes import DeclareExchange, DeleteExchange, DeleteVhost, PutPermission, PutVhost
from openclust.cluster.protocol.messages import Interest, InterestDigest, InterestLost
from openclust.cluster.relay.meta_bindings import (
    BINDINGS_A_MESSAGE,
    OTHERS,
    AdvertisedInterest,
    MetaBinding,
    arguments_of,
    hash_of,
    meta_binding_of,
)
from openclust.wire.methods import (
    QueueDeclare,
    QueueDelete,
    QueueDeleteOk,
    QueueUnbind,
    QueueUnbindOk,
)
from tests.cluster.log.test_replica import said
from tests.support.client import EVERYTHING
from tests.support.cluster.joined import Application, Joined


@pytest.fixture
def cluster() -> Joined:
    return Joined("p1", "p2", "p3")


@pytest.fixture
def wide() -> Joined:
    return Joined("p1", "p2", secondaries=("s1", "s2", "s3"))


def subscribe(client: Application, exchange: str, *keys: str) -> str:
    """A private queue with these bindings, and a consumer."""
    queue = client.queue(exclusive=True)
    for key in keys or ("",):
        client.bind(queue, exchange, key)
    client.consume(queue, no_ack=True)
    return queue


def unbind(client: Application, queue: str, exchange: str, key: str) -> None:
    client.call(QueueUnbind(queue=queue, exchange=exchange, routing_key=key), QueueUnbindOk)


def held(cluster: Joined, at: str, of: str) -> list[tuple[str, str]]:
    """Of what one broker holds of another: exchange and key of each, without the queues' own names."""
    known = cluster[at].meta_bindings.held.get(of)
    items = sorted(known.items()) if known is not None else []
    return [(item[1].decode(), item[2].decode()) for item in items if item[1]]


def define(cluster: Joined, *changes: object) -> None:
    for change in changes:
        cluster["p1"].define(change, lambda _: None)  # type: ignore[arg-type]
    cluster.settle()


def agree(cluster: Joined, one: str, other: str) -> bool:
    """Whether `other` holds just what `one` has told."""
    told, known = cluster[one].meta_bindings.own, cluster[other].meta_bindings.held[one]
    return (len(told.counts), told.digest) == (known.count, known.digest)


# -- counting


def test_each_thing_is_told_once_however_many_queues_want_it(cluster: Joined) -> None:
    sent = cluster.tap("p2")
    for _ in range(3):
        subscribe(cluster.client("p2"), "amq.topic", "stock.#")
    assert held(cluster, "p1", "p2") == [("amq.topic", "stock.#")]
    told = [item for to, each in sent if to == "p1" and isinstance(each, Interest) for item in each.added if item[1]]
    assert len(told) == 1


def test_interest_is_withdrawn_with_the_last_binding(cluster: Joined) -> None:
    clients = [cluster.client("p2") for _ in range(3)]
    queues = [subscribe(client, "amq.topic", "stock.#") for client in clients]
    unbind(clients[0], queues[0], "amq.topic", "stock.#")
    assert held(cluster, "p1", "p2") == [("amq.topic", "stock.#")]
    clients[1].call(QueueDelete(queue=queues[1]), QueueDeleteOk)
    assert held(cluster, "p1", "p2") == [("amq.topic", "stock.#")]
    clients[2].lose()
    assert held(cluster, "p1", "p2") == [] and agree(cluster, "p2", "p1")
    assert cluster.broker("p1").vhosts["/"].exchanges["amq.topic"].remote_table is None


def test_the_name_of_a_private_queue_is_wanted_of_the_default_exchange(cluster: Joined) -> None:
    client = cluster.client("p2")
    queue = client.queue("mine", exclusive=True)
    client.consume(queue, no_ack=True)
    cluster.client("p3").publish("mine", b"by name")
    assert client.bodies() == [b"by name"]
    client.lose()
    assert "mine" not in cluster.broker("p3").vhosts["/"].elsewhere


def test_bindings_of_shared_queues_are_no_interest(cluster: Joined) -> None:
    client = cluster.client("p2")
    client.queue("work")
    client.bind("work", "amq.topic", "stock.#")
    assert held(cluster, "p1", "p2") == []
    assert not cluster["p2"].meta_bindings.own.counts


def test_arguments_tell_wishes_apart_whatever_their_order(cluster: Joined) -> None:
    client = cluster.client("p2")
    queue = client.queue(exclusive=True)
    client.bind(queue, "amq.headers", "", **{"x-match": "all", "a": 1})
    client.bind(queue, "amq.headers", "", **{"a": 1, "x-match": "all"})
    client.bind(queue, "amq.headers", "", **{"a": 2, "x-match": "all"})
    client.consume(queue, no_ack=True)
    assert len(held(cluster, "p1", "p2")) == 2
    publisher = cluster.client("p1")
    for number in (1, 2, 3):
        publisher.publish("", b"%d" % number, exchange="amq.headers", headers={"a": number})
    assert client.bodies() == [b"1", b"2"]


def test_an_item_carries_any_name_and_any_arguments() -> None:
    item = meta_binding_of("v", "\udcff", "k", {"b": 1, "a": [True, None]})
    assert item[1] == b"\xff" and arguments_of(item) == {"a": [True, None], "b": 1}
    assert arguments_of(meta_binding_of("v", "e", "k", {})) == {}


def test_items_that_look_alike_when_joined_are_not_the_same() -> None:
    assert hash_of((b"a", b"bc", b"", b"")) != hash_of((b"ab", b"c", b"", b""))


def test_what_was_told_folds_to_the_same_number_in_any_order() -> None:
    items: list[MetaBinding] = [(b"/", b"e", b"%d" % number, b"") for number in range(5)]
    one, other = AdvertisedInterest(), AdvertisedInterest()
    for item in items:
        one.count(item, 1)
    for item in [*reversed(items), items[2], items[2]]:
        other.count(item, 1)
    other.count(items[2], -2)
    assert one.digest == other.digest != 0
    for item in items:
        one.count(item, -1)
    assert one.digest == 0 and not one.counts


# -- batches


def test_what_one_turn_changes_goes_in_one_message(cluster: Joined) -> None:
    sent = cluster.tap("p2")
    interests = cluster["p2"].meta_bindings
    for number in range(BINDINGS_A_MESSAGE + 1):
        interests.wanted("/", "amq.topic", f"key-{number}", {}, 1)
    interests.wanted("/", "amq.topic", "passing", {}, 1)
    interests.wanted("/", "amq.topic", "passing", {}, -1)
    assert not said(sent, "p1", Interest)
    cluster.settle()
    sizes = [len(each.added) for to, each in sent if to == "p1" and isinstance(each, Interest)]
    assert sizes == [BINDINGS_A_MESSAGE, 1]
    assert len(held(cluster, "p1", "p2")) == BINDINGS_A_MESSAGE + 1 and agree(cluster, "p2", "p1")


# -- new links, and what was lost


def test_a_broker_that_links_anew_tells_all_anew(cluster: Joined) -> None:
    client = cluster.client("p2")
    queue = subscribe(client, "amq.topic", "a", "b")
    cluster.cut("p2", "p3")
    assert held(cluster, "p3", "p2") == []
    unbind(client, queue, "amq.topic", "a")
    client.bind(queue, "amq.topic", "c")
    cluster.mend("p2", "p3")
    assert held(cluster, "p3", "p2") == [("amq.topic", "b"), ("amq.topic", "c")]
    assert agree(cluster, "p2", "p3")


def test_a_difference_is_found_by_the_digest_mended_and_counted(cluster: Joined) -> None:
    client = cluster.client("p2")
    subscribe(client, "amq.topic", "a")
    cluster["p2"].tell_digests()
    cluster.settle()
    assert cluster["p1"].meta_bindings.repaired == 0
    stray = meta_binding_of("/", "amq.topic", "stray", {})
    cluster["p1"].meta_bindings.heard(
        "p2", Interest(added=[stray], removed=[meta_binding_of("/", "amq.topic", "a", {})])
    )
    sent = cluster.tap("p1")
    cluster["p2"].tell_digests()
    cluster.settle()
    assert said(sent, "p2", InterestLost) == ["InterestLost"]
    assert held(cluster, "p1", "p2") == [("amq.topic", "a")] and agree(cluster, "p2", "p1")
    assert (cluster["p1"].meta_bindings.repaired, cluster["p3"].meta_bindings.repaired) == (1, 0)
    cluster.client("p1").publish("a", b"again", exchange="amq.topic")
    assert client.bodies() == [b"again"]
    cluster["p2"].tell_digests()
    cluster.settle()
    assert cluster["p1"].meta_bindings.repaired == 1


def test_a_lost_word_is_found_by_the_digest(cluster: Joined) -> None:
    cluster.hold("p2", "p1")
    subscribe(cluster.client("p2"), "amq.topic", "a")
    cluster.held["p2", "p1"] = b""
    cluster.let_go("p2", "p1")
    assert held(cluster, "p1", "p2") == []
    cluster["p2"].tell_digests()
    cluster.settle()
    assert held(cluster, "p1", "p2") == [("amq.topic", "a")] and cluster["p1"].meta_bindings.repaired == 1


def test_what_is_told_anew_in_parts_is_missed_at_no_time(cluster: Joined) -> None:
    """Many thousand items are several messages; none is forgotten because it comes in a later one."""
    a, b, c, d = (meta_binding_of("/", "amq.topic", key, {}) for key in "abcd")
    interests = cluster["p1"].meta_bindings
    interests.heard("p2", Interest(added=[a, b, c], is_first=True, is_last=True))
    interests.heard("p2", Interest(added=[a], is_first=True))
    assert held(cluster, "p1", "p2") == [("amq.topic", key) for key in "abc"]
    interests.heard("p2", Interest(added=[d]))
    assert held(cluster, "p1", "p2") == [("amq.topic", key) for key in "abcd"]
    interests.heard("p2", Interest(added=[c], is_last=True))
    assert held(cluster, "p1", "p2") == [("amq.topic", key) for key in "acd"]
    interests.heard("p2", Interest(removed=[c]))
    known = interests.held["p2"]
    assert (known.count, known.digest) == (2, hash_of(a) ^ hash_of(d))


def test_what_was_told_half_when_the_link_broke_is_told_anew(cluster: Joined) -> None:
    a, b = (meta_binding_of("/", "amq.topic", key, {}) for key in "ab")
    interests = cluster["p1"].meta_bindings
    interests.heard("p2", Interest(added=[a, b], is_first=True, is_last=True))
    interests.heard("p2", Interest(is_first=True))
    interests.heard("p2", Interest(added=[b], is_first=True, is_last=True))
    assert held(cluster, "p1", "p2") == [("amq.topic", "b")]


def test_all_is_told_in_as_many_messages_as_it_takes(cluster: Joined, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openclust.cluster.relay.meta_bindings.BINDINGS_A_MESSAGE", 3)
    client = cluster.client("p2")
    queue = subscribe(client, "amq.topic", *"abcdefg")
    cluster.cut("p2", "p3")
    for key in "bcd":
        unbind(client, queue, "amq.topic", key)
    sent = cluster.tap("p2")
    cluster.mend("p2", "p3")
    told = [each for peer, each in sent if peer == "p3" and isinstance(each, Interest)]
    assert [(each.is_first, each.is_last) for each in told] == [(True, False), (False, True)]
    assert held(cluster, "p3", "p2") == [("amq.topic", key) for key in "aefg"] and agree(cluster, "p2", "p3")


def test_a_broker_that_is_gone_wants_nothing(cluster: Joined) -> None:
    subscribe(cluster.client("p2"), "amq.fanout")
    cluster.kill("p2")
    assert held(cluster, "p1", "p2") == []
    assert cluster.broker("p1").vhosts["/"].exchanges["amq.fanout"].remote_table is None


def test_saying_twice_that_one_wants_something_changes_nothing(cluster: Joined) -> None:
    item = meta_binding_of("/", "amq.topic", "a", {})
    interests = cluster["p1"].meta_bindings
    for _ in range(2):
        interests.heard("p2", Interest(added=[item]))
    assert interests.held["p2"].count == 1
    for _ in range(2):
        interests.heard("p2", Interest(removed=[item]))
    assert (interests.held["p2"].count, interests.held["p2"].digest) == (0, 0)


# -- exchanges and virtual hosts come and go


def test_an_exchange_that_is_deleted_takes_its_meta_bindings_along(cluster: Joined) -> None:
    define(cluster, DeclareExchange(vhost="/", name="news", type="topic"))
    subscribe(cluster.client("p2"), "news", "a")
    assert held(cluster, "p1", "p2") == [("news", "a")]
    define(cluster, DeleteExchange(vhost="/", name="news"))
    assert held(cluster, "p1", "p2") == [] and agree(cluster, "p2", "p1")


def test_an_exchange_that_is_declared_again_is_bound_anew(cluster: Joined) -> None:
    define(cluster, DeclareExchange(vhost="/", name="news", type="topic"))
    client = cluster.client("p2")
    queue = subscribe(client, "news", "a")
    define(cluster, DeleteExchange(vhost="/", name="news"), DeclareExchange(vhost="/", name="news", type="fanout"))
    cluster.client("p1").publish("a", b"before", exchange="news")
    client.bind(queue, "news", "b")
    cluster.client("p1").publish("a", b"after", exchange="news")
    assert client.bodies() == [b"after"], "by the new exchange's type, and the new binding only"


def test_interest_in_an_exchange_that_is_not_here_yet_is_bound_when_it_comes(cluster: Joined) -> None:
    item = meta_binding_of("/", "later", "a", {})
    cluster["p3"].meta_bindings.heard("p2", Interest(added=[item]))
    define(cluster, DeclareExchange(vhost="/", name="later", type="direct"))
    exchange = cluster.broker("p3").vhosts["/"].exchanges["later"]
    assert exchange.remote_table is not None
    assert [target.name for target in exchange.remote_table.match("a", {})] == ["p2"]


def test_interest_of_a_kind_that_an_exchange_cannot_use_is_held_and_matches_nothing(cluster: Joined) -> None:
    item = meta_binding_of("/", "amq.headers", "", {"x-match": "nonsense"})
    cluster["p1"].meta_bindings.heard("p2", Interest(added=[item]))
    cluster.client("p1").publish("", b"x", exchange="amq.headers", headers={"a": 1})
    cluster["p1"].meta_bindings.heard("p2", Interest(removed=[item]))
    assert cluster["p1"].meta_bindings.held["p2"].count == 0


def test_a_virtual_host_that_is_deleted_takes_its_interest_along(cluster: Joined) -> None:
    define(cluster, PutVhost(vhost="team"), PutPermission(vhost="team", user="guest", permission=EVERYTHING))
    client = cluster.client("p2", vhost="team")
    subscribe(client, "amq.topic", "a")
    assert held(cluster, "p1", "p2") == [("amq.topic", "a")]
    define(cluster, DeleteVhost(vhost="team"))
    assert client.closed is not None
    assert not cluster["p2"].meta_bindings.own.counts
    assert cluster["p1"].meta_bindings.held["p2"].count == 0


def test_a_virtual_host_that_is_made_again_begins_without_interest(cluster: Joined) -> None:
    again = (PutVhost(vhost="team"), PutPermission(vhost="team", user="guest", permission=EVERYTHING))
    define(cluster, *again)
    subscribe(cluster.client("p2", vhost="team"), "amq.topic", "a")
    define(cluster, DeleteVhost(vhost="team"), *again)
    client = cluster.client("p2", vhost="team")
    subscribe(client, "amq.topic", "b")
    assert held(cluster, "p1", "p2") == [("amq.topic", "b")]
    publisher = cluster.client("p1", vhost="team")
    publisher.publish("a", b"a", exchange="amq.topic")
    publisher.publish("b", b"b", exchange="amq.topic")
    assert client.bodies() == [b"b"]


def test_the_same_exchange_of_two_virtual_hosts_is_not_mixed_up(cluster: Joined) -> None:
    define(cluster, PutVhost(vhost="team"), PutPermission(vhost="team", user="guest", permission=EVERYTHING))
    one, other = cluster.client("p2"), cluster.client("p2", vhost="team")
    subscribe(one, "amq.fanout")
    subscribe(other, "amq.fanout")
    cluster.client("p1", vhost="team").publish("", b"team", exchange="amq.fanout")
    cluster.client("p1").publish("", b"/", exchange="amq.fanout")
    assert (one.bodies(), other.bodies()) == ([b"/"], [b"team"])


# -- secondaries


def test_a_secondary_is_told_what_the_other_secondaries_want_together(wide: Joined) -> None:
    subscribe(wide.client("s1"), "amq.topic", "a", "b")
    subscribe(wide.client("s2"), "amq.topic", "b")
    assert held(wide, "s1", OTHERS) == [("amq.topic", "b")]
    assert held(wide, "s2", OTHERS) == [("amq.topic", "a"), ("amq.topic", "b")]
    assert held(wide, "s3", OTHERS) == [("amq.topic", "a"), ("amq.topic", "b")]
    assert held(wide, "s3", "p1") == []


def test_what_the_primaries_want_is_not_among_it(wide: Joined) -> None:
    subscribe(wide.client("p2"), "amq.topic", "a")
    assert held(wide, "s1", OTHERS) == []
    assert held(wide, "s1", "p2") == [("amq.topic", "a")], "they say so themselves"


def test_what_the_last_other_secondary_no_longer_wants_is_withdrawn(wide: Joined) -> None:
    one, other = wide.client("s1"), wide.client("s2")
    subscribe(one, "amq.topic", "a")
    subscribe(other, "amq.topic", "a")
    one.lose()
    assert held(wide, "s3", OTHERS) == [("amq.topic", "a")]
    wide.kill("s2")
    assert held(wide, "s3", OTHERS) == []


def test_a_secondary_that_comes_later_is_told(wide: Joined) -> None:
    subscribe(wide.client("s1"), "amq.topic", "a")
    wide.start("s4")
    wide.await_root()
    assert held(wide, "s4", OTHERS) == [("amq.topic", "a")]


def test_what_a_secondary_wanted_before_the_root_reached_it_is_told_to_the_others(wide: Joined) -> None:
    """It may have said so while the root's own link to it was still being made."""
    subscribe(wide.client("s1"), "amq.topic", "a")
    wide.cut("s1", "p1")
    assert held(wide, "s2", OTHERS) == []
    wide.link("s1", "p1")
    wide.settle()
    assert held(wide, "p1", "s1") == [("amq.topic", "a")]
    wide.link("p1", "s1")
    wide.await_root()
    assert held(wide, "s2", OTHERS) == [("amq.topic", "a")]


def test_a_secondary_whose_own_link_is_made_anew_hears_of_the_others_again(wide: Joined) -> None:
    subscribe(wide.client("s2"), "amq.topic", "a")
    wide.redial("s1", "p1")
    wide.await_root()
    subscribe(wide.client("s2"), "amq.topic", "b")
    subscribe(wide.client("s1"), "amq.topic", "c")
    assert held(wide, "s1", OTHERS) == [("amq.topic", "a"), ("amq.topic", "b")]
    assert held(wide, "s2", OTHERS) == [("amq.topic", "c")]


def test_the_next_root_tells_the_secondaries_anew(wide: Joined) -> None:
    subscribe(wide.client("s1"), "amq.topic", "a")
    wide.step_down("p1")
    assert wide.await_root() == "p2"
    assert held(wide, "s2", OTHERS) == [("amq.topic", "a")]
    subscribe(wide.client("s3"), "amq.topic", "b")
    assert held(wide, "s2", OTHERS) == [("amq.topic", "a"), ("amq.topic", "b")]


def test_a_root_serves_one_secondary_a_turn_so_that_it_is_heard_in_between(wide: Joined) -> None:
    """With 100,000 subscribers each is a tenth of a second; after more than three heartbeats it is root no more."""
    subscribe(wide.client("s1"), "amq.topic", "a")
    interests = wide["p1"].meta_bindings
    sent = wide.tap("p1")
    interests.serve_secondaries(["s1", "s2", "s3"])
    served = []
    while interests.is_busy:
        interests.flush()
        served.append(sorted({peer for peer, each in sent if isinstance(each, Interest) and each.of_others}))
    assert served == [["s1"], ["s1", "s2"], ["s1", "s2", "s3"]]


def test_a_secondary_that_goes_before_its_turn_is_not_waited_for(wide: Joined) -> None:
    interests = wide["p1"].meta_bindings
    interests.serve_secondaries(["s1", "s2"])
    interests.link_down("s1")
    interests.link_down("s2")
    assert not interests.is_busy


def test_without_a_root_a_primary_that_is_left_tells_the_secondaries_of_each_other(wide: Joined) -> None:
    subscribe(wide.client("s1"), "amq.topic", "a")
    wide.kill("p1")
    wide.tick(2_000)
    assert not wide["p2"].root and not wide["s2"].root
    client = wide.client("s3")
    subscribe(client, "amq.topic", "b")
    assert held(wide, "s2", OTHERS) == [("amq.topic", "a"), ("amq.topic", "b")]
    assert held(wide, "s3", OTHERS) == [("amq.topic", "a")]
    wide.client("s2").publish("b", b"without a root", exchange="amq.topic")
    assert client.bodies() == [b"without a root"]


def test_who_told_the_secondaries_without_a_root_tells_no_more_when_another_is_root(wide: Joined) -> None:
    wide.kill("p1")
    wide.tick(2_000)
    wide.start("p1")
    root = wide.await_root()
    subscribe(wide.client("s3"), "amq.topic", "b")
    assert held(wide, "s2", OTHERS) == [("amq.topic", "b")]
    tellers = [name for name in ("p1", "p2") if wide[name].meta_bindings._of_others]
    assert tellers == [root]


def test_what_the_root_told_of_others_is_checked_by_a_digest_too(wide: Joined) -> None:
    subscribe(wide.client("s1"), "amq.topic", "a")
    stray = meta_binding_of("/", "amq.topic", "stray", {})
    wide["s2"].meta_bindings.heard("p1", Interest(added=[stray], of_others=True))
    wide["p1"].tell_digests()
    wide.settle()
    assert held(wide, "s2", OTHERS) == [("amq.topic", "a")]
    assert wide["s2"].meta_bindings.repaired == 1


def test_a_broker_alone_keeps_no_account_of_what_its_queues_want() -> None:
    alone = Joined("p1")
    alone["p1"].links.is_alone = True
    subscribe(alone.client("p1"), "amq.topic", "a")
    assert not alone["p1"].meta_bindings.own.counts


def test_a_digest_of_nothing_fits_a_broker_that_said_nothing(cluster: Joined) -> None:
    cluster["p1"].meta_bindings.checked("p9", InterestDigest(count=0, digest=0))
    assert cluster["p1"].meta_bindings.repaired == 0


def test_a_queue_that_is_declared_twice_is_wanted_once(cluster: Joined) -> None:
    client = cluster.client("p2")
    for _ in range(2):
        client.send(QueueDeclare(queue="mine", exclusive=True))
        client.reply()
    client.call(QueueDelete(queue="mine"), QueueDeleteOk)
    assert not cluster["p2"].meta_bindings.own.counts and agree(cluster, "p2", "p1")
