"""Whether a broker is ready for clients, and what it says where it is not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from openclust.broker.model.changes import PutVhost
from openclust.broker.model.effects import Note
from openclust.cluster.membership.readiness import BLOCKED_MS, TOLD_AFTER_MS
from openclust.wire.codec import method_frame
from openclust.wire.errors import ChannelError
from openclust.wire.frames import PROTOCOL_HEADER
from openclust.wire.methods import ConnectionStartOk, QueueDeclare
from tests.support.client import Client
from tests.support.cluster.joined import Joined


@pytest.fixture
def cluster() -> Joined:
    joined = Joined("p1", "p2", "p3", secondaries=("s1",))
    joined.await_root()
    joined.tick()
    return joined


def missing(cluster: Joined, name: str) -> list[tuple[str, str]]:
    return [(each.check, each.reason) for each in cluster[name].readiness.obstacles()]


def apart(cluster: Joined, name: str) -> None:
    """Cut a broker off from all others."""
    for other in list(cluster.members):
        if other != name and (name in cluster.primaries or other in cluster.primaries):
            cluster.cut(name, other)


def without_a_root(cluster: Joined) -> None:
    for name in ("p2", "p3"):
        cluster.kill(name)
    cluster.tick(500)


def login(cluster: Joined, name: str) -> Client:
    """A client that has just said who it is."""
    client = Client(cluster.broker(name), log_in=False)
    client.feed(PROTOCOL_HEADER)
    client.feed(method_frame(0, ConnectionStartOk(mechanism="PLAIN", response=b"\0guest\0right", locale="en_US")))
    return client


def test_every_broker_of_a_whole_cluster_is_ready(cluster: Joined) -> None:
    assert {name: missing(cluster, name) for name in cluster.members} == {name: [] for name in cluster.members}


def test_without_a_root_nobody_is_ready_and_who_is_missing_is_named(cluster: Joined) -> None:
    without_a_root(cluster)
    assert missing(cluster, "p1") == [("root", "no root: p2 is offline; p3 is offline")]
    assert missing(cluster, "s1") == [("root", "no root: p2 is not heard here; p3 is not heard here")]


def test_how_many_votes_a_root_needs_is_known_to_all(cluster: Joined) -> None:
    assert [cluster[name].readiness.votes_needed for name in ("p1", "s1")] == [2, 2]


def test_a_secondary_that_hears_no_primary_says_so(cluster: Joined) -> None:
    apart(cluster, "s1")
    cluster.tick(500)
    assert missing(cluster, "s1") == [("primaries", "this secondary hears none of the primaries p1, p2, p3")]


def test_a_root_that_is_heard_but_not_reached_is_no_help(cluster: Joined) -> None:
    cluster.unlink("s1", cluster.root)
    assert missing(cluster, "s1") == [("link", f"no link to the root {cluster.root}")]


@pytest.mark.parametrize(
    ("change", "check", "reason"),
    [
        (lambda it: setattr(it, "is_draining", True), "draining", "this broker is drained of its clients"),
        (lambda it: setattr(it.links, "is_leaving", True), "stopping", "this broker stops"),
        (lambda it: setattr(it.disk_health, "illness", "No space left"), "disk", "the disk is ill: No space left"),
    ],
)
def test_what_ails_the_broker_itself_is_named(
    cluster: Joined, change: Callable[[object], None], check: str, reason: str
) -> None:
    change(cluster["p1"])
    assert missing(cluster, "p1") == [(check, reason)]


def test_publishers_that_wait_count_when_it_lasts(cluster: Joined) -> None:
    accounts = cluster.broker("p2").memory_accounts
    accounts.held_bytes += 2 * accounts.high_bytes
    cluster.settle()
    cluster.tick(BLOCKED_MS - 500)
    assert missing(cluster, "p2") == []
    cluster.tick(1_000)
    assert missing(cluster, "p2") == [("publishers", "publishers wait: low on memory")]
    accounts.held_bytes -= 2 * accounts.high_bytes
    cluster.settle()
    cluster.tick()
    assert missing(cluster, "p2") == []


def test_a_root_that_takes_nothing_is_told_by_those_who_publish_to_it(cluster: Joined) -> None:
    other = next(name for name in cluster.primaries if name != cluster.root)
    cluster[other].links.pressed.add(cluster.root)
    cluster.tick(BLOCKED_MS + 500)
    reason = f"publishers wait: the root {cluster.root} is short of memory or disk"
    assert missing(cluster, other) == [("publishers", reason)]


# -- a secondary that has reached nobody


@pytest.fixture
def lonely() -> Joined:
    """A secondary whose primaries are not there."""
    joined = Joined("p1")
    joined.make("s1", is_primary=False)
    joined["s1"].readiness.dialled = lambda: ["10.0.0.1:5682: connection refused"]
    return joined


def test_a_secondary_that_has_reached_no_primary_says_where_it_looked(lonely: Joined) -> None:
    reason = "this secondary has reached no primary of its cluster yet (10.0.0.1:5682: connection refused)"
    assert missing(lonely, "s1") == [("primaries", reason)]
    assert lonely["s1"].readiness.votes_needed is None


def test_it_refuses_clients_at_once_with_what_is_missing(lonely: Joined) -> None:
    """It knows neither users nor queues: a client would be told of a wrong password, or wait for nothing."""
    closed = login(lonely, "s1").closed
    assert closed is not None and closed.code == 320
    assert closed.text.startswith("CONNECTION_FORCED - this secondary has reached no primary of its cluster yet (10.")


def test_what_is_asked_of_it_by_other_ways_is_refused_at_once_too(lonely: Joined) -> None:
    """The HTTP API asks for the root as clients do."""
    answers: list[object] = []
    lonely.broker("s1").define(PutVhost(vhost="v"), answers.append)
    (answer,) = answers
    assert isinstance(answer, ChannelError) and "has reached no primary" in answer.text


def test_one_that_has_been_in_touch_takes_clients_without_a_root(cluster: Joined) -> None:
    without_a_root(cluster)
    assert cluster.client("s1").queue("", exclusive=True)


def test_a_secondary_that_is_cut_off_for_long_lets_nobody_wait(cluster: Joined) -> None:
    apart(cluster, "s1")
    cluster.tick(1_000)
    early = cluster.client("s1")
    early.send(QueueDeclare(queue="early"))
    cluster.tick(cluster["s1"].root_requests.wait_ms - 1_500)
    assert not early.replies.get(1), "the root may come back"
    cluster.tick(2_000)
    now_ms = cluster.now_ms
    closed = cluster.client("s1").error(QueueDeclare(queue="late"))
    assert closed.code == 506 and cluster.now_ms == now_ms
    assert "this secondary hears none of the primaries p1, p2, p3, for 3" in closed.text


# -- the log


def lines(noted: list[str]) -> list[str]:
    said = [each for each in noted if "ready" in each]
    noted.clear()
    return said


def test_the_log_says_when_it_is_ready_and_when_it_lasts_that_it_is_not(
    cluster: Joined, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[str] = []
    one = cluster["s1"]
    monkeypatch.setattr(one.broker, "note", lambda level, text, *_, **__: noted.append(f"{level}: {text}"))
    one.readiness.started()
    assert lines(noted) == ["info: openclust is ready"]
    apart(cluster, "s1")
    cluster.tick(TOLD_AFTER_MS - 500)
    assert lines(noted) == [], "an election takes less"
    cluster.tick(1_000)
    reason = "this secondary hears none of the primaries p1, p2, p3"
    assert lines(noted) == [f"warning: not ready: {reason}"]
    cluster.tick(5_000)
    assert lines(noted) == []
    cluster.tick(6_000)
    assert [each.split(" (")[0] for each in lines(noted)] == [f"warning: not ready: {reason}"]
    for name in cluster.primaries:
        cluster.mend("s1", name)
    cluster.tick(1_000)
    assert lines(noted) == ["info: openclust is ready"]
    cluster.tick(1_000)
    assert lines(noted) == []


def test_one_that_starts_without_its_primaries_does_not_say_that_it_is_ready(lonely: Joined) -> None:
    lonely["s1"].readiness.started()
    notes = [each.text for each in lonely["s1"].broker.effects if isinstance(each, Note)]
    assert len(notes) == 1 and notes[0].startswith("started, and not ready yet: this secondary has reached no primary")
