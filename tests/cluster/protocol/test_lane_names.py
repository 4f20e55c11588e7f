"""What brokers tell of one message on its way between them."""

from __future__ import annotations

from collections import Counter

import pytest

from openclust.broker.amqp.trace import TraceEvent, Tracer
from openclust.cluster.protocol.lane_names import lane_name
from openclust.cluster.relay.lanes import Reach
from openclust.wire.methods import (
    BasicConsume,
    BasicConsumeOk,
    ConfirmSelect,
    ConfirmSelectOk,
    TxCommit,
    TxCommitOk,
    TxSelect,
    TxSelectOk,
)
from tests.cluster.relay.test_meta_bindings import subscribe
from tests.support.cluster.joined import Application, Joined


class Traced(Joined):
    """All of its brokers follow every message, and tell it here."""

    def __init__(self) -> None:
        super().__init__("p1", "p2", "p3", secondaries=("s1", "s2"))
        self.told: list[TraceEvent] = []
        for name in self.members:
            self.broker(name).tracer = Tracer(1, self._teller(name))

    def _teller(self, name: str):  # type: ignore[no-untyped-def]
        def tell(event: TraceEvent) -> None:
            event.broker = name
            self.told.append(event)

        return tell

    def seen(self) -> list[str]:
        """What was told of one message, in short, sorted; and forget it."""
        assert len({each.id for each in self.told}) <= 1, "it is the same message everywhere"
        found = sorted(_short(each) for each in self.told)
        self.told.clear()
        return found


def _short(event: TraceEvent) -> str:
    where = f" {event.peer} {event.lane}" if event.peer else ""
    what = f" {event.queue}" if event.queue else ""
    count = f" x{event.count}" if event.count else ""
    return f"{event.broker} {event.event}{where}{what}{count}"


@pytest.fixture
def cluster() -> Traced:
    return Traced()


def queue_at(cluster: Traced, name: str = "p2") -> None:
    cluster.client(name).queue("work")
    cluster.told.clear()


def reader_at(cluster: Traced, name: str, *, no_ack: bool) -> Application:
    client = cluster.client(name)
    client.call(BasicConsume(queue="work", no_ack=no_ack), BasicConsumeOk)
    return client


def test_the_lanes_have_names_by_what_they_reach() -> None:
    assert lane_name(Reach.PRIVATE) == "private"
    assert lane_name(Reach.PRIVATE | Reach.PASS_ON) == "pass-on"
    assert lane_name(Reach.SHARED | Reach.CONFIRM) == "root"
    assert lane_name(Reach.PRIVATE | Reach.SHARED | Reach.PASS_ON) == "root"


def test_a_fan_out_is_relayed_once_to_each_broker_that_wants_it(cluster: Traced) -> None:
    readers = [cluster.client(name) for name in ("p1", "p2", "p2", "p3")]
    for reader in readers:
        subscribe(reader, "amq.topic", "a")
    cluster.client("p1").publish("a", b"1", exchange="amq.topic")
    assert [reader.bodies() for reader in readers] == [[b"1"]] * 4
    assert cluster.seen() == [
        "p1 deliver x1",
        "p1 publish",
        "p1 relay p2 private",
        "p1 relay p3 private",
        "p2 deliver x2",
        "p2 relayed-in p1 private",
        "p3 deliver x1",
        "p3 relayed-in p1 private",
    ]


def test_what_a_secondary_publishes_is_passed_on_by_the_root(cluster: Traced) -> None:
    subscribe(cluster.client("s2"), "amq.topic", "a")
    cluster.client("s1").publish("a", b"1", exchange="amq.topic")
    assert cluster.seen() == [
        "p1 relay s2 private",
        "p1 relayed-in s1 pass-on",
        "s1 publish",
        "s1 relay p1 pass-on",
        "s2 deliver x1",
        "s2 relayed-in p1 private",
    ]


@pytest.mark.parametrize("confirms", [False, True])
@pytest.mark.parametrize("no_ack", [False, True])
def test_a_shared_queues_message_goes_through_the_root(cluster: Traced, confirms: bool, no_ack: bool) -> None:
    queue_at(cluster)
    reader = reader_at(cluster, "s1", no_ack=no_ack)
    writer = cluster.client("p2")
    if confirms:
        writer.call(ConfirmSelect(), ConfirmSelectOk)
    writer.publish("work", b"1")
    assert reader.bodies() == [b"1"]
    assert cluster.seen() == [
        "p1 enqueue work x1",
        "p1 relay s1 consumer",
        "p1 relayed-in p2 root",
        "p2 publish",
        "p2 relay p1 root",
        "s1 deliver work x1",
        "s1 relayed-in p1 consumer",
    ]


