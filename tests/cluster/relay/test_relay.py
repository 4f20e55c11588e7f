"""How messages cross between brokers: to each that wants them, once, and never back."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from openclust.broker.model.changes import Bind, DeclareExchange
from openclust.cluster.protocol.messages import Lane
from openclust.cluster.relay import relay_lane
from openclust.cluster.relay.lanes import Lanes, Reach
from openclust.cluster.relay.relay_lane import RelayLane, end_lanes
from openclust.wire.codec import method_frame
from openclust.wire.methods import BasicConsume, BasicConsumeOk, BasicPublish, QueueUnbind, QueueUnbindOk
from openclust.wire.properties import Properties, encode_header
from tests.cluster.relay.test_meta_bindings import define, subscribe
from tests.support.cluster.joined import Application, Joined

EVERYWHERE = ("p1", "p2", "p3", "s1", "s2", "s3")


@pytest.fixture
def wide() -> Joined:
    return Joined("p1", "p2", "p3", secondaries=("s1", "s2", "s3"))


def copies(cluster: Joined) -> Counter[str]:
    """How many relayed messages each broker has been sent by others so far."""
    sent: Counter[str] = Counter()
    for name in cluster.members:
        for peer, outbox in cluster[name].links.outboxes.items():
            sent[peer] += outbox.relayed
    return sent


def fresh_copies(cluster: Joined, before: Counter[str]) -> dict[str, int]:
    return dict(copies(cluster) - before)


def lane_of(cluster: Joined, of: str, to: str, reach: Reach, number: int = 500, earlier: int = 0) -> RelayLane:
    """A lane from one broker to another, of our own making, for this reign or an earlier one."""
    cluster[of].links.send(to, Lane(number=number, vhost=b"/", flags=int(reach), epoch=cluster[of].epoch - earlier))
    cluster.settle()
    lane = cluster.members[to].wires[of].connection.channels[number]
    assert isinstance(lane, RelayLane)
    return lane


def push(cluster: Joined, lane: RelayLane, exchange: str, key: str, body: bytes, header: bytes = b"") -> None:
    arguments = method_frame(1, BasicPublish(exchange=exchange, routing_key=key))[11:-1]
    lane.publish(arguments, header or encode_header(Properties(), len(body)), body)
    cluster.settle()


# -- each once, and never back


@pytest.mark.parametrize("at", EVERYWHERE)
def test_every_broker_that_wants_a_message_gets_one_copy_and_its_origin_none(wide: Joined, at: str) -> None:
    subscribers = {name: wide.client(name) for name in EVERYWHERE}
    for client in subscribers.values():
        subscribe(client, "amq.topic", "a.*", "#", "*.b")
        subscribe(client, "amq.topic", "a.#")
    shared = wide.client("p2")
    shared.queue("work")
    shared.bind("work", "amq.topic", "a.b")
    before = copies(wide)
    wide.client(at).publish("a.b", b"x", exchange="amq.topic")
    assert fresh_copies(wide, before) == {name: 1 for name in EVERYWHERE if name != at}
    for name, client in subscribers.items():
        assert client.bodies() == [b"x", b"x"], f"each of the two queues at {name}, once"
    assert shared.count("work") == 1


@pytest.mark.parametrize("at", EVERYWHERE)
def test_nothing_is_sent_where_nobody_listens(wide: Joined, at: str) -> None:
    subscribe(wide.client("s2"), "amq.topic", "wanted")
    before = copies(wide)
    client = wide.client(at)
    client.publish("unwanted", b"x", exchange="amq.topic")
    assert not fresh_copies(wide, before)
    client.publish("wanted", b"x", exchange="amq.topic")
    expected = {} if at == "s2" else {"s2": 1, **({"p1": 1} if at in ("s1", "s3") else {})}
    assert fresh_copies(wide, before) == expected


def test_what_is_no_longer_wanted_is_not_sent(wide: Joined) -> None:
    client = wide.client("s2")
    queue = subscribe(client, "amq.topic", "a")
    publisher = wide.client("p2")
    publisher.publish("a", b"before", exchange="amq.topic")
    client.call(QueueUnbind(queue=queue, exchange="amq.topic", routing_key="a"), QueueUnbindOk)
    before = copies(wide)
    publisher.publish("a", b"after", exchange="amq.topic")
    assert client.bodies() == [b"before"] and not fresh_copies(wide, before)


def test_a_message_of_a_secondary_reaches_the_others_through_the_root_alone(wide: Joined) -> None:
    inbox = wide.client("s2")
    subscribe(inbox, "amq.fanout")
    root, backup = wide["p1"].links.outboxes["s2"], wide["p2"].links.outboxes["s2"]
    before = (root.relayed, backup.relayed)
    wide.client("s1").publish("", b"x", exchange="amq.fanout")
    assert (root.relayed, backup.relayed) == (before[0] + 1, before[1])
    assert inbox.bodies() == [b"x"]


def test_a_message_of_a_secondary_is_not_sent_back_to_it(wide: Joined) -> None:
    inbox = wide.client("s1")
    subscribe(inbox, "amq.fanout")
    subscribe(wide.client("s2"), "amq.fanout")
    before = wide["p1"].links.outboxes["s1"].relayed
    wide.client("s1").publish("", b"x", exchange="amq.fanout")
    assert inbox.bodies() == [b"x"]
    assert wide["p1"].links.outboxes["s1"].relayed == before


def test_without_a_root_private_messages_go_on_between_all(wide: Joined) -> None:
    inboxes = {name: wide.client(name) for name in ("p2", "p3", "s1", "s2", "s3")}
    for client in inboxes.values():
        subscribe(client, "amq.fanout")
    wide.kill("p1")
    assert wide.root == ""
    for at in inboxes:
        before = copies(wide)
        wide.client(at).publish("", at.encode(), exchange="amq.fanout")
        assert max(fresh_copies(wide, before).values()) == 1
        for client in inboxes.values():
            assert client.bodies() == [at.encode()]


def test_what_came_over_a_link_goes_no_further(wide: Joined) -> None:
    for name in EVERYWHERE:
        subscribe(wide.client(name), "amq.fanout")
    before = copies(wide)
    push(wide, lane_of(wide, "p2", "p1", Reach.PRIVATE), "amq.fanout", "", b"x")
    assert not fresh_copies(wide, before)


def test_what_is_to_be_passed_on_goes_to_secondaries_only(wide: Joined) -> None:
    for name in EVERYWHERE:
        subscribe(wide.client(name), "amq.fanout")
    before = copies(wide)
    push(wide, lane_of(wide, "s1", "p1", Reach.PRIVATE | Reach.PASS_ON), "amq.fanout", "", b"x")
    assert fresh_copies(wide, before) == {"s2": 1, "s3": 1}


# -- what a lane may reach


@pytest.mark.parametrize(
    ("reach", "private", "shared"),
    [
        (Reach.PRIVATE, 1, 0),
        (Reach.SHARED, 0, 1),
        (Reach.PRIVATE | Reach.SHARED, 1, 1),
        (Reach.PASS_ON, 0, 0),
    ],
)
def test_a_lane_reaches_what_its_flags_say(wide: Joined, reach: Reach, private: int, shared: int) -> None:
    inbox = wide.client("p1")
    subscribe(inbox, "amq.fanout")
    inbox.queue("work")
    inbox.bind("work", "amq.fanout")
    push(wide, lane_of(wide, "p2", "p1", reach), "amq.fanout", "", b"x")
    assert (len(inbox.bodies()), inbox.count("work")) == (private, shared)


def test_shared_messages_that_reach_a_broker_that_is_no_root_are_counted_and_go_nowhere(wide: Joined) -> None:
    client = wide.client("p2")
    client.queue("work")
    push(wide, lane_of(wide, "s1", "p2", Reach.SHARED), "", "work", b"x")
    assert wide["p2"].relay.misdirected == 1
    assert client.count("work") == 0


def test_what_is_to_be_settled_is_for_one_reign_and_for_no_later_one_of_the_same_root(wide: Joined) -> None:
    client = wide.client("p1")
    client.queue("work")
    lane = lane_of(wide, "s1", "p1", Reach.SHARED | Reach.CONFIRM)
    push(wide, lane, "", "work", b"1")
    assert client.count("work") == 1
    end_lanes(wide["p1"].admission.connections.values())
    wide.hold("p1", "s1")
    push(wide, lane, "", "work", b"2")
    assert client.count("work") == 1 and wide["p1"].relay.misdirected == 1
    assert wide.held["p1", "s1"] == b"", "nobody is told what became of it"


def test_who_opens_a_lane_for_another_root_or_for_an_earlier_reign_reaches_no_shared_queue(wide: Joined) -> None:
    reach = Reach.PRIVATE | Reach.SHARED | Reach.CONFIRM
    assert lane_of(wide, "s1", "p1", reach).reach == reach
    assert lane_of(wide, "s1", "p2", reach).reach == Reach.PRIVATE | Reach.CONFIRM
    assert lane_of(wide, "s1", "p1", reach, earlier=1).reach == Reach.PRIVATE | Reach.CONFIRM


def test_a_lane_to_an_exchange_or_a_virtual_host_that_is_not_here_leads_nowhere(wide: Joined) -> None:
    push(wide, lane_of(wide, "p2", "p1", Reach.PRIVATE), "no such exchange", "", b"x")
    wide["p2"].links.send("p1", Lane(number=501, vhost=b"no such vhost", flags=int(Reach.PRIVATE)))
    wide.settle()
    lane = wide.members["p1"].wires["p2"].connection.channels[501]
    assert isinstance(lane, RelayLane)
    push(wide, lane, "amq.fanout", "", b"x")


def test_damaged_properties_of_a_relayed_message_harm_nobody(wide: Joined) -> None:
    inbox = wide.client("p1")
    subscribe(inbox, "amq.topic", "a")
    header = encode_header(Properties(headers={"a": 1}), 1)
    damaged = header[:-3]
    lane = lane_of(wide, "p2", "p1", Reach.PRIVATE)
    push(wide, lane, "amq.topic", "a", b"x", damaged)
    assert inbox.bodies() == []
    push(wide, lane, "amq.topic", "a", b"y", header)
    assert inbox.bodies() == [b"y"]


def test_a_lane_remembers_routes_up_to_a_bound(wide: Joined, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_lane, "ROUTES_MAX", 3)
    inbox = wide.client("p1")
    subscribe(inbox, "amq.topic", "#")
    lane = lane_of(wide, "p2", "p1", Reach.PRIVATE)
    for number in range(10):
        push(wide, lane, "amq.topic", f"key-{number}", b"%d" % number)
        assert len(lane.routes) <= 3
    assert len(inbox.bodies()) == 10


def test_a_lane_finds_bindings_that_come_later(wide: Joined) -> None:
    lane = lane_of(wide, "p2", "p1", Reach.PRIVATE)
    push(wide, lane, "amq.topic", "a", b"early")
    inbox = wide.client("p1")
    subscribe(inbox, "amq.topic", "a")
    push(wide, lane, "amq.topic", "a", b"late")
    assert inbox.bodies() == [b"late"]


# -- lanes and their numbers


def test_each_kind_of_message_has_its_channel_the_same_on_every_link() -> None:
    lanes = Lanes()
    first = lanes.number(Reach.PRIVATE, "/")
    assert first == 2, "0 and 1 are taken"
    assert lanes.number(Reach.PRIVATE, "team") != first != lanes.number(Reach.SHARED, "/")
    assert lanes.number(Reach.PRIVATE, "/") == first


def test_a_lane_is_told_before_its_first_message_and_once_a_link(wide: Joined) -> None:
    inbox = wide.client("p2")
    subscribe(inbox, "amq.fanout")
    publisher = wide.client("p3")
    for _ in range(2):
        publisher.publish("", b"x", exchange="amq.fanout")
    assert len(wide["p3"].links.outboxes["p2"].opened) == 1
    wide.cut("p2", "p3")
    publisher.publish("", b"lost", exchange="amq.fanout")
    wide.mend("p2", "p3")
    publisher.publish("", b"y", exchange="amq.fanout")
    assert inbox.bodies() == [b"x", b"x", b"y"]


# -- all kinds of exchanges


@pytest.mark.parametrize(("publishing", "listening"), [("p1", "s1"), ("p2", "p3"), ("s1", "p2"), ("s1", "s2")])
def test_messages_find_their_way_through_all_kinds_of_exchanges(wide: Joined, publishing: str, listening: str) -> None:
    define(
        wide,
        DeclareExchange(vhost="/", name="inner", type="topic"),
        DeclareExchange(vhost="/", name="rest", type="fanout"),
        DeclareExchange(vhost="/", name="outer", type="direct", arguments={"alternate-exchange": "rest"}),
        Bind(vhost="/", source="outer", destination="inner", to_exchange=True, routing_key="a.b"),
    )
    inbox, publisher = wide.client(listening), wide.client(publishing)
    queue = inbox.queue("mine", exclusive=True)
    inbox.bind(queue, "amq.headers", "", **{"x-match": "any", "color": "red"})
    inbox.bind(queue, "inner", "a.*")
    inbox.bind(queue, "rest")
    inbox.consume(queue, no_ack=True)
    publisher.publish("", b"no", exchange="amq.headers", headers={"color": "blue"})
    publisher.publish("", b"by headers", exchange="amq.headers", headers={"color": "red"})
    publisher.publish("a.b", b"through two", exchange="outer")
    publisher.publish("z", b"alternate", exchange="outer")
    publisher.publish("mine", b"by name")
    publisher.publish("x", b"carbon copy", headers={"CC": ["mine"]})
    publisher.publish("y", b"blind copy", headers={"BCC": ["mine"], "kept": 1})
    deliveries = inbox.deliveries()
    assert [each.body for each in deliveries] == [
        b"by headers",
        b"through two",
        b"alternate",
        b"by name",
        b"carbon copy",
        b"blind copy",
    ]
    assert deliveries[-1].headers == {"kept": 1}


def test_a_message_crosses_as_it_came(wide: Joined) -> None:
    inbox = wide.client("s2")
    subscribe(inbox, "amq.topic", "k")
    body = bytes(range(256)) * 1_000
    properties: dict[str, Any] = {
        "content_type": "x/y",
        "message_id": "m",
        "priority": 3,
        "headers": {"deep": [{"a": None}, 1.5]},
    }
    wide.client("s1").publish("k", body, exchange="amq.topic", pieces=100_000, **properties)
    (delivery,) = inbox.deliveries()
    assert delivery.body == body
    assert all(getattr(delivery.properties, name) == value for name, value in properties.items())
    assert not delivery.redelivered


# -- direct reply-to


def ask(client: Application, question: bytes) -> None:
    client.call(BasicConsume(queue="amq.rabbitmq.reply-to", no_ack=True), BasicConsumeOk)
    client.publish("questions", question, reply_to="amq.rabbitmq.reply-to")


@pytest.mark.parametrize(("asking", "answering"), [("p1", "s1"), ("p2", "p3"), ("s1", "p2"), ("s1", "s2")])
def test_a_direct_reply_finds_its_asker_on_another_broker(wide: Joined, asking: str, answering: str) -> None:
    service, client = wide.client(answering), wide.client(asking)
    service.queue("questions", exclusive=True)
    service.consume("questions", no_ack=True)
    ask(client, b"?")
    (question,) = service.deliveries()
    assert question.properties.reply_to is not None
    before = copies(wide)
    service.publish(question.properties.reply_to, b"!")
    assert client.bodies() == [b"!"]
    assert max(fresh_copies(wide, before).values()) == 1


# -- full links


def test_transient_messages_past_a_links_bound_are_dropped_for_that_link_alone(wide: Joined) -> None:
    slow, well = wide.client("p2"), wide.client("p3")
    subscribe(slow, "amq.fanout")
    subscribe(well, "amq.fanout")
    outbox = wide["p1"].links.outboxes["p2"]
    publisher = wide.client("p1")
    outbox.bytes_max = -1
    publisher.publish("", b"dropped", exchange="amq.fanout")
    outbox.bytes_max = 1_000_000
    publisher.publish("", b"sent", exchange="amq.fanout")
    assert outbox.dropped == 1
    assert (slow.bodies(), well.bodies()) == ([b"sent"], [b"dropped", b"sent"])
