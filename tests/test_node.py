"""A broker and its membership as one: the order of a turn, and what the clock brings."""

from __future__ import annotations

from itertools import count

import pytest

from openclust.broker.amqp.connection import Connection
from openclust.broker.journal.store_rows import Cut, Write
from openclust.broker.model.effects import Effect, Note
from openclust.broker.model.limits import Limits
from openclust.broker.model.peer import Peer
from openclust.broker.server.broker import Broker
from openclust.cluster.election.events import StoreRead
from openclust.cluster.election.view import Terms, begin
from openclust.cluster.membership.membership import Membership
from openclust.cluster.protocol.hello import Hello
from openclust.cluster.protocol.outbox import Outbox
from openclust.node import DIGEST_EVERY_MS, Node, Ready, perform
from openclust.wire.frames import PROTOCOL_HEADER
from tests.support.client import publish_frames
from tests.support.cluster.joined import HEARTBEAT_MS, Joined

NOW_MS = 10_000
EMPTY = Peer("127.0.0.1", 1, True)


def node(*primaries: str) -> Node:
    names = count()
    broker = Broker(Limits(), random_name=lambda: f"name-{next(names)}")
    broker.now_ms = NOW_MS
    election = begin(Terms(primaries=primaries), primaries[0], 1_000, NOW_MS)
    return Node(broker, Membership(broker, Hello(cluster_key="k", name=primaries[0]), "", election))


def lead(it: Node) -> None:
    it.membership.tell(StoreRead(NOW_MS))
    it.turn()
    assert it.membership.is_root


def test_the_broker_asks_the_membership() -> None:
    it = node("p1")
    assert it.broker.cluster is it.membership


def test_what_came_is_answered_when_the_turn_is_over() -> None:
    it = node("p1")
    connection = Connection(it.broker, EMPTY)
    it.receive(connection, PROTOCOL_HEADER, NOW_MS + 1)
    assert it.turn().connections == [connection] and connection.out and it.broker.now_ms == NOW_MS + 1
    assert it.turn().connections == [] and not it.is_busy


def test_a_root_that_stood_still_past_its_lease_takes_in_nothing_that_its_clients_said_meanwhile() -> None:
    """Another may be root by now, and has taken in what came later: the message is for the next root to take in."""
    cluster = Joined("p1", "p2", "p3")
    root, client = cluster.members["p1"], cluster.client("p1")
    client.queue("work")
    queue = root.broker.vhosts["/"].queues["work"]
    assert root.driver.node is not None and root.driver.node.lease_ends_ms is not None
    cluster.now_ms = root.driver.node.lease_ends_ms + 1
    root.driver.node.receive(client.connection, publish_frames("work", b"late"), cluster.now_ms)
    assert len(queue) == 0 and not root.membership.is_root
    assert [
        entry.message.body for entry in cluster.broker(cluster.await_root()).vhosts["/"].queues["work"].backlog
    ] == [b"late"]


def test_a_root_that_stood_still_within_its_lease_takes_in_what_comes() -> None:
    cluster = Joined("p1", "p2", "p3")
    root, client = cluster.members["p1"], cluster.client("p1")
    client.queue("work")
    assert root.driver.node is not None
    root.driver.node.receive(client.connection, publish_frames("work", b"x"), cluster.now_ms + HEARTBEAT_MS + 1)
    assert len(root.broker.vhosts["/"].queues["work"]) == 1 and root.membership.is_root


def test_outboxes_are_told_once_a_turn() -> None:
    it = node("p1", "p2")
    it.membership.want_primaries({"p2": "there"})
    it.link_up("p2", 131_072, NOW_MS)
    assert [each.peer for each in it.turn().messages] == ["p2"]
    assert it.turn().messages == []
    it.link_down("p2", NOW_MS)
    assert not it.membership.links.outboxes["p2"].is_up


def test_effects_are_told_once() -> None:
    it = node("p1")
    it.broker.note("info", "something")
    assert [each.text for each in it.turn().effects] == ["something"]  # type: ignore[union-attr]
    assert it.turn().effects == []


def test_whom_the_broker_has_taken_leave_of_is_told_once() -> None:
    it = node("p1")
    connection = Connection(it.broker, EMPTY)
    connection.close(320, "goodbye")
    assert it.turn().farewells == [connection] and it.turn().farewells == []


class Recorder:
    """A host that does nothing but note what it is told, and in which order."""

    def __init__(self) -> None:
        self.told: list[tuple[str, object]] = []

    def write(self, writes: list[Write]) -> None:
        self.told.append(("write", writes))

    def send(self, messages: list[Outbox]) -> None:
        self.told.append(("send", messages))

    def effect(self, effect: Effect) -> None:
        self.told.append(("effect", effect))

    def flush(self, connections: list[Connection]) -> None:
        self.told.append(("flush", connections))

    def farewell(self, connection: Connection) -> None:
        self.told.append(("farewell", connection))


def test_a_turn_is_performed_in_its_order() -> None:
    """A vote or a message is with the disk before others hear of it, and a client hears of it last."""
    writes, messages, connections = [Cut(1)], [Outbox("p2", [], 0)], [Connection(node("p1").broker, EMPTY)]
    first, second = Note("info", "first", None, {}), Note("info", "second", None, {})
    host = Recorder()
    perform(Ready(list(writes), messages, [first, second], connections, connections), host)
    assert host.told == [
        ("write", writes),
        ("send", messages),
        ("effect", first),
        ("effect", second),
        ("flush", connections),
        ("farewell", connections[0]),
    ]


def test_the_end_of_a_turn_is_told_though_nothing_is_to_be_written() -> None:
    host = Recorder()
    perform(Ready([], [], [], [], []), host)
    assert host.told == [("flush", [])]


def test_a_turn_that_leaves_something_to_send_is_followed_by_another() -> None:
    it = node("p1", "p2")
    it.membership.want_primaries({"p2": "there"})
    it.turn()
    assert not it.is_busy
    it.link_up("p2", 131_072, NOW_MS)
    assert it.is_busy
    it.turn()
    assert not it.is_busy


def test_a_connection_that_is_lost_is_forgotten() -> None:
    it = node("p1")
    connection = Connection(it.broker, EMPTY)
    it.connection_lost(connection, NOW_MS)
    assert connection not in it.broker.connections


def test_only_a_root_has_a_lease() -> None:
    it = node("p1", "p2")
    assert it.lease_ends_ms is None
    alone = node("p1")
    lead(alone)
    assert alone.lease_ends_ms is not None and alone.lease_ends_ms > 2**61, "who is alone needs nobody's promise"


def test_digests_are_told_once_in_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    it = node("p1", "p2")
    it.membership.want_primaries({"p2": "there"})
    it.link_up("p2", 131_072, NOW_MS)
    said: list[tuple[int, str]] = []
    monkeypatch.setattr(
        it.membership.links, "send", lambda peer, message: said.append((it.broker.now_ms, type(message).__name__))
    )
    for now_ms in range(NOW_MS, NOW_MS + 2 * DIGEST_EVERY_MS + 1, 100):
        it.beat(now_ms)
    told = [now_ms for now_ms, name in said if name == "InterestDigest"]
    assert told == [NOW_MS + DIGEST_EVERY_MS, NOW_MS + 2 * DIGEST_EVERY_MS]


def test_time_moves_on_for_queues() -> None:
    it = node("p1")
    assert it.expires_ms == 0
    it.expire(NOW_MS + 5, 1_700_000_000_000)
    assert (it.broker.now_ms, it.broker.wall_clock_s) == (NOW_MS + 5, 1_700_000_000)