def test_a_consumer_that_takes_no_more_gets_it_later(cluster: Traced) -> None:
    queue_at(cluster)
    reader = reader_at(cluster, "p3", no_ack=True)
    cluster.told.clear()
    reader.stop_reading()
    reader.connection.paused = True
    cluster.client("p1").publish("work", b"1")
    assert "p3 deliver work x1" not in cluster.seen()
    reader.connection.paused = False
    reader.read_on()
    for consumer in (reader.connection.channels[1].consumers or {}).values():
        consumer.wake()
    cluster.settle()
    assert cluster.seen() == ["p3 deliver work x1"]


def test_basic_get_elsewhere_is_a_delivery_here(cluster: Traced) -> None:
    queue_at(cluster)
    cluster.client("p1").publish("work", b"1")
    cluster.told.clear()
    assert cluster.client("s2").get("work") is not None
    assert cluster.seen() == ["s2 deliver work x1"]


def test_a_copy_that_the_link_does_not_take_is_told_as_dropped(cluster: Traced) -> None:
    subscribe(cluster.client("p2"), "amq.topic", "a")
    cluster["p1"].links.outboxes["p2"].bytes_max = -1
    cluster.client("p1").publish("a", b"1", exchange="amq.topic")
    assert cluster["p1"].links.outboxes["p2"].dropped == 1
    assert cluster.seen() == ["p1 drop p2 private", "p1 publish"]


def test_a_message_that_waited_for_a_root_is_relayed_when_there_is_one(cluster: Traced) -> None:
    queue_at(cluster)
    cluster.kill("p1")
    cluster.kill("p2")
    cluster.tick(1_000)
    assert cluster.root == ""
    cluster.client("s1").publish("work", b"1")
    assert cluster.seen() == ["s1 publish"]
    cluster.start("p2")
    root = cluster.await_root()
    cluster.settle()
    assert f"s1 relay {root} root" in cluster.seen()


def test_a_transaction_elsewhere_enters_queues_at_the_root(cluster: Traced) -> None:
    queue_at(cluster)
    writer = cluster.client("p3")
    writer.call(TxSelect())
    writer.publish("work", b"1")
    assert cluster.seen() == []
    writer.call(TxCommit())
    assert cluster.seen() == ["p1 enqueue work x1", "p3 publish"]


def test_what_brokers_say_to_each_other_is_no_message(cluster: Traced) -> None:
    cluster.tick(3_000)
    queue_at(cluster)
    assert cluster.told == []


def relayed(cluster: Traced) -> Counter[str]:
    """How many copies each broker has sent to others."""
    outboxes = {name: cluster[name].links.outboxes.values() for name in cluster.members}
    return Counter({name: sum(each.relayed for each in its) for name, its in outboxes.items()})


def test_as_many_relays_are_told_as_copies_were_sent(cluster: Traced) -> None:
    for name in cluster.members:
        subscribe(cluster.client(name), "amq.topic", "#")
    cluster.client("p2").queue("work")
    cluster.client("p2").bind("work", "amq.topic", "#")
    reader_at(cluster, "s2", no_ack=False)
    cluster.told.clear()
    before = relayed(cluster)
    for name in sorted(cluster.members):
        cluster.client(name).publish(f"from.{name}", b"x", exchange="amq.topic")
    after = relayed(cluster)
    relays = Counter(each.broker for each in cluster.told if each.event == "relay")
    arrivals = Counter(each.peer for each in cluster.told if each.event == "relayed-in")
    assert relays == after - before == arrivals
    assert sum(each.count for each in cluster.told if each.event == "deliver") == 5 * 5 + 5


def test_a_blind_copy_in_a_transaction_is_followed_under_one_id(cluster: Traced) -> None:
    queue_at(cluster)
    client = cluster.client("s1")
    client.call(TxSelect(), TxSelectOk)
    client.publish("nowhere", b"x", headers={"BCC": ["work"]})
    client.call(TxCommit(), TxCommitOk)
    assert any("work" in each for each in cluster.seen()), "the root has put it into the queue"
