"""Brokers that are linked one way, or not yet, or no more: what links go through while they are made."""

from __future__ import annotations

from openclust.cluster.protocol.bounds import Bounds
from openclust.cluster.protocol.messages import Ask, Consume, Fetch
from openclust.wire.methods import QueueDeclare, QueueDeclareOk
from tests.cluster.relay.test_meta_bindings import subscribe
from tests.support.cluster.joined import Joined


def test_a_message_for_a_secondary_that_is_not_linked_to_yet_harms_nobody() -> None:
    cluster = Joined("p1", secondaries=("s1", "s2", "s3"))
    inboxes = {name: cluster.client(name) for name in ("s2", "s3")}
    for client in inboxes.values():
        subscribe(client, "amq.fanout")
    # The link of s2 to p1 was there first: p1 has heard what it wants, and cannot tell it anything.
    del cluster["p1"].links.outboxes["s2"]
    cluster.broker("p1").topology_changed()
    cluster.client("s1").publish("", b"x", exchange="amq.fanout")
    assert inboxes["s3"].bodies() == [b"x"]
    cluster["p1"].link_up("s2", 131_072)
    cluster.client("s1").publish("", b"y", exchange="amq.fanout")
    assert [client.bodies() for client in inboxes.values()] == [[b"y"], [b"y"]]


def test_a_log_that_is_lost_on_its_way_to_who_takes_over_is_asked_for_on_the_next_link() -> None:
    cluster = Joined("p1", "p2", "p3", "p4", "p5")
    cluster.hold("p1", "p2")
    cluster.client("p1").send(QueueDeclare(queue="work"))
    assert "work" in cluster.broker("p3").vhosts["/"].queues and "work" not in cluster.broker("p2").vhosts["/"].queues
    # p2 is the most senior that is left, and lacks what p3 holds: its question goes down with the link.
    cluster.drop(Fetch, to="p3")
    cluster.kill("p1")
    cluster.tick(1_000)
    assert not cluster.root
    cluster.drop(to="p3")
    cluster.redial("p3", "p2")
    assert cluster.await_root(300) == "p2"
    assert "work" in cluster.broker("p2").vhosts["/"].queues


def test_a_consumer_waits_for_a_root_that_is_heard_and_cannot_be_reached_however_long() -> None:
    cluster = Joined("p1", "p2", "p3", bounds=Bounds(root_wait_ms=1_000))
    client = cluster.client("p1")
    client.queue("work", durable=True)
    client.consume("work", "t")
    for name in ("p2", "p3"):
        cluster.cut("p1", name)
    cluster.tick(2_000)
    root = cluster.root
    cluster.cuts.clear()
    # It asks to consume there, and that is lost.
    cluster.hold("p1", root)
    cluster.mend("p1", root)
    cluster.tick(500)
    assert cluster["p1"].root == root and len(cluster["p1"].root_requests) == 1
    cluster.unlink("p1", root)
    cluster.tick(3_000)
    other = cluster.client("p1")
    other.send(QueueDeclare(queue="late"))
    cluster.tick(1_000)
    assert "did not answer for 1000 ms" in other.channel_error().text
    cluster.link("p1", root)
    cluster.settle()
    cluster.client(root).publish("work", b"x")
    assert client.bodies() == [b"x"]


def test_a_change_asked_of_a_root_whose_lease_has_run_out_unnoticed_is_made_by_the_next_root() -> None:
    cluster = Joined("p1", "p2", "p3")
    client = cluster.client("p1")
    pairs = [pair for other in ("p2", "p3") for pair in (("p1", other), (other, "p1"))]
    for pair in pairs:
        cluster.hold(*pair)
    # It has stood still, and the first that it does is what the application asks.
    cluster.now_ms += 1_000
    cluster.broker("p1").now_ms = cluster.now_ms
    client.send(QueueDeclare(queue="work"))
    assert not cluster["p1"].is_root
    for pair in pairs:
        cluster.let_go(*pair)
    cluster.await_root()
    cluster.tick()
    client.reply(1, QueueDeclareOk)
    assert all("work" in cluster.broker(name).vhosts["/"].queues for name in cluster.members)


CONSUME = Consume(
    vhost=b"/",
    queue=b"work",
    source=7,
    consumer_tag=b"c",
    no_ack=False,
    exclusive=False,
    priority=0,
    prefetch=0,
    arguments=b"",
)


def test_a_consumer_whose_broker_goes_in_the_turn_in_which_it_came_harms_nobody() -> None:
    cluster = Joined("p1", secondaries=("s1", "s2"))
    client = cluster.client("s2")
    client.queue("work")
    cluster["p1"].role.asked("s1", Ask(number=1, question=CONSUME))
    # All of this is one turn of p1: no `settle` before it is over.
    cluster["p1"].links.peers.pop("s1")
    cluster["p1"].link_down("s1")
    cluster.settle()
    client.publish("work", b"x")
    assert list(cluster["p1"].consumer_proxies) == [] and client.count("work") == 1
