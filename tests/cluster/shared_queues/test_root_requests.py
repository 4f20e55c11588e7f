"""Questions to the root: answered once, asked again of the next one, given up after a while, and so many at most."""

from __future__ import annotations

from typing import Any

import pytest

from openclust.broker.model.change_codec import encode_change
from openclust.broker.model.changes import Counts, DeclareQueue, PutVhost
from openclust.cluster.protocol.bounds import Bounds
from openclust.cluster.protocol.messages import Answer, Ask, Define, Inspect, Purge
from openclust.cluster.protocol.status import Position
from openclust.cluster.shared_queues import root_answers, root_requests
from openclust.wire.errors import AmqpError, ChannelError, ConnectionError
from openclust.wire.methods import ExchangeDeclare, QueueDeclare, QueueDeclareOk, QueuePurge, QueuePurgeOk
from tests.cluster.log.test_replica import said
from tests.support.cluster.joined import HEARTBEAT_MS, Joined


@pytest.fixture
def cluster() -> Joined:
    return Joined("p1", "p2", "p3", secondaries=("s1",))


def declare(name: str) -> Define:
    return Define(encode_change(DeclareQueue(vhost="/", name=name)))


def ask(cluster: Joined, at: str, question: Any) -> list[Any]:
    answers: list[Any] = []
    cluster[at].root_requests.ask(question, answers.append)
    cluster.settle()
    return answers


@pytest.mark.parametrize("at", ["p1", "p2", "s1"])
def test_a_question_is_answered_wherever_it_is_asked(cluster: Joined, at: str) -> None:
    client = cluster.client("p3")
    client.queue("work")
    for _ in range(3):
        client.publish("work", b"x")
    assert [each.counts for each in ask(cluster, at, Inspect(b"/", b"work"))] == [Counts(3, 0)]
    assert [each.count for each in ask(cluster, at, Purge(b"/", b"work"))] == [3]
    assert [each.counts for each in ask(cluster, at, Inspect(b"/", b"work"))] == [Counts(0, 0)]
    assert len(cluster[at].root_requests) == 0


def test_what_stands_against_it_is_told_as_the_root_says_it(cluster: Joined) -> None:
    (refused,) = ask(cluster, "s1", Purge(b"/", b"nowhere"))
    assert isinstance(refused, ChannelError) and (refused.code, refused.text) == (
        404,
        "no queue 'nowhere' in vhost '/'",
    )
    (refused,) = ask(cluster, "s1", Inspect(b"elsewhere", b"q"))
    assert isinstance(refused, ChannelError) and refused.code == 404


def test_an_error_that_closes_a_connection_does_so_from_afar(cluster: Joined) -> None:
    closed = cluster.client("s1").hard_error(ExchangeDeclare(exchange="odd", type="no-such-type"))
    assert closed.code == 503
    failed = root_answers.failed(1, ConnectionError(503, "x"))
    assert failed.failure is not None and failed.failure.closes_connection


def test_without_a_root_a_question_waits_for_one(cluster: Joined) -> None:
    cluster.kill("p1")
    client = cluster.client("p3")
    client.send(QueueDeclare(queue="patient"))
    assert not client.replies.get(1) and len(cluster["p3"].root_requests) == 1
    cluster.await_root()
    client.reply(1, QueueDeclareOk)
    assert len(cluster["p3"].root_requests) == 0


def test_what_one_root_did_not_answer_is_asked_of_the_next(cluster: Joined) -> None:
    cluster.hold("s1", "p1")
    client = cluster.client("s1")
    client.send(QueueDeclare(queue="work"))
    cluster.kill("p1")
    assert cluster.await_root() == "p2"
    client.reply(1, QueueDeclareOk)
    assert "work" in cluster.broker("p3").vhosts["/"].queues


def test_a_broker_that_becomes_root_answers_itself(cluster: Joined) -> None:
    cluster.hold("p2", "p1")
    client = cluster.client("p2")
    client.send(QueueDeclare(queue="work"))
    cluster.kill("p1")
    assert cluster.await_root() == "p2"
    client.reply(1, QueueDeclareOk)


def test_what_is_asked_again_is_done_once(cluster: Joined) -> None:
    """The first answer was lost with its link: the queue is there, and making it again changes nothing."""
    cluster.hold("p1", "s1")
    client = cluster.client("s1")
    client.send(QueueDeclare(queue="work"))
    before = cluster["p1"].replica.position
    cluster.redial("p1", "s1")
    cluster.await_root()
    client.reply(1, QueueDeclareOk)
    assert cluster["p1"].replica.position == before


def test_a_question_that_waited_too_long_is_given_up_with_506() -> None:
    cluster = Joined("p1", "p2", "p3", bounds=Bounds(root_wait_ms=2_000))
    cluster.kill("p1")
    cluster.kill("p2")
    client = cluster.client("p3")
    client.send(QueueDeclare(queue="late"))
    cluster.tick(1_900)
    assert not client.replies.get(1)
    cluster.tick(100)
    closed = client.channel_error()
    assert closed.code == 506
    assert "the cluster has had no root for 2000 ms (openclust why-no-root tells why)" in closed.text
    assert len(cluster["p3"].root_requests) == 0


