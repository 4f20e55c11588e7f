"""The calls that empty a broker, and that tell a client where to go."""

from __future__ import annotations

import pytest

from openclust.broker.model.access import User
from openclust.shell.users.passwords import hash_password
from tests.support.manage.fake_member import FakeMember, put_member
from tests.support.manage.fake_membership import FakeMembership, put_membership
from tests.support.manage.running_api import RunningApi

pytestmark = pytest.mark.sockets

DRAIN = "/api/cluster/drain"
TARGET = "/api/target"


@pytest.fixture
def member(api: RunningApi) -> FakeMember:
    return put_member(api, name="one")


@pytest.fixture
def membership(api: RunningApi, member: FakeMember) -> FakeMembership:
    return put_membership(api, member)


# -- drain


def test_a_broker_that_can_be_spared_is_emptied(api: RunningApi, membership: FakeMembership) -> None:
    answer = api.call("POST", DRAIN, {"name": "one"})
    assert answer.status == 200
    assert answer.json == {"name": "one", "draining": True, "clients": 24, "per_s": 100, "stepped_down": True}
    assert membership.is_draining


def test_a_root_gives_up_its_place_too(api: RunningApi, member: FakeMember, membership: FakeMembership) -> None:
    api.call("POST", DRAIN, {"name": "one"})
    assert member.reasons == ["one is drained (asked by user 'guest')"]


def test_it_is_refused_where_too_few_primaries_would_be_left(api: RunningApi, member: FakeMember) -> None:
    membership = put_membership(api, member, there=("p2",))
    answer = api.call("POST", DRAIN, {"name": "one"})
    assert (answer.status, answer.json["error"]) == (409, "quorum")
    assert answer.json["reason"] == "without one there would be 1 of 3 primaries (p2), too few to elect a root"
    assert not membership.is_draining and not member.reasons
    assert api.call("POST", DRAIN, {"name": "one", "force": True}).status == 200
    assert membership.is_draining


def test_only_the_broker_itself_is_asked(api: RunningApi, membership: FakeMembership) -> None:
    answer = api.call("POST", DRAIN, {"name": "p2"})
    assert (answer.status, answer.json["error"]) == (409, "wrong_broker")
    assert answer.json["reason"] == "this is one; ask p2 itself"
    assert not membership.is_draining


def test_it_can_be_undone(api: RunningApi, membership: FakeMembership) -> None:
    api.call("POST", DRAIN, {"name": "one"})
    answer = api.call("POST", DRAIN, {"name": "one", "undo": True})
    assert (answer.status, answer.json) == (200, {"name": "one", "draining": False, "clients": 24})
    assert not membership.is_draining


def test_a_name_is_needed(api: RunningApi, membership: FakeMembership) -> None:
    assert api.call("POST", DRAIN, {}).status == 400
    assert not membership.is_draining


def test_only_administrators_empty_a_broker(api: RunningApi, membership: FakeMembership) -> None:
    watcher = User(name="watcher", password_hash=hash_password("watcher"), tags=("monitoring",))
    api.on_loop(lambda server: server.broker.put_user(watcher))
    assert api.call("POST", DRAIN, {"name": "one"}, login="watcher:watcher").status == 403
    assert not membership.is_draining


# -- where to go


def test_a_client_is_told_the_broker_with_the_fewest_clients(api: RunningApi, membership: FakeMembership) -> None:
    assert api.get(TARGET) == {
        "name": "p3",
        "host": "p3.example",
        "port": 5672,
        "known_hosts": "p3.example:5672,one.example:5672,p2.example:5672",
    }


def test_who_asks_for_the_root_is_told_the_root(api: RunningApi, membership: FakeMembership) -> None:
    assert api.get(f"{TARGET}?connect_to=root")["name"] == "p2"


def test_a_client_that_is_best_off_here_is_told_so(api: RunningApi, member: FakeMember) -> None:
    put_membership(api, member, clients=1)
    told = api.get(TARGET)
    assert (told["name"], told["host"], told["port"]) == ("one", "one.example", 5672)


def test_who_wants_tls_is_told_where_that_is(api: RunningApi, membership: FakeMembership) -> None:
    told = api.get(f"{TARGET}?tls=true")
    assert (told["name"], told["port"], told["known_hosts"]) == ("one", 5671, "one.example:5671")


def test_asking_often_spreads_those_who_ask(api: RunningApi, member: FakeMember) -> None:
    put_membership(api, member, clients=14)
    # Until all together, those who were told to go included, are so many that it has no more than its third.
    assert [api.get(TARGET)["name"] for _ in range(5)] == ["p3", "p3", "p3", "one", "one"]


def test_any_user_may_ask_but_nobody_else(api: RunningApi, membership: FakeMembership) -> None:
    api.on_loop(lambda server: server.broker.put_user(User(name="app", password_hash=hash_password("app"))))
    assert api.call("GET", TARGET, login="app:app").status == 200
    assert api.call("GET", TARGET, login="app:wrong").status == 401
    assert api.call("GET", TARGET, login=None).status == 401
    assert api.call("GET", "/api/overview", login="app:app").status == 403


def test_a_cluster_of_one_names_itself(api: RunningApi) -> None:
    told = api.get(TARGET)
    port = api.on_loop(lambda server: server.listeners[0].address[1])
    assert told == {"name": "one", "host": "127.0.0.1", "port": port, "known_hosts": ""}
