"""The state that all brokers share: taken from one, given to another, and equal afterwards."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclust.broker.model.access import Permission, TopicPermission, User
from openclust.broker.model.change_codec import decode_change, encode_change
from openclust.broker.model.changes import (
    Bind,
    Change,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteGlobalParameter,
    DeleteParameter,
    DeletePermission,
    DeletePolicy,
    DeleteQueue,
    DeleteTopicPermissions,
    DeleteUser,
    DeleteVhost,
    KeepOnly,
    PutGlobalParameter,
    PutParameter,
    PutPermission,
    PutPolicy,
    PutTopicPermission,
    PutUser,
    PutUserLimit,
    PutVhost,
    PutVhostLimit,
    Unbind,
)
from openclust.broker.model.policy import Policy
from openclust.broker.server.broker import Broker
from openclust.broker.server.change_performer import perform
from openclust.cluster.definitions.reconciliation import NOTES_MAX
from openclust.wire.errors import AmqpError
from openclust.wire.methods import BasicConsume
from openclust.wire.table import Table, Timestamp, Value
from tests.support.client import Client, new_broker
from tests.support.driver import turn
from tests.support.invariants import check
from tests.support.shared_state import digest, reconcile, shared_state
from tests.support.wire import PROPERTY_TEST

# A world so small that random changes meet each other.


def _made(kind: Callable[..., Any], **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(fields).map(lambda given: kind(**given))


_vhosts = st.sampled_from(("/", "v"))
_exchanges = st.sampled_from(("e", "f", "amq.topic", ""))
_new_exchanges = st.sampled_from(("e", "f", "g"))
_queues = st.sampled_from(("q", "r", "s"))
_users = st.sampled_from(("guest", "u", "\udcff"))
_policies = st.sampled_from(("p", "o"))
_flags = st.booleans()
_arguments = st.sampled_from(({}, {}, {"x-unknown": 1}, {"x-unknown": True}, {"a": 1, "b": 2}, {"b": 2, "a": 1}))
_queue_arguments = st.one_of(_arguments, st.just({"x-max-length": 3}), st.just({"x-queue-type": "quorum"}))
_permissions = _made(Permission, read=st.sampled_from((".*", "^a")))
_topic_permissions = _made(TopicPermission, read=st.sampled_from((".*", "^a")))
_limit_names = st.sampled_from(("max-connections", "max-queues", "max-channels"))
_limits = st.sampled_from((None, -1, 0, 3))
_parameters = st.sampled_from(("cluster_name", "p"))
_ends: dict[str, st.SearchStrategy[Any]] = {
    "vhost": _vhosts,
    "source": _exchanges,
    "destination": st.one_of(_new_exchanges, _queues),
    "to_exchange": _flags,
    "routing_key": st.sampled_from(("", "k", "#")),
    "arguments": _arguments,
}
_definitions: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    ({"max-length": 2}, {"max-length": 5}, {"alternate-exchange": "e"})
)


@st.composite
def _put_policies(draw: st.DrawFn) -> PutPolicy:
    vhost = draw(_vhosts)
    policy = Policy(
        vhost=vhost,
        name=draw(_policies),
        pattern=draw(st.sampled_from((".*", "^q"))),
        definition=draw(_definitions),
        priority=draw(st.integers(0, 2)),
    )
    return PutPolicy(vhost=vhost, policy=policy, operator=draw(_flags))


changes: st.SearchStrategy[Change] = st.one_of(
    _made(PutVhost, vhost=_vhosts, metadata=st.sampled_from(({}, {"description": "d"}, {"tags": ["a"]}))),
    _made(DeclareExchange, vhost=_vhosts, name=_new_exchanges, auto_delete=_flags,
          type=st.sampled_from(("direct", "topic", "headers")), arguments=_arguments),
    _made(DeclareQueue, vhost=_vhosts, name=_queues, durable=_flags, auto_delete=_flags, arguments=_queue_arguments),
    _made(Bind, **_ends),
    _made(Bind, **_ends),
    _made(Unbind, **_ends),
    _put_policies(),
    _made(PutUser, user=_made(User, name=_users, password_hash=st.sampled_from(("", "h")))),
    _made(PutPermission, vhost=_vhosts, user=_users, permission=_permissions),
    st.one_of(
        _made(PutTopicPermission, vhost=_vhosts, user=_users, exchange=_exchanges, permission=_topic_permissions),
        _made(PutUserLimit, user=_users, name=_limit_names, value=_limits),
        _made(PutVhostLimit, vhost=_vhosts, name=_limit_names, value=_limits),
        _made(PutParameter, vhost=_vhosts, component=st.just("vhost-limits"), name=st.just("limits"),
              value=st.sampled_from(('{"max-queues":1}', '{"max-queues":2}'))),
        _made(PutGlobalParameter, name=_parameters, value=st.sampled_from(('"a"', '{"a":1}'))),
    ),
    st.one_of(
        _made(DeleteVhost, vhost=_vhosts),
        _made(DeleteExchange, vhost=_vhosts, name=_new_exchanges),
        _made(DeleteQueue, vhost=_vhosts, name=_queues),
        _made(DeletePolicy, vhost=_vhosts, name=_policies, operator=_flags),
        _made(DeleteUser, name=_users),
        _made(DeletePermission, vhost=_vhosts, user=_users),
        _made(DeleteTopicPermissions, vhost=_vhosts, user=_users),
        _made(DeleteParameter, vhost=_vhosts, component=st.just("vhost-limits"), name=st.just("limits")),
        _made(DeleteGlobalParameter, name=_parameters),
        _made(KeepOnly, users=st.lists(_users).map(tuple), vhosts=st.lists(_vhosts).map(tuple)),
    ),
)  # fmt: skip
histories = st.lists(changes, max_size=40)


def broker_after(history: list[Change]) -> Broker:
    broker = new_broker()
    for change in history:
        with suppress(AmqpError):
            perform(broker, change)
    return broker


def errors(broker: Broker) -> list[Any]:
    return [effect for effect in broker.effects if getattr(effect, "level", "") == "error"]


def as_set(changes: list[Change]) -> set[bytes]:
    return {encode_change(change) for change in changes}


@PROPERTY_TEST
@given(histories, histories)
def test_another_broker_comes_to_the_same_state(here: list[Change], there: list[Change]) -> None:
    one, other = broker_after(here), broker_after(there)
    wanted = shared_state(one)
    count = reconcile(other, wanted)
    again = shared_state(other)
    assert not errors(other)
    assert digest(again) == digest(wanted)
    assert len(again) == len(wanted)
    assert (count == 0) == (digest(shared_state(broker_after(there))) == digest(wanted))
    assert reconcile(other, wanted) == 0
    turn(other)
    check(other)


@PROPERTY_TEST
@given(histories)
def test_the_state_builds_itself_on_a_new_broker_through_bytes(history: list[Change]) -> None:
    wanted = shared_state(broker_after(history))
    other = new_broker()
    reconcile(other, [decode_change(encode_change(change)) for change in wanted])
    assert digest(shared_state(other)) == digest(wanted)
    assert as_set(shared_state(other)) == as_set(wanted)


@PROPERTY_TEST
@given(histories, st.randoms(use_true_random=False))
def test_each_change_comes_after_those_it_needs(history: list[Change], random: Any) -> None:
    broker = broker_after(history)
    wanted = shared_state(broker)
    other = new_broker()
    for name in list(other.users):
        other.delete_user(name)
    if "/" not in broker.vhosts:
        other.delete_vhost("/")
    for change in wanted:
        perform(other, change)
    assert digest(shared_state(other)) == digest(wanted)
    shuffled = list(wanted)
    random.shuffle(shuffled)
    assert digest(shuffled) == digest(wanted)


def declare(broker: Broker, name: str, arguments: Table | None = None, **fields: Any) -> None:
    perform(broker, DeclareQueue(vhost="/", name=name, arguments=arguments or {}, **fields))


def declare_exchange(broker: Broker, name: str, type: str = "direct", **fields: Any) -> None:
    perform(broker, DeclareExchange(vhost="/", name=name, type=type, **fields))


def bind(broker: Broker, source: str, destination: str, **fields: Any) -> None:
    perform(broker, Bind(vhost="/", source=source, destination=destination, **fields))


def private_queue(broker: Broker, name: str) -> Client:
    """A client with an exclusive queue of that name."""
    client = Client(broker)
    connection = client.connection
    broker.vhost("/").declare_queue(DeclareQueue(vhost="/", name=name), connection)
    return client


def test_a_queue_that_is_wanted_as_it_is_keeps_its_messages_and_consumers() -> None:
    one, other = new_broker(), new_broker()
    for broker in (one, other):
        declare(broker, "q", {"x-max-length": 9, "x-unknown": "a"})
    declare_exchange(one, "e")
    bind(one, "e", "q")
    client = Client(other)
    client.publish("q", b"kept")
    queue = other.vhosts["/"].queues["q"]
    assert len(queue) == 1
    assert reconcile(other, shared_state(one)) == 2
    assert other.vhosts["/"].queues["q"] is queue
    assert len(queue) == 1


@pytest.mark.parametrize("value", [True, 1.0, Timestamp(1), "1"])
def test_a_queue_whose_arguments_differ_only_in_type_is_made_anew(value: Value) -> None:
    one, other = new_broker(), new_broker()
    declare(one, "q", {"x-unknown": 1})
    declare(other, "q", {"x-unknown": value})
    assert reconcile(other, shared_state(one)) == 2, "deleted, declared"
    assert digest(shared_state(other)) == digest(shared_state(one))


def test_a_consumer_of_a_queue_that_is_not_wanted_is_cancelled() -> None:
    other = new_broker()
    declare(other, "q", auto_delete=True)
    client = Client(other)
    client.send(BasicConsume(queue="q", consumer_tag="c", no_ack=True))
    turn(other)
    assert reconcile(other, shared_state(new_broker())) == 1
    turn(other)
    assert "q" not in other.vhosts["/"].queues
    check(other)


def test_private_queues_are_no_part_of_the_state() -> None:
    broker = new_broker()
    before = shared_state(broker)
    private_queue(broker, "mine")
    bind(broker, "amq.topic", "mine", routing_key="k")
    assert shared_state(broker) == before


def test_private_queues_and_their_bindings_stay() -> None:
    one, other = new_broker(), new_broker()
    declare_exchange(one, "e", "topic")
    declare_exchange(other, "e", "direct")
    private_queue(other, "mine")
    bind(other, "e", "mine", routing_key="k")
    bind(other, "amq.fanout", "mine")
    assert reconcile(other, shared_state(one)) > 0
    queue = other.vhosts["/"].queues["mine"]
    exchanges = other.vhosts["/"].exchanges
    assert exchanges["e"].type == "topic"
    assert list(exchanges["e"].table.match("k", {})) == [queue]
    assert list(exchanges["amq.fanout"].table.match("", {})) == [queue]
    assert reconcile(other, shared_state(one)) == 0
    turn(other)
    check(other)


def test_a_private_queue_in_the_way_stays_and_hides_the_shared_one() -> None:
    one, other = new_broker(), new_broker()
    declare(one, "q")
    bind(one, "amq.direct", "q", routing_key="k")
    private_queue(other, "q")
    queue = other.vhosts["/"].queues["q"]
    other.effects.clear()
    reconcile(other, shared_state(one))
    assert not errors(other)
    assert other.vhosts["/"].queues["q"] is queue
    assert not queue.incoming


def test_an_exchange_that_goes_with_its_last_binding_stays_where_it_is_wanted() -> None:
    one, other = new_broker(), new_broker()
    for broker in (one, other):
        declare_exchange(broker, "e", auto_delete=True)
    declare(one, "q")
    bind(one, "e", "q")
    declare(other, "r")
    bind(other, "e", "r")
    exchange = other.vhosts["/"].exchanges["e"]
    assert reconcile(other, shared_state(one)) == 3, "one queue goes, one comes, one binding comes"
    assert other.vhosts["/"].exchanges["e"] is exchange


def test_policies_change_all_at_once() -> None:
    """No queue is for a moment without the limit that holds before and after."""
    one, other = new_broker(), new_broker()
    for broker, name in ((one, "new"), (other, "old")):
        declare(broker, "q")
        policy = Policy(vhost="/", name=name, pattern=".*", definition={"max-length": 2, "overflow": "drop-head"})
        perform(broker, PutPolicy(vhost="/", policy=policy))
    queue_type = type(other.vhosts["/"].queues["q"])
    seen: list[int | None] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queue_type, "follow", lambda _, settings: seen.append(settings.max_length))
        assert reconcile(other, shared_state(one)) == 2
    assert seen == [2]


def test_a_vhost_that_is_not_wanted_goes_with_its_private_queues() -> None:
    one, other = new_broker(), new_broker()
    for broker in (one, other):
        perform(broker, PutVhost(vhost="v"))
    perform(one, DeleteVhost(vhost="/"))
    wanted = shared_state(one)
    private_queue(other, "mine")
    turn(other)
    assert reconcile(other, wanted) == 1
    turn(other)
    assert list(other.vhosts) == ["v"]
    check(other)


def test_the_state_and_the_broker_share_no_user() -> None:
    one, other = new_broker(), new_broker()
    perform(one, PutUser(user=User(name="u")))
    wanted = shared_state(one)
    reconcile(other, wanted)
    before = digest(wanted)
    for broker in (one, other):
        perform(broker, PutPermission(vhost="/", user="u", permission=Permission(read=".*")))
    assert digest(wanted) == before
    assert digest(shared_state(other)) == digest(shared_state(one)) != before


def test_the_order_of_arguments_is_no_part_of_the_digest() -> None:
    one, other = new_broker(), new_broker()
    declare(one, "q", {"a": 1, "b": {"c": 2, "d": 3}})
    declare(other, "q", {"b": {"d": 3, "c": 2}, "a": 1})
    assert digest(shared_state(other)) == digest(shared_state(one))
    assert reconcile(other, shared_state(one)) == 0


def test_a_password_is_part_of_the_digest() -> None:
    one, other = new_broker(), new_broker()
    perform(one, PutUser(user=User(name="u", password_hash="a")))
    perform(other, PutUser(user=User(name="u", password_hash="b")))
    assert digest(shared_state(one)) != digest(shared_state(other))


UNFIT: list[Change] = [
    DeclareQueue(vhost="/", name="q", arguments={"x-max-length": -1}),
    DeclareQueue(vhost="nowhere", name="q"),
    DeclareExchange(vhost="/", name="e", type="no type"),
    DeclareExchange(vhost="/", name="e", type="direct", arguments={"alternate-exchange": 1}),
    Bind(vhost="/", source="nothing", destination="nothing"),
    Bind(vhost="nowhere", source="amq.direct", destination="q"),
    Bind(vhost="/", source="amq.direct", destination="q", arguments={"a": 2**70}),
    Bind(vhost="/", source="amq.headers", destination="amq.topic", to_exchange=True, arguments={"x-match": 1}),
    PutPolicy(vhost="/", policy=Policy(vhost="/", name="p", pattern="(", definition={"max-length": 1})),
    PutPolicy(vhost="v", policy=Policy(vhost="nowhere", name="p", pattern=".", definition={"max-length": 1})),
    Unbind(vhost="/", source="amq.direct", destination="q", arguments={"a": 2**70}),
]


@pytest.mark.parametrize("change", UNFIT)
def test_what_cannot_be_made_is_noted_and_hinders_nothing_else(change: Change) -> None:
    other = new_broker()
    wanted = [*shared_state(other), change, DeclareQueue(vhost="/", name="after")]
    assert reconcile(other, wanted) == 1
    assert "after" in other.vhosts["/"].queues
    [note] = errors(other)
    assert note.fields["kind"] == type(change).__name__
    assert note.fields["text"]


def test_many_failures_are_counted_rather_than_noted_each() -> None:
    other = new_broker()
    wanted = [*shared_state(other), *(Bind(vhost="/", source="no", destination=str(n)) for n in range(1_000))]
    assert reconcile(other, wanted) == 0
    assert len(errors(other)) == NOTES_MAX + 1
    assert errors(other)[-1].fields["count"] == 1_000 - NOTES_MAX
