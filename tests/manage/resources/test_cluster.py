"""The calls about the cluster."""

from __future__ import annotations

import pytest

from openclust.broker.model.access import User
from openclust.manage.resources.cluster import REASON_CHARACTERS_MAX
from openclust.shell.server import Server
from openclust.shell.users.passwords import hash_password
from tests.support.clients.deadline import eventually
from tests.support.manage.fake_member import put_member, seen_by_root
from tests.support.manage.running_api import Answer, RunningApi

pytestmark = pytest.mark.sockets

STEP_DOWN = "/api/cluster/step-down"


def test_a_broker_shows_its_members_snapshot(api: RunningApi) -> None:
    put_member(api)
    assert api.get("/api/cluster") == seen_by_root()


def test_a_cluster_of_one_is_its_own_root(api: RunningApi) -> None:
    eventually(lambda: api.get("/api/cluster")["root"])
    seen = api.get("/api/cluster")
    assert (seen["name"], seen["role"], seen["root"]) == ("one", "root", "one")
    assert seen["votes"] == {"given": 1, "following": 1, "electorate": 1, "defined": 1}


def test_the_root_steps_down_for_a_reason(api: RunningApi) -> None:
    member = put_member(api)
    answer = api.call("POST", STEP_DOWN, {"reason": "new kernel"})
    assert (answer.status, answer.json) == (200, {"stepped_down": "p1", "epoch": 3})
    assert member.reasons == ["new kernel (asked by user 'guest')"]


def test_without_a_reason_the_user_is_it(api: RunningApi) -> None:
    member = put_member(api)
    assert api.call("POST", STEP_DOWN).status == 200
    assert member.reasons == ["asked by user 'guest'"]


def test_who_is_not_root_names_the_root_and_where_it_is(api: RunningApi) -> None:
    member = put_member(api, name="p2", role="backup")
    answer = api.call("POST", STEP_DOWN, {"reason": "x"})
    assert (answer.status, answer.json["error"]) == (409, "not_root")
    assert answer.json["reason"] == "p2 is not the root, p1 is (http://127.0.0.1:15672)"
    assert member.reasons == []


def test_without_a_root_nobody_steps_down(api: RunningApi) -> None:
    put_member(api, name="p2", role="elector", root=None)
    answer = api.call("POST", STEP_DOWN)
    assert (answer.status, answer.json["reason"]) == (409, "p2 is not the root, there is none")


def test_a_reason_has_an_end(api: RunningApi) -> None:
    member = put_member(api)
    assert api.call("POST", STEP_DOWN, {"reason": "x" * (REASON_CHARACTERS_MAX + 1)}).status == 400
    assert api.call("POST", STEP_DOWN, {"reason": 1}).status == 400
    assert member.reasons == []


def test_only_administrators_end_a_reign(api: RunningApi) -> None:
    member = put_member(api)
    watcher = User(name="watcher", password_hash=hash_password("watcher"), tags=("monitoring",))
    api.on_loop(lambda server: server.broker.put_user(watcher))
    assert api.call("POST", STEP_DOWN, login="watcher:watcher").status == 403
    assert api.call("GET", "/api/cluster", login="watcher:watcher").status == 200
    assert member.reasons == []


def test_who_sends_clients_here_is_told_that_they_are_served(api: RunningApi) -> None:
    answer = eventually(lambda: (one := api.call("GET", "/api/ready", login=None)).status == 200 and one)
    assert isinstance(answer, Answer)
    assert answer.json == {"is_ready": True, "not_ready": [], "name": "one", "peers": ""}


def test_who_sends_clients_here_is_told_what_is_missing(api: RunningApi) -> None:
    eventually(lambda: api.call("GET", "/api/ready", login=None).status == 200)
    assert api.call("POST", "/api/cluster/drain", {"name": "one", "force": True}).status == 200
    answer = api.call("GET", "/api/ready/", login=None)
    assert (answer.status, answer.json["is_ready"]) == (503, False)
    assert answer.json["not_ready"] == [{"check": "draining", "reason": "this broker is drained of its clients"}]
    assert api.get("/api/cluster")["not_ready"] == answer.json["not_ready"], "status shows the same"
    assert api.call("GET", "/api/health", login=None).status == 200, "it is alive"


def test_publishers_that_wait_are_shown_by_every_interface(api: RunningApi) -> None:
    def fill(server: Server) -> None:
        accounts = server.broker.memory_accounts
        accounts.held_bytes += accounts.high_bytes
        server.turn()

    api.on_loop(fill)
    for path in ("/api/overview", "/api/cluster"):
        assert api.get(path)["publishers"] == {"is_blocked": True, "reason": "low on memory", "waiting": 0}
    assert api.get("/api/cluster")["brokers"][0]["is_blocked"]
    unready = eventually(lambda: (one := api.call("GET", "/api/ready")).status == 503 and one)
    assert isinstance(unready, Answer)
    assert unready.json["not_ready"] == [{"check": "publishers", "reason": "publishers wait: low on memory"}]