def test_a_root_that_does_not_answer_is_named() -> None:
    cluster = Joined("p1", "p2", "p3", bounds=Bounds(root_wait_ms=1_000))
    cluster["p1"].role.asked = lambda peer, ask: None  # type: ignore[method-assign]
    client = cluster.client("p3")
    client.send(QueueDeclare(queue="late"))
    cluster.tick(1_000)
    assert "the root p1 did not answer for 1000 ms" in client.channel_error().text


def test_only_the_oldest_are_given_up() -> None:
    cluster = Joined("p1", "p2", "p3", bounds=Bounds(root_wait_ms=1_000))
    cluster.kill("p1")
    cluster.kill("p2")
    first = ask(cluster, "p3", declare("first"))
    cluster.tick(5 * HEARTBEAT_MS)
    second = ask(cluster, "p3", declare("second"))
    cluster.tick(5 * HEARTBEAT_MS)
    assert len(first) == 1 and isinstance(first[0], AmqpError) and not second


def test_past_their_bound_questions_are_refused_at_once(cluster: Joined, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(root_requests, "PENDING_MAX", 2)
    cluster.kill("p1")
    waiting = [ask(cluster, "p3", declare(f"q{number}")) for number in range(2)]
    (refused,) = ask(cluster, "p3", declare("one too many"))
    assert isinstance(refused, ChannelError) and refused.code == 506 and "2 requests wait" in refused.text
    cluster.await_root()
    assert all(len(each) == 1 and isinstance(each[0], Answer) for each in waiting)


def test_an_answer_of_anybody_but_the_root_counts_for_nothing(cluster: Joined) -> None:
    cluster.hold("p3", "p1")
    answers = ask(cluster, "p3", declare("work"))
    number = next(iter(cluster["p3"].root_requests._pending))
    cluster["p3"].root_requests.answered("p2", Answer(number=number))
    assert not answers
    cluster.let_go("p3", "p1")
    assert len(answers) == 1


def test_what_the_root_answers_to_a_former_life_of_a_broker_is_nothing_to_the_next(cluster: Joined) -> None:
    """It waits for others to have what was asked for; meanwhile who asked has died and come back, and asks itself."""
    cluster.hold("p2", "p1")
    cluster.hold("p3", "p1")
    ask(cluster, "s1", Define(encode_change(PutVhost(vhost="v"))))
    cluster.kill("s1")
    cluster.start("s1")
    client = cluster.client("s1")
    client.send(QueueDeclare(queue="work"))
    for primary in ("p2", "p3"):
        cluster.let_go(primary, "p1")
    cluster.tick()
    assert client.reply(1, QueueDeclareOk).queue == "work"


def test_an_answer_that_nobody_waits_for_changes_nothing(cluster: Joined) -> None:
    cluster.hold("p3", "p1")
    answers = ask(cluster, "p3", declare("work"))
    asked = cluster["p3"].root_requests
    (number,) = asked._pending
    asked.answered("p1", Answer(number=number + 1))
    assert not answers and list(asked._pending) == [number]
    cluster.let_go("p3", "p1")
    asked.answered("p1", Answer(number=number))
    assert len(answers) == 1 and len(asked) == 0, "what was answered once is answered no more"
    assert [each.counts for each in ask(cluster, "p3", Inspect(b"/", b"work"))] == [Counts(0, 0)]


def test_an_answer_waits_until_what_it_speaks_of_is_here(cluster: Joined) -> None:
    """Its patience with this broker was at an end: the answer comes before the entry."""
    answers: list[Any] = []
    asked = cluster["p3"].root_requests
    cluster.hold("p3", "p1")
    number = asked.ask(declare("work"), answers.append)
    here = cluster["p3"].replica.position
    ahead = Position(here.epoch, here.sequence + 1)
    asked.answered("p1", Answer(number=number, position=ahead))
    asked.log_is_at(here)
    assert not answers and len(asked) == 1
    asked.log_is_at(ahead)
    assert len(answers) == 1 and len(asked) == 0


def test_an_answer_that_speaks_of_what_never_came_is_asked_for_again(cluster: Joined) -> None:
    answers: list[Any] = []
    asked = cluster["p3"].root_requests
    cluster.hold("p3", "p1")
    number = asked.ask(declare("work"), answers.append)
    here = cluster["p3"].replica.position
    asked.answered("p1", Answer(number=number, position=Position(here.epoch, here.sequence + 1)))
    cluster.kill("p1")
    cluster.await_root()
    cluster.settle()
    assert len(answers) == 1 and isinstance(answers[0], Answer) and len(asked) == 0
    assert "work" in cluster.broker("p3").vhosts["/"].queues


def test_who_is_no_root_answers_nothing(cluster: Joined) -> None:
    sent = cluster.tap("p2")
    cluster["p2"].role.asked("s1", Ask(number=1, question=declare("work")))
    cluster.settle()
    assert not said(sent, "s1", Answer)
    assert "work" not in cluster.broker("p2").vhosts["/"].queues


def test_purging_from_afar_tells_how_many(cluster: Joined) -> None:
    client = cluster.client("s1")
    client.queue("work")
    client.publish("work", b"x")
    assert client.call(QueuePurge(queue="work"), QueuePurgeOk).message_count == 1
