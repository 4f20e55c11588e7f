"""The log of definitions: who holds it, when a change holds, and how brokers that differ become equal again."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from openclust.broker.model.changes import Change, DeclareExchange, DeclareQueue
from openclust.cluster.election.view import ElectionRole
from openclust.cluster.protocol.bounds import Bounds
from openclust.cluster.protocol.log_entry import LogEntry
from openclust.cluster.protocol.messages import Append, ControlMessage, Enlist, Fetch, Snapshot
from openclust.cluster.protocol.status import Position, Reign
from openclust.cluster.roles.taking_over import TakingOver
from openclust.wire.errors import ChannelError
from openclust.wire.methods import QueueDeclare, QueueDeclareOk, QueueDelete, QueueDeleteOk
from tests.support.cluster.joined import HEARTBEAT_MS, Application, Joined
from tests.support.shared_state import digest, shared_state

Sent = Sequence[tuple[str, ControlMessage]]


@pytest.fixture
def cluster() -> Joined:
    return Joined("p1", "p2", "p3")


def said(sent: Sent, peer: str, *kinds: type) -> list[str]:
    """The names of what was said to a peer, of these kinds, in order."""
    return [type(message).__name__ for to, message in sent if to == peer and isinstance(message, kinds)]


def asks_for_all(sent: Sent, peer: str) -> int:
    """How often a peer was asked for a snapshot."""
    return sum(to == peer and isinstance(message, Enlist) and message.position == Position() for to, message in sent)


def has(cluster: Joined, name: str, queue: str) -> bool:
    return queue in cluster.broker(name).vhosts["/"].queues


def holders(cluster: Joined, queue: str) -> list[str]:
    return [name for name in sorted(cluster.members) if has(cluster, name, queue)]


def fingerprints(cluster: Joined) -> set[str]:
    return {digest(shared_state(cluster.broker(name))) for name in cluster.members}


def positions(cluster: Joined) -> set[Position]:
    return {cluster[name].replica.position for name in cluster.members}


def begin_declare(client: Application, queue: str) -> None:
    """Ask for a queue, and do not wait for the answer."""
    client.send(QueueDeclare(queue=queue))


def is_answered(client: Application) -> bool:
    return bool(client.replies.get(1))


def declare_as_root(cluster: Joined, queue: str) -> None:
    """As if another broker had asked p1 for it."""
    cluster["p1"].role.log.define(DeclareQueue(vhost="/", name=queue), lambda result: None, for_other=True)
    cluster.settle()


# -- when a change holds


@pytest.mark.parametrize("at", ["p1", "p2", "s1"])
def test_what_is_declared_is_on_every_broker_when_the_answer_comes(at: str) -> None:
    cluster = Joined("p1", "p2", "p3", secondaries=("s1", "s2"))
    cluster.client(at).queue("work")
    assert holders(cluster, "work") == ["p1", "p2", "p3", "s1", "s2"]
    assert len(positions(cluster)) == len(fingerprints(cluster)) == 1


@pytest.mark.parametrize(("count", "needed"), [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3)])
def test_a_change_is_committed_when_half_of_the_defined_primaries_hold_it(count: int, needed: int) -> None:
    names = [f"p{number + 1}" for number in range(count)]
    cluster = Joined(*names, secondaries=("s1", "s2"))
    replica = cluster["p1"].replica
    for other in names[1:]:
        cluster.hold(other, "p1")
    begin_declare(cluster.client("p1"), "work")
    for number, other in enumerate(names[1:], 1):
        # The secondaries hold it too, and count for nothing.
        assert (cluster["p1"].commit_index.memory == replica.position) is (number >= needed)
        cluster.let_go(other, "p1")
    assert cluster["p1"].commit_index.memory == replica.position


def test_nobody_is_told_before_half_of_the_primaries_hold_it(cluster: Joined) -> None:
    client = cluster.client("p1")
    cluster.hold("p2", "p1")
    cluster.hold("p3", "p1")
    begin_declare(client, "work")
    assert not is_answered(client)
    cluster.let_go("p2", "p1")
    cluster.let_go("p3", "p1")
    assert is_answered(client)


def test_a_follower_in_touch_that_does_not_answer_is_waited_for_three_heartbeats(cluster: Joined) -> None:
    client = cluster.client("p1")
    cluster.hold("p3", "p1")
    begin_declare(client, "work")
    cluster.tick(2 * HEARTBEAT_MS)
    assert not is_answered(client), "p2 is enough to commit, and p3 has its time"
    cluster.tick(HEARTBEAT_MS)
    assert is_answered(client)


def test_a_follower_that_was_too_slow_is_not_waited_for_again(cluster: Joined) -> None:
    client = cluster.client("p1")
    cluster.hold("p3", "p1")
    begin_declare(client, "first")
    cluster.tick(3 * HEARTBEAT_MS)
    client.reply(1, QueueDeclareOk)
    client.queue("second")
    cluster.let_go("p3", "p1")
    cluster.hold("p3", "p1")
    begin_declare(client, "third")
    assert not is_answered(client), "it has caught up, and counts again"


def test_a_follower_that_is_gone_is_not_waited_for(cluster: Joined) -> None:
    client = cluster.client("p1")
    cluster.hold("p3", "p1")
    begin_declare(client, "work")
    cluster.kill("p3")
    assert is_answered(client)


def test_a_follower_whose_answer_was_lost_says_again_what_it_holds(cluster: Joined) -> None:
    client = cluster.client("p1")
    cluster.drop(Append, to="p3")
    cluster.hold("p2", "p1")
    begin_declare(client, "work")
    cluster.redial("p2", "p1")
    cluster.tick(3 * HEARTBEAT_MS)
    assert cluster.root == "p1" and is_answered(client)
    assert cluster["p1"].role.lag("p2") == 0


def voted_and_came_back() -> Joined:
    """p2 hears nothing of p1 and stands, p3 has voted for it; then p3 hears p1 again, and follows. p4 always did."""
    cluster = Joined("p1", "p2", "p3", "p4")
    cluster.hold("p1", "p2")
    cluster.hold("p1", "p3")
    cluster.tick(5 * HEARTBEAT_MS)
    cluster.let_go("p1", "p3")
    assert cluster.root == cluster["p3"].root == cluster["p4"].root == "p1" and cluster["p2"].root == ""
    assert cluster["p3"].election.vote == Reign(cluster["p2"].election.stands_in, "p2")
    return cluster


def test_who_may_yet_make_another_root_by_a_vote_of_before_does_not_count() -> None:
    cluster = voted_and_came_back()
    replica = cluster["p1"].replica
    cluster.hold("p1", "p4")
    declare_as_root(cluster, "work")
    assert has(cluster, "p3", "work") and cluster["p1"].commit_index.memory < replica.position
    cluster.redial("p3", "p1")
    assert cluster["p1"].commit_index.memory < replica.position, "it says so on a new link too"
    cluster.let_go("p1", "p4")
    assert cluster["p1"].commit_index.memory == replica.position


def test_who_is_elected_by_a_vote_of_before_lacks_nothing_that_was_committed() -> None:
    """p2 does not hear in time what p3 holds since it voted; p4 lets its root go, and votes for p2."""
    cluster = voted_and_came_back()
    cluster.hold("p1", "p4")
    cluster.tick()
    cluster.hold("p3", "p2")
    declare_as_root(cluster, "work")
    is_committed = cluster["p1"].commit_index.memory == cluster["p1"].replica.position
    cluster.kill("p1")
    cluster.tick(2 * HEARTBEAT_MS)
    cluster.let_go("p3", "p2")
    assert cluster.await_root() == "p2" and cluster["p2"].epoch == 2
    assert not is_committed, "p2 knows nothing of it"
    assert len(fingerprints(cluster)) == len(positions(cluster)) == 1


def test_who_cannot_make_another_root_any_more_counts_at_once() -> None:
    cluster = voted_and_came_back()
    replica = cluster["p1"].replica
    cluster.hold("p1", "p4")
    declare_as_root(cluster, "work")
    cluster.hold("p2", "p1")
    assert cluster["p1"].commit_index.memory < replica.position
    cluster.let_go("p1", "p2")
    assert cluster["p2"].root == "p1", "it hears the root, and stands no more"
    assert cluster["p3"].election.vote == Reign(2, "p2")
    assert cluster["p1"].commit_index.memory == replica.position, "p3 holds it, and its vote is worth nothing now"


def test_a_change_that_changes_nothing_makes_no_entry(cluster: Joined) -> None:
    client = cluster.client("p2")
    client.queue("work")
    before = cluster["p1"].replica.position
    client.queue("work")
    assert cluster["p1"].replica.position == before


def test_what_the_root_refuses_makes_no_entry(cluster: Joined) -> None:
    client = cluster.client("p2")
    client.queue("work")
    before = cluster["p1"].replica.position
    assert client.error(QueueDeclare(queue="work", durable=True)).code == 406
    assert cluster["p1"].replica.position == before
    assert fingerprints(cluster) == {digest(shared_state(cluster.broker("p1")))}


def test_what_a_deletion_brings_with_it_comes_after_it_in_the_log(cluster: Joined) -> None:
    client = cluster.client("p2")
    cluster["p1"].define(DeclareExchange(vhost="/", name="passing", type="fanout", auto_delete=True), lambda _: None)
    client.queue("work")
    client.bind("work", "passing")
    client.call(QueueDelete(queue="work"), QueueDeleteOk)
    assert "passing" not in cluster.broker("p3").vhosts["/"].exchanges
    assert len(fingerprints(cluster)) == 1


# -- followers come, go and come back


def test_a_joiner_gets_a_snapshot_and_then_the_tail(cluster: Joined) -> None:
    client = cluster.client("p1")
    client.queue("before")
    sent = cluster.tap("p1")
    cluster.start("s1")
    cluster.tick()
    client.queue("after")
    assert said(sent, "s1", Snapshot, Append) == ["Snapshot", "Append"]
    assert has(cluster, "s1", "before") and has(cluster, "s1", "after")
    assert len(fingerprints(cluster)) == 1


def test_who_was_away_gets_what_it_missed_and_no_more(cluster: Joined) -> None:
    client = cluster.client("p1")
    client.queue("before")
    cluster.cut("p1", "p3")
    client.queue("meanwhile")
    assert not has(cluster, "p3", "meanwhile")
    sent = cluster.tap("p1")
    cluster.mend("p1", "p3")
    cluster.await_root()
    entries = [each for to, each in sent if to == "p3" and isinstance(each, Append)]
    assert not said(sent, "p3", Snapshot)
    assert sum(len(each.entries) for each in entries) == 1
    assert has(cluster, "p3", "meanwhile") and len(positions(cluster)) == 1


def test_who_was_away_for_longer_than_the_log_reaches_gets_a_snapshot() -> None:
    cluster = Joined("p1", "p2", "p3", bounds=Bounds(log_entries_max=2))
    client = cluster.client("p1")
    client.queue("before")
    cluster.cut("p1", "p3")
    for number in range(3):
        client.queue(f"meanwhile-{number}")
    client.call(QueueDelete(queue="before"), QueueDeleteOk)
    sent = cluster.tap("p1")
    cluster.mend("p1", "p3")
    cluster.await_root()
    assert said(sent, "p3", Snapshot)[:1] == ["Snapshot"]
    assert holders(cluster, "before") == [] and len(fingerprints(cluster)) == len(positions(cluster)) == 1


def test_who_missed_something_is_fed_again(cluster: Joined) -> None:
    client = cluster.client("p1")
    sent = cluster.tap("p3")
    cluster.hold("p1", "p3")
    begin_declare(client, "lost")
    cluster.held["p1", "p3"] = b""
    cluster.let_go("p1", "p3")
    cluster.tick(2 * HEARTBEAT_MS)
    assert "Enlist" in said(sent, "p1", Enlist), "the root's status says where its log ends"
    assert has(cluster, "p3", "lost") and is_answered(client)


def test_entries_after_a_place_that_is_not_here_are_not_taken(cluster: Joined) -> None:
    replica = cluster["p3"].replica
    before = replica.position
    sent = cluster.tap("p3")
    after = Position(before.epoch, before.sequence + 5)
    entry = LogEntry(Position(before.epoch, before.sequence + 6), "opening", b"")
    replica.append("p1", Append(epoch=cluster["p3"].epoch, after=after, entries=[entry]))
    assert replica.position == before
    assert said(sent, "p1", Enlist) == ["Enlist"]


def test_entries_that_begin_before_the_end_of_the_log_are_taken_from_there(cluster: Joined) -> None:
    start = cluster["p3"].replica.position
    cluster.hold("p1", "p3")
    begin_declare(cluster.client("p1"), "one")
    begin_declare(cluster.client("p1"), "two")
    entries = cluster["p1"].replica.log.tail(start)
    assert entries is not None
    replica = cluster["p3"].replica
    for upto in (1, 2):
        replica.append("p1", Append(epoch=cluster["p3"].epoch, after=start, entries=entries[:upto]))
    assert replica.position == cluster["p1"].replica.position
    assert has(cluster, "p3", "one") and has(cluster, "p3", "two")


def test_a_gap_within_what_a_root_sends_is_told_and_mended(cluster: Joined) -> None:
    replica = cluster["p3"].replica
    before = replica.position
    sent = cluster.tap("p3")
    entry = LogEntry(Position(before.epoch, before.sequence + 2), "opening", b"")
    replica.append("p1", Append(epoch=cluster["p3"].epoch, after=before, entries=[entry]))
    assert replica.position == before
    assert asks_for_all(sent, "p1") == 1


def test_entries_of_an_older_reign_are_refused(cluster: Joined) -> None:
    cluster.step_down("p1")
    assert cluster.await_root() == "p2"
    replica = cluster["p3"].replica
    before = replica.position
    stale = LogEntry(Position(before.epoch, before.sequence + 1), "opening", b"")
    replica.append("p1", Append(epoch=1, after=before, entries=[stale]))
    replica.append("p2", Append(epoch=1, after=before, entries=[stale]))
    replica.snapshot("p1", Snapshot(epoch=1, position=Position(1, 99), changes=[], uuid="other"))
    assert replica.position == before
    assert cluster["p3"].hello.uuid != "other"


def test_a_root_is_fed_by_nobody(cluster: Joined) -> None:
    replica = cluster["p1"].replica
    before = replica.position
    epoch = cluster["p1"].epoch
    replica.snapshot("p2", Snapshot(epoch=epoch, position=Position(epoch, 99), changes=[], uuid=""))
    assert replica.position == before


def test_what_only_a_lost_root_held_is_cut(cluster: Joined) -> None:
    """Nobody was told that it holds: the next root never heard of it."""
    cluster.hold("p1", "p2")
    cluster.hold("p1", "p3")
    done: list[object] = []
    cluster["p1"].role.log.define(DeclareQueue(vhost="/", name="stray"), done.append, for_other=True)
    cluster.settle()
    cluster.cut("p1", "p2")
    cluster.cut("p1", "p3")
    cluster.tick(10 * HEARTBEAT_MS)
    assert cluster.root == "p2" and has(cluster, "p1", "stray")
    sent = cluster.tap("p2")
    cluster.mend("p1", "p2")
    cluster.mend("p1", "p3")
    assert cluster.await_root() == "p2"
    assert said(sent, "p1", Snapshot)[:1] == ["Snapshot"]
    assert holders(cluster, "stray") == [] and not done
    assert len(fingerprints(cluster)) == len(positions(cluster)) == 1


def test_a_change_that_was_not_committed_is_asked_of_the_next_root(cluster: Joined) -> None:
    client = cluster.client("p1")
    cluster.hold("p1", "p2")
    cluster.hold("p1", "p3")
    begin_declare(client, "late")
    cluster.cut("p1", "p2")
    cluster.cut("p1", "p3")
    cluster.tick(10 * HEARTBEAT_MS)
    assert cluster.root == "p2" and has(cluster, "p1", "late") and not is_answered(client)
    cluster.mend("p1", "p2")
    cluster.mend("p1", "p3")
    cluster.await_root()
    client.reply(1, QueueDeclareOk)
    assert holders(cluster, "late") == ["p1", "p2", "p3"]


def test_a_follower_that_cannot_make_a_change_counts_it_and_asks_for_everything(
    cluster: Joined, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden = cluster["p3"].replica.definitions.hidden
    follow = hidden.follow

    def fail(change: Change) -> None:
        monkeypatch.setattr(hidden, "follow", follow)
        raise ChannelError(506, "no memory for it")

    monkeypatch.setattr(hidden, "follow", fail)
    sent = cluster.tap("p3")
    cluster.client("p1").queue("work")
    assert cluster["p3"].replica.diverged == 1
    assert asks_for_all(sent, "p1") == 1
    assert has(cluster, "p3", "work") and len(fingerprints(cluster)) == len(positions(cluster)) == 1


def test_private_queues_here_leave_room_for_what_the_root_has_granted() -> None:
    cluster = Joined("p1", "p2", "p3", queues_max=3)
    mine = cluster.client("p2")
    for _ in range(3):
        mine.queue(exclusive=True)
    cluster.client("p1").queue("work")
    assert holders(cluster, "work") == ["p1", "p2", "p3"]
    assert mine.error(QueueDeclare(exclusive=True)).code == 506, "its own bound is as it was"


def test_each_reign_begins_with_an_entry_that_names_the_cluster(cluster: Joined) -> None:
    uuid = cluster["p1"].hello.uuid
    assert uuid and {cluster[name].hello.uuid for name in cluster.members} == {uuid}
    cluster.step_down("p1")
    assert cluster.await_root() == "p2"
    entries = cluster["p1"].replica.log.tail(Position()) or []
    assert [(each.position.sequence, each.kind) for each in entries] == [(1, "opening"), (2, "opening")]
    assert cluster["p2"].hello.uuid == uuid


# -- taking over


def role(cluster: Joined, name: str) -> ElectionRole:
    return cluster[name].election.role


def missed_by_p2(cluster: Joined) -> None:
    """p1 and p3 hold a queue, p2 does not; then p1 dies."""
    cluster.hold("p1", "p2")
    begin_declare(cluster.client("p1"), "work")
    cluster.kill("p1")
    assert not has(cluster, "p2", "work") and has(cluster, "p3", "work")


def test_a_new_root_fetches_what_a_voter_holds_beyond_its_own_log(cluster: Joined) -> None:
    missed_by_p2(cluster)
    assert cluster.await_root() == "p2"
    assert has(cluster, "p2", "work")
    assert len(fingerprints(cluster)) == len(positions(cluster)) == 1


def test_a_new_root_fetches_from_the_voter_that_holds_most() -> None:
    cluster = Joined("p1", "p2", "p3", "p4")
    cluster.hold("p1", "p2")
    begin_declare(cluster.client("p1"), "one")
    cluster.hold("p1", "p3")
    begin_declare(cluster.client("p1"), "two")
    sent = cluster.tap("p2")
    cluster.kill("p1")
    assert cluster.await_root() == "p2"
    assert said(sent, "p4", Fetch) == ["Fetch"] and not said(sent, "p3", Fetch)
    assert holders(cluster, "two") == ["p2", "p3", "p4"]


def test_a_root_to_be_whose_voter_does_not_send_its_log_gives_up(cluster: Joined) -> None:
    cluster.drop(Fetch, to="p3")
    missed_by_p2(cluster)
    cluster.tick(10 * HEARTBEAT_MS)
    assert role(cluster, "p2") is ElectionRole.TAKING_OVER
    cluster.tick(50 * HEARTBEAT_MS)
    assert cluster.await_root() == "p3", "who holds it all is next"
    assert has(cluster, "p2", "work")


def test_a_root_to_be_whose_voter_goes_gives_up(cluster: Joined) -> None:
    cluster.drop(Fetch, to="p3")
    missed_by_p2(cluster)
    cluster.tick(10 * HEARTBEAT_MS)
    assert role(cluster, "p2") is ElectionRole.TAKING_OVER
    cluster.cut("p2", "p3")
    assert role(cluster, "p2") is ElectionRole.ELECTOR


def test_a_root_to_be_that_holds_most_itself_asks_nobody(cluster: Joined) -> None:
    cluster.hold("p1", "p3")
    begin_declare(cluster.client("p1"), "work")
    sent = cluster.tap("p2")
    cluster.kill("p1")
    assert cluster.await_root() == "p2"
    assert not said(sent, "p3", Fetch) and has(cluster, "p3", "work")


# -- how large it may get


def test_definitions_past_the_maximum_are_refused_with_506_and_nothing_else_suffers() -> None:
    cluster = Joined("p1", "p2", "p3", bounds=Bounds(state_bytes_max=2_000))
    client = cluster.client("p2")
    names = [f"queue-{number:03}" for number in range(100)]
    made = []
    for name in names:
        client.send(QueueDeclare(queue=name))
        if not isinstance(client.replies[1][0], QueueDeclareOk):
            break
        client.reply()
        made.append(name)
    closed = client.channel_error()
    assert closed.code == 506 and "state_max_mb" in closed.text
    assert made and len(made) < len(names)
    assert client.queue(made[0]) == made[0], "what is there may be declared again"
    client.publish(made[0], b"goes on")
    assert cluster.client("p3").count(made[0]) == 1
    mine = client.queue(exclusive=True)
    client.bind(mine, "amq.fanout")
    for name in made[1:]:
        client.call(QueueDelete(queue=name), QueueDeleteOk)
    assert client.queue("again") == "again", "what was deleted has left room"
    assert len(fingerprints(cluster)) == 1


def test_what_does_not_fit_does_not_end_a_take_over(cluster: Joined) -> None:
    replica = cluster["p2"].replica
    goal = Position(7, replica.position.sequence + 5)
    sent = cluster.tap("p2")
    cluster["p2"].become(TakingOver(cluster["p2"], 8, {"p3": goal}))
    assert said(sent, "p3", Fetch) == ["Fetch"]
    replica.append("p3", Append(epoch=8, after=Position(7, goal.sequence + 1), entries=[]))
    assert said(sent, "p1", Enlist) == []
    assert isinstance(cluster["p2"].role, TakingOver)


def test_a_log_that_begins_behind_the_last_place_both_share_asks_for_all(cluster: Joined) -> None:
    replica, epoch = cluster["p2"].replica, cluster["p1"].epoch
    last = replica.position
    # As after a snapshot of what its root then lost.
    replica.log.restart(Position(epoch - 1, last.sequence + 5))
    sent = cluster.tap("p2")
    opening = LogEntry(Position(epoch, last.sequence + 1), "opening", b"uuid")
    replica.append("p1", Append(epoch=epoch, after=last, entries=[opening]))
    assert asks_for_all(sent, "p1") == 1
    # What is old, and no more, is nothing new.
    old = LogEntry(Position(epoch - 1, last.sequence + 1), "opening", b"uuid")
    replica.append("p1", Append(epoch=epoch, after=last, entries=[old]))
    assert asks_for_all(sent, "p1") == 1
