"""Snapshots in slices: definitions go on changing while one is made, on its way and put to use; all are equal after."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclust.broker.model.access import Permission, User
from openclust.broker.model.change_codec import decode_change, encode_change
from openclust.broker.model.changes import (
    Bind,
    Change,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    DeleteUser,
    DeleteVhost,
    PutPermission,
    PutUser,
    PutVhost,
    Unbind,
)
from openclust.broker.server.broker import Broker
from openclust.cluster.election.view import ElectionRole
from openclust.cluster.log import log_sender
from openclust.cluster.protocol.bounds import Bounds
from openclust.cluster.protocol.messages import Append, ControlMessage, Fetch, Held, Snapshot
from openclust.cluster.protocol.status import Position
from openclust.cluster.roles.root import Root
from openclust.cluster.roles.taking_over import TakingOver
from openclust.cluster.snapshot.snapshot import Making
from tests.cluster.definitions.test_state import changes, histories, private_queue
from tests.cluster.log.test_replica import Sent, fingerprints, has, positions, said
from tests.support.client import new_broker
from tests.support.cluster.joined import HEARTBEAT_MS, Joined
from tests.support.invariants import check
from tests.support.shared_state import digest, reconcile, shared_state
from tests.support.wire import PROPERTY_TEST

AWAY = "s1"


def define(cluster: Joined, *wanted: Change) -> None:
    """Ask the root, and let nothing else happen."""
    root = cluster[cluster.root]
    for change in wanted:
        root.role.log.define(change, lambda _: None, for_other=True)


def queues(count: int, first: int = 0) -> list[Change]:
    return [DeclareQueue(vhost="/", name=f"queue-{number:03}") for number in range(first, first + count)]


def step(cluster: Joined, *names: str) -> bool:
    """A turn of each, or of these; whether anything moved."""
    moved = [cluster.turn(cluster.members[name]) for name in names or list(cluster.members)]
    return any(moved)


def away(bounds: Bounds, *primaries: str) -> Joined:
    """A secondary that has lost its links, and will need a snapshot."""
    cluster = Joined(*primaries or ("p1",), secondaries=(AWAY,), bounds=bounds)
    for each in primaries or ("p1",):
        cluster.cut(each, AWAY)
    return cluster


def come_back(cluster: Joined) -> None:
    """Its links are there again, and it is about to hear who is root."""
    for name in cluster.primaries:
        cluster.cuts.discard(frozenset((name, AWAY)))
        cluster.link(name, AWAY)
        cluster.link(AWAY, name)
    cluster.now_ms += HEARTBEAT_MS
    for member in cluster.members.values():
        member.broker.tick(cluster.now_ms)
        member.membership.tick()


def step_until(cluster: Joined, is_so: Any) -> None:
    for _ in range(1_000):
        if is_so():
            return
        step(cluster)
    raise AssertionError("it never came to that")


def is_installing(cluster: Joined, name: str) -> bool:
    return cluster[name].replica.definitions.is_installing


# -- at random


@PROPERTY_TEST
@given(
    histories,
    histories,
    st.lists(st.one_of(changes, st.sampled_from(("turn", "turn", "turn", "private", "public"))), max_size=60),
    st.integers(1, 4),
)
def test_changes_between_the_slices_leave_all_brokers_equal(
    before: list[Change], meanwhile: list[Change], events: list[Any], slice_max: int
) -> None:
    cluster = Joined("p1", secondaries=(AWAY,), bounds=Bounds(slice_max=slice_max, log_entries_max=2))
    define(cluster, *before)
    cluster.settle()
    cluster.cut("p1", AWAY)
    define(cluster, *meanwhile)
    come_back(cluster)
    broker = cluster.broker(AWAY)
    for event in events:
        vhost = broker.vhosts.get("/")
        match event:
            case "turn":
                step(cluster)
            case "private":
                if vhost is not None and "q" not in vhost.queues and may_log_in(broker):
                    private_queue(broker, "q")
                    for name in sorted(vhost.exchanges.keys() & {"e", "amq.topic"}):
                        vhost.bind(Bind(vhost="/", source=name, destination="q", routing_key="mine"))
            case "public":
                forget_private(cluster)
            case _:
                define(cluster, event)
    cluster.settle()
    cluster.tick(2 * HEARTBEAT_MS)
    forget_private(cluster)
    cluster.settle()
    assert len(fingerprints(cluster)) == len(positions(cluster)) == 1
    check(broker)


def may_log_in(broker: Broker) -> bool:
    guest = broker.users.get("guest")
    return guest is not None and "/" in guest.permissions and not guest.password_hash


def forget_private(cluster: Joined) -> None:
    for vhost in cluster.broker(AWAY).vhosts.values():
        for queue in [each for each in vhost.queues.values() if each.owner is not None]:
            vhost.delete_queue(queue.name)


# -- what is taken while it changes


def bind(key: str, queue: str = "q", exchange: str = "e") -> Bind:
    return Bind(vhost="v", source=exchange, destination=queue, routing_key=key)


IN_V: list[Change] = [
    PutVhost(vhost="v"),
    DeclareExchange(vhost="v", name="e", type="direct"),
    DeclareQueue(vhost="v", name="q"),
]
U = PutUser(user=User(name="u", permissions={"v": Permission()}))


@pytest.mark.parametrize(
    ("taken", "later", "gone"),
    [
        ([*IN_V, bind("k")], [DeleteQueue(vhost="v", name="q"), IN_V[2]], [bind("k")]),
        ([*IN_V, bind("k")], [DeleteExchange(vhost="v", name="e"), IN_V[1]], [bind("k")]),
        ([*IN_V, bind("k")], [Unbind(vhost="v", source="e", destination="q", routing_key="k")], [bind("k")]),
        ([*IN_V, bind("k"), U], [DeleteVhost(vhost="v"), *IN_V], [bind("k"), U]),
        ([*IN_V, U], [DeleteUser(name="u")], [U]),
        ([*IN_V, bind("k")], [DeleteQueue(vhost="v", name="q"), IN_V[2], bind("j")], [bind("k")]),
    ],
)
def test_what_is_deleted_after_it_was_taken_takes_with_it_what_hung_on_it(
    taken: list[Change], later: list[Change], gone: list[Change]
) -> None:
    one, other = new_broker(), new_broker()
    start = shared_state(new_broker())
    reconcile(one, [*start, *taken, *later])
    reconcile(other, [*start, *(each for each in [*taken, *later] if each not in gone)])
    if U in gone and DeleteUser(name="u") not in later:
        assert one.users.pop("u").permissions == {}
    assert digest(shared_state(one)) == digest(shared_state(other))


def test_a_permission_of_a_user_who_was_deleted_before_users_were_listed_is_no_mistake() -> None:
    other = new_broker()
    start = shared_state(other)
    later = [PutPermission(vhost="/", user="gone", permission=Permission()), DeleteUser(name="gone")]
    assert reconcile(other, [*start, *later]) == 0
    assert not [each for each in other.effects if getattr(each, "level", "") == "error"]
    assert digest(shared_state(other)) == digest(start)


def test_a_snapshot_is_the_state_where_it_ends_and_not_where_it_began() -> None:
    broker = new_broker()
    state = [*shared_state(broker), *queues(5)]
    making = Making(iter(state), 2)
    making.advance(Position(1, 7))
    late = DeleteQueue(vhost="/", name="queue-000")
    making.changed(encode_change(late))
    number = 8
    while not making.is_made:
        making.advance(Position(1, number))
        number += 1
    making.changed(encode_change(DeleteQueue(vhost="/", name="queue-001")))
    assert max(map(len, making.parts)) == 2
    assert [decode_change(each) for part in making.parts for each in part] == [*state, late]
    assert making.position == Position(1, number - 1)
    messages = [making.message(part, 1, "name") for part in range(len(making.parts))]
    assert [each.is_last for each in messages] == [False] * (len(messages) - 1) + [True]
    assert messages[-1].position == making.position and messages[-1].uuid == "name"


# -- the root


def test_a_turn_makes_and_sends_no_more_than_a_slice() -> None:
    cluster = away(Bounds(slice_max=5, log_entries_max=3))
    define(cluster, *queues(50))
    sent = cluster.tap("p1")
    come_back(cluster)
    parts = 0
    for _ in range(40):
        before = len(sent)
        step(cluster)
        new = [each for _, each in sent[before:] if isinstance(each, Snapshot)]
        assert len(new) <= 1 and all(len(each.changes) <= 5 for each in new)
        parts += len(new)
    assert parts > 10 and len(fingerprints(cluster)) == 1


def test_followers_that_come_at_the_same_time_share_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Joined("p1", bounds=Bounds(slice_max=5))
    define(cluster, *queues(50))
    # That it is made once, the bytes do not show.
    sent: list[tuple[str, ControlMessage]] = []
    send = cluster["p1"].links.send
    monkeypatch.setattr(cluster["p1"].links, "send", lambda to, each: sent.append((to, each)) or send(to, each))
    for name in ("s1", "s2"):
        cluster.make(name, is_primary=False)
        cluster.begin(name)
        cluster[cluster.root].tick()
        for _ in range(4):
            step(cluster)
    cluster.settle()
    first, second = ([each for to, each in sent if to == name and isinstance(each, Snapshot)] for name in ("s1", "s2"))
    assert len(first) == len(second) > 10
    assert all(one.changes is other.changes for one, other in zip(first, second, strict=True))
    assert len(fingerprints(cluster)) == 1
    assert cluster["p1"].replica.sender._making is None, "nobody needs it any more"


def test_a_snapshot_waits_while_much_is_on_its_way_to_its_follower() -> None:
    cluster = away(Bounds(slice_max=5, log_entries_max=3))
    define(cluster, *queues(50))
    come_back(cluster)
    outbox = cluster["p1"].links.outboxes[AWAY]
    sent = cluster.tap("p1")
    step_until(cluster, lambda: said(sent, AWAY, Snapshot))
    for _ in range(30):
        outbox.waiting_bytes = 2_000_000
        cluster["p1"].end_turn()
    assert len(said(sent, AWAY, Snapshot)) == 1
    assert not cluster["p1"].replica.is_busy, "it does not spin"
    outbox.waiting_bytes = 0
    cluster.settle()
    assert len(fingerprints(cluster)) == 1


def test_no_more_parts_are_under_way_than_a_followers_disk_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_sender, "PARTS_UNDER_WAY", 4)
    cluster = away(Bounds(slice_max=5, log_entries_max=3))
    define(cluster, *queues(50))
    come_back(cluster)
    sent = cluster.tap("p1")
    step_until(cluster, lambda: said(sent, AWAY, Snapshot))
    # Nothing of what has come is on its disk yet, as far as anybody knows.
    cluster.hold(AWAY, "p1")
    for _ in range(40):
        step(cluster)
    assert 4 <= len(said(sent, AWAY, Snapshot)) <= 5
    assert not cluster["p1"].replica.is_busy, "it does not spin"
    cluster.let_go(AWAY, "p1")
    assert len(said(sent, AWAY, Snapshot)) > 10
    assert len(fingerprints(cluster)) == 1


def test_a_long_tail_of_the_log_goes_in_slices_too() -> None:
    cluster = away(Bounds(slice_max=5))
    cluster.settle()
    define(cluster, *queues(23))
    sent = cluster.tap("p1")
    cluster.mend("p1", AWAY)
    lengths = [len(each.entries) for to, each in sent if to == AWAY and isinstance(each, Append)]
    assert lengths == [5, 5, 5, 5, 3] and not said(sent, AWAY, Snapshot)
    assert len(fingerprints(cluster)) == len(positions(cluster)) == 1


# -- the follower


def coming(count: int = 50) -> tuple[Joined, Sent]:
    """A cluster whose secondary is about to get a snapshot, and what it says."""
    cluster = away(Bounds(slice_max=5, log_entries_max=3))
    define(cluster, *queues(count))
    sent = cluster.tap(AWAY)
    come_back(cluster)
    return cluster, sent


def test_a_follower_changes_nothing_before_the_last_part_has_come() -> None:
    cluster, sent = coming()
    before = cluster[AWAY].replica.position
    for _ in range(8):
        step(cluster)
    assert len(cluster[AWAY].replica.installing._arriving.definitions) > 2
    assert not cluster.broker(AWAY).vhosts["/"].queues and not said(sent, "p1", Held)
    cluster.cut("p1", AWAY)
    assert cluster[AWAY].replica.position == before and not has(cluster, AWAY, "queue-000")
    cluster.mend("p1", AWAY)
    assert len(fingerprints(cluster)) == len(positions(cluster)) == 1


def test_a_follower_says_that_it_holds_a_snapshot_when_all_of_it_is_in_use() -> None:
    cluster, _ = coming()
    before = cluster[AWAY].replica.position
    step_until(cluster, lambda: is_installing(cluster, AWAY))
    turns = 0
    while is_installing(cluster, AWAY):
        assert cluster[AWAY].replica.position == before and cluster[AWAY].replica.is_busy
        assert (cluster["p1"].role.lag(AWAY) or 0) > 40
        step(cluster, AWAY)
        turns += 1
    assert turns > 20
    assert cluster[AWAY].replica.position == cluster["p1"].replica.position
    cluster.settle()
    assert cluster["p1"].role.lag(AWAY) == 0


def test_a_store_begins_anew_once_with_a_snapshot_and_knows_the_clusters_name(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, _ = coming()
    known: list[str] = []
    store = cluster[AWAY].checkpoints
    monkeypatch.setattr(store, "restart", lambda: known.append(cluster[AWAY].cluster_uuid.uuid))
    cluster.settle()
    assert known == [cluster["p1"].cluster_uuid.uuid] != [""]


def test_what_is_defined_while_a_snapshot_is_put_to_use_comes_after_it() -> None:
    cluster, _ = coming()
    step_until(cluster, lambda: is_installing(cluster, AWAY))
    define(cluster, *queues(2, 100), DeleteQueue(vhost="/", name="queue-003"))
    step(cluster)
    assert is_installing(cluster, AWAY) and not has(cluster, AWAY, "queue-100")
    cluster.settle()
    assert has(cluster, AWAY, "queue-100") and not has(cluster, AWAY, "queue-003")
    assert len(fingerprints(cluster)) == len(positions(cluster)) == 1


def test_a_snapshot_that_is_put_to_use_does_not_need_its_root_any_more() -> None:
    cluster, _ = coming()
    step_until(cluster, lambda: is_installing(cluster, AWAY))
    root = cluster["p1"].replica.position
    cluster.kill("p1")
    assert cluster[AWAY].replica.position == root and has(cluster, AWAY, "queue-049")


def test_a_follower_whose_link_is_new_in_between_enlists_again() -> None:
    cluster, _ = coming()
    for _ in range(6):
        step(cluster)
    cluster.redial("p1", AWAY)
    cluster.tick()
    assert len(fingerprints(cluster)) == len(positions(cluster)) == 1


def test_a_follower_whose_link_is_new_while_a_snapshot_is_put_to_use_goes_on_from_there() -> None:
    cluster, _ = coming()
    step_until(cluster, lambda: is_installing(cluster, AWAY))
    sent = cluster.tap("p1")
    cluster.redial("p1", AWAY)
    define(cluster, *queues(1, 100))
    cluster.settle()
    assert said(sent, AWAY, Snapshot) == []
    assert len(fingerprints(cluster)) == len(positions(cluster)) == 1


def test_a_part_that_does_not_follow_is_not_taken() -> None:
    cluster, _ = coming()
    cluster.settle()
    replica = cluster[AWAY].replica
    before, epoch = replica.position, cluster[AWAY].epoch
    after = Position(epoch, before.sequence + 9)
    replica.snapshot("p1", Snapshot(epoch=epoch, changes=[], part=0, is_last=False))
    replica.snapshot("p1", Snapshot(epoch=epoch, changes=[], part=2, position=after))
    replica.snapshot("p1", Snapshot(epoch=epoch, changes=[], part=1, position=after))
    assert replica.position == before and has(cluster, AWAY, "queue-001")


def test_entries_mean_nothing_while_a_snapshot_is_put_to_use() -> None:
    cluster, _ = coming()
    step_until(cluster, lambda: is_installing(cluster, AWAY))
    replica = cluster[AWAY].replica
    entries = cluster["p1"].replica.log.tail(cluster["p1"].replica.log.base) or []
    replica.append("p1", Append(epoch=cluster[AWAY].epoch, after=replica.position, entries=entries))
    assert entries and is_installing(cluster, AWAY) and len(replica.log) == 0
    cluster.settle()
    assert len(fingerprints(cluster)) == len(positions(cluster)) == 1


# -- taking over


def voter_with_more() -> Joined:
    """p2 missed more than the log keeps, p3 holds all, and p1 is gone: p2 is the next root."""
    cluster = Joined("p1", "p2", "p3", bounds=Bounds(slice_max=5, log_entries_max=3))
    cluster.hold("p1", "p2")
    define(cluster, *queues(50))
    cluster.settle()
    cluster.kill("p1")
    return cluster


def test_a_root_to_be_gets_a_snapshot_in_slices() -> None:
    cluster = voter_with_more()
    sent = cluster.tap("p3")
    assert cluster.await_root() == "p2"
    parts = [each for to, each in sent if to == "p2" and isinstance(each, Snapshot)]
    assert len(parts) > 10 and all(len(each.changes) <= 5 for each in parts)
    assert len(fingerprints(cluster)) == len(positions(cluster)) == 1 and has(cluster, "p2", "queue-049")


def test_a_root_to_be_serves_when_the_snapshot_is_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = voter_with_more()
    monkeypatch.setattr(cluster, "settle", lambda: None)
    for _ in range(3_000):
        if is_installing(cluster, "p2"):
            break
        if not step(cluster):
            Joined.tick(cluster)
    assert cluster["p2"].election.role is ElectionRole.TAKING_OVER
    monkeypatch.undo()
    # The voter has told all that it had to tell.
    cluster.cut("p2", "p3")
    assert has(cluster, "p2", "queue-049") and not cluster["p2"].is_root
    cluster.mend("p2", "p3")
    assert cluster.await_root() in ("p2", "p3") and len(fingerprints(cluster)) == 1


@pytest.fixture
def busy() -> Joined:
    """p3, a backup, puts a snapshot to use; it held all before."""
    cluster = Joined("p1", "p2", "p3", bounds=Bounds(slice_max=5))
    define(cluster, *queues(50))
    cluster.settle()
    cluster["p1"].replica.sender.begin("p3", cluster["p1"].epoch, Position())
    step_until(cluster, lambda: is_installing(cluster, "p3"))
    return cluster


def test_who_asks_for_a_snapshot_of_one_that_is_not_in_use_yet_gets_it_then(busy: Joined) -> None:
    sent = busy.tap("p3")
    busy["p3"].replica.fetch("p2", Fetch(epoch=9, after=Position()))
    step(busy, "p3")
    assert not said(sent, "p2", Snapshot)
    step_until(busy, lambda: not is_installing(busy, "p3"))
    for _ in range(20):
        step(busy, "p3")
    parts = [each for to, each in sent if to == "p2" and isinstance(each, Snapshot)]
    assert parts[-1].is_last and parts[-1].epoch == 9 and sum(len(each.changes) for each in parts) > 50


def test_a_root_to_be_asks_its_voters_when_its_snapshot_is_in_use(
    busy: Joined, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = busy.tap("p3")
    member = busy["p3"]
    member.become(TakingOver(member.lasting, 7, {"p2": Position(6, 99)}))
    assert not said(sent, "p2", Fetch)
    monkeypatch.setattr(member.elector, "tell", lambda event: None)
    member.replica._install_on(to_the_end=True)
    assert said(sent, "p2", Fetch) == ["Fetch"]


def test_an_operator_who_makes_it_root_does_not_wait_for_its_snapshot(busy: Joined) -> None:
    member = busy["p3"]
    member.become(Root(member, 5))
    assert not is_installing(busy, "p3") and member.replica.position.epoch == 5
    assert digest(shared_state(busy.broker("p3"))) == digest(shared_state(busy.broker("p1")))


def test_what_was_confirmed_stays_though_its_holder_is_busy_with_a_snapshot(busy: Joined) -> None:
    """Who would throw its log away for half of a snapshot might be the last that has what was confirmed."""
    held = busy["p1"].replica.position
    assert busy["p3"].replica.position == held and busy["p3"].replica.log.tail(Position(1, 5))
    busy.kill("p1")
    assert busy.await_root() == "p2" and has(busy, "p2", "queue-049")
    assert len(fingerprints(busy)) == len(positions(busy)) == 1
