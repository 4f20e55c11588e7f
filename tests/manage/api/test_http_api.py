"""The HTTP API: who is let in, what is shown, and that every answer is JSON."""

from __future__ import annotations

import contextlib
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from openclust.broker.model.access import Permission, User
from openclust.broker.model.changes import Bind, DeclareQueue, PutVhost
from openclust.broker.queues.queue import Queue
from openclust.broker.server.change_performer import perform
from openclust.broker.server.standalone import Standalone
from openclust.manage.api import http_api as http_module
from openclust.manage.calls import http_logins
from openclust.manage.calls.call import WITHOUT_LOGIN
from openclust.shell.host.line_limit import LINES_MAX
from openclust.shell.server import Server
from openclust.shell.users.passwords import hash_password
from tests.support.clients.broker_process import free_port
from tests.support.manage.running_api import RunningApi, running_api

pytestmark = pytest.mark.sockets


def add_user(api: RunningApi, name: str, *tags: str, vhost: str | None = None) -> str:
    """Add a user whose password is its name; the login."""
    permissions = {vhost: Permission(".*", ".*", ".*")} if vhost is not None else {}
    user = User(name=name, password_hash=hash_password(name), tags=tags, permissions=permissions)
    api.on_loop(lambda server: server.broker.put_user(user))
    return f"{name}:{name}"


def add_queues(api: RunningApi, count: int, vhost: str = "/") -> None:
    def add(server: Server) -> None:
        perform(server.broker, PutVhost(vhost=vhost))
        for number in reversed(range(count)):  # rows are ordered by name, not by age
            perform(server.broker, DeclareQueue(vhost=vhost, name=f"q{number:05}"))

    api.on_loop(add)


# -- who is let in


def test_health_needs_no_login(api: RunningApi) -> None:
    assert api.call("GET", "/api/health", login=None).json == {"status": "ok"}


@pytest.mark.parametrize("login", [None, "guest:wrong", "nobody:guest", "guest:"])
def test_all_else_wants_a_right_login(api: RunningApi, login: str | None) -> None:
    answer = api.call("GET", "/api/overview", login=login)
    assert answer.status == 401
    assert answer.json["error"] == "not_authorized"
    assert answer.headers["WWW-Authenticate"].startswith("Basic ")


def test_refused_logins_do_not_fill_the_log(api: RunningApi, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(LINES_MAX + 2):
        api.call("GET", "/api/overview", login="nobody:guest")
    assert caplog.text.count("login refused") == LINES_MAX


@pytest.mark.parametrize("header", ["Basic", "Basic !!!", "Basic Zm9v", "Bearer x", "Basic /////w=="])
def test_a_malformed_login_is_refused(api: RunningApi, header: str) -> None:
    assert api.call("GET", "/api/overview", login=None, Authorization=header).status == 401


def test_a_user_without_a_tag_sees_nothing(api: RunningApi) -> None:
    answer = api.call("GET", "/api/overview", login=add_user(api, "plain"))
    assert (answer.status, answer.json["error"]) == (403, "not_authorized")
    assert "'plain' has not the tag" in answer.json["reason"]


@pytest.mark.parametrize("path", ["/api/definitions", "/api/users", "/api/permissions"])
def test_hashes_are_for_administrators_only(api: RunningApi, path: str) -> None:
    login = add_user(api, "watcher", "monitoring")
    assert api.call("GET", path, login=login).status == 403
    assert api.call("GET", path).status == 200


def test_monitoring_may_change_nothing(api: RunningApi) -> None:
    login = add_user(api, "watcher", "monitoring", "management", vhost="/")
    for method, path in (
        ("POST", "/api/definitions"),
        ("PUT", "/api/users/x"),
        ("DELETE", "/api/users/guest"),
        ("PUT", "/api/permissions/%2F/guest"),
        ("DELETE", "/api/permissions/%2F/guest"),
        ("PUT", "/api/vhosts/x"),
        ("DELETE", "/api/vhosts/%2F"),
        ("PUT", "/api/policies/%2F/x"),
        ("DELETE", "/api/policies/%2F/x"),
        ("PUT", "/api/operator-policies/%2F/x"),
        ("DELETE", "/api/operator-policies/%2F/x"),
    ):
        assert api.call(method, path, {}, login=login).status == 403, (method, path)


def test_every_route_is_guarded(api: RunningApi) -> None:
    for method, path, _, tags, *_ in http_module.ROUTES:
        if tags is WITHOUT_LOGIN:
            continue
        path = re.sub(r"{\w+}", "x", path)
        assert api.call(method, path, {}, login=None).status == 401, (method, path)
        assert api.call(method, f"{path}/", {}, login=None).status == 401, (method, f"{path}/")


@pytest.mark.parametrize("path", ["/api/health/", "/api/queues/", "/api/queues/%2F/", "/api/overview/"])
def test_a_slash_at_the_end_means_the_same(api: RunningApi, path: str) -> None:
    assert api.get(path) == api.get(path.removesuffix("/"))


def test_management_sees_its_own_virtual_hosts_only(api: RunningApi) -> None:
    add_queues(api, 1)
    add_queues(api, 2, "other")
    login = add_user(api, "m", "management", vhost="other")
    assert {row["vhost"] for row in api.get("/api/queues", login)} == {"other"}
    assert [row["name"] for row in api.get("/api/vhosts", login)] == ["other"]
    assert api.get("/api/overview", login)["object_totals"]["queues"] == 2
    answer = api.call("GET", "/api/queues/%2F", login=login)
    assert (answer.status, answer.json["reason"]) == (404, "no vhost '/' that user 'm' may see")


def test_guest_is_let_in_from_the_loopback_only(api: RunningApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_logins, "is_loopback", lambda host: False)
    answer = api.call("GET", "/api/overview")
    assert (answer.status, answer.json["reason"]) == (401, "user 'guest' can only connect from the loopback")


# -- what is shown


def test_the_overview_counts(api: RunningApi) -> None:
    add_queues(api, 3)
    api.on_loop(lambda server: perform(server.broker, Bind(vhost="/", source="amq.topic", destination="q00001")))
    shown = api.get("/api/overview")
    assert shown["cluster_name"] == "test"
    assert shown["node"] == "one"
    assert shown["object_totals"] == {
        "connections": 0,
        "channels": 0,
        "consumers": 0,
        "exchanges": 6,
        "queues": 3,
        "bindings": 1,
    }
    counts = ("messages", "messages_ready", "messages_unacknowledged")
    assert {name: shown["queue_totals"][name] for name in counts} == dict.fromkeys(counts, 0)
    assert shown["memory"]["blocked"] is False
    assert (shown["disk"]["blocked"], shown["disk"]["illness"], shown["disk"]["unwritten_bytes"]) == (False, "", 0)
    assert shown["memory"]["high_bytes"] > 0


def test_a_queue_is_shown_as_rabbitmq_shows_it(api: RunningApi) -> None:
    change = DeclareQueue(vhost="/", name="q", arguments={"x-max-length": 5, "x-b": b"\xff"})
    api.on_loop(lambda server: perform(server.broker, change))
    body = {"pattern": "q", "definition": {"max-length": 3}}
    assert api.call("PUT", "/api/policies/%2f/three", body).status == 201
    wanted = {
        "name": "q",
        "vhost": "/",
        "type": "classic",
        "durable": True,
        "auto_delete": False,
        "exclusive": False,
        "arguments": {"x-max-length": 5, "x-b": "�"},
        "state": "running",
        "node": "one",
        "consumers": 0,
        "replicate": "messages",
        "level": {"transient": "fully transient", "persistent": "fully transient"},
        "messages": 0,
        "messages_ready": 0,
        "messages_unacknowledged": 0,
        "message_bytes_ready": 0,
        "messages_paged_out": 0,
        "policy": "three",
        "operator_policy": None,
        "effective_policy_definition": {"max-length": 3},
    }
    (shown,) = api.get("/api/queues/%2F")
    assert {name: shown[name] for name in wanted} == wanted


def test_an_overview_without_a_root_says_that_messages_are_not_counted(api: RunningApi) -> None:
    class Leaderless(Standalone):
        def is_elsewhere(self, queue: Queue) -> bool:
            return True

        def home(self, queue: Queue) -> str:
            return ""

    def put(server: Server) -> None:
        server.broker.cluster = Leaderless(server.broker)

    add_queues(api, 1)
    api.on_loop(put)
    note = "the messages of 1 shared queues are not counted: there is no root"
    assert api.call("GET", "/api/overview").headers["X-Openclust-Note"] == note


def test_an_answer_with_counts_says_nothing_beside(api: RunningApi) -> None:
    add_queues(api, 1)
    assert "X-Openclust-Note" not in api.call("GET", "/api/queues").headers
    assert "X-Openclust-Note" not in api.call("GET", "/api/overview").headers


def test_names_that_are_not_utf_8_can_be_shown(api: RunningApi) -> None:
    api.on_loop(lambda server: perform(server.broker, DeclareQueue(vhost="/", name="caf\udce9")))
    assert [row["name"] for row in api.get("/api/queues")] == ["caf�"]


def test_exchanges_are_shown_with_the_predeclared_ones(api: RunningApi) -> None:
    names = [row["name"] for row in api.get("/api/exchanges/%2F")]
    assert names == ["", "amq.direct", "amq.fanout", "amq.headers", "amq.match", "amq.topic"]


def test_who_am_i(api: RunningApi) -> None:
    assert api.get("/api/whoami") == {"name": "guest", "tags": ["administrator"]}


# -- pages


def test_a_listing_without_a_page_is_bounded_and_says_so(api: RunningApi) -> None:
    add_queues(api, 10_001)
    answer = api.call("GET", "/api/queues?columns=name")
    assert [len(answer.json), answer.json[0]] == [10_000, {"name": "q00000"}]
    assert answer.headers["X-Openclust-Note"].startswith("the first 10000 of 10001 rows")


def test_pages_follow_each_other_across_virtual_hosts(api: RunningApi) -> None:
    add_queues(api, 3)
    add_queues(api, 4, "other")
    found = []
    for page in (1, 2, 3):
        shown = api.get(f"/api/queues?page={page}&page_size=3")
        assert (shown["page"], shown["page_count"], shown["total_count"]) == (page, 3, 7)
        assert shown["item_count"] == len(shown["items"])
        found += [(row["vhost"], row["name"]) for row in shown["items"]]
    assert found == [("/", f"q{n:05}") for n in range(3)] + [("other", f"q{n:05}") for n in range(4)]


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("page=0", "page is a number of 1 to 1000000"),
        ("page=x", "page is a number of 1 to 1000000"),
        ("page=1&page_size=501", "page_size is a number of 1 to 500"),
        ("page=99999999999999999999", "page is a number of 1 to 1000000"),
    ],
)
def test_a_wrong_page_is_refused(api: RunningApi, query: str, reason: str) -> None:
    answer = api.call("GET", f"/api/queues?{query}")
    assert (answer.status, answer.json) == (400, {"error": "bad_request", "reason": reason})


def test_a_page_past_the_last_one_is_out_of_range(api: RunningApi) -> None:
    answer = api.call("GET", "/api/queues?page=2")
    reason = "page 2 is past the last one, 1"
    assert (answer.status, answer.json) == (400, {"error": "page_out_of_range", "reason": reason})


# -- errors and bounds


def test_what_is_not_there_is_told_in_json(api: RunningApi) -> None:
    answer = api.call("GET", "/api/nothing", login=None)
    assert (answer.status, answer.json) == (404, {"error": "not_found", "reason": "there is no /api/nothing"})
    answer = api.call("POST", "/api/overview")
    assert (answer.status, answer.json["error"], answer.headers["Allow"]) == (
        405,
        "method_not_allowed",
        "HEAD, GET, OPTIONS",
    )


def test_a_mistake_of_ours_is_one_line_and_the_api_goes_on(api: RunningApi, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("x")

    monkeypatch.setattr("openclust.manage.resources.overview.overview_row", broken)
    answer = api.call("GET", "/api/overview")
    assert (answer.status, answer.json["error"]) == (500, "internal_error")
    assert "KeyError: 'x'" in answer.json["reason"]
    assert "Traceback" not in answer.json["reason"]
    assert api.call("GET", "/api/whoami").status == 200


def test_a_connection_that_says_nothing_is_closed(api: RunningApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_module, "FIRST_REQUEST_WAIT_S", 0.05)
    with (
        socket.create_connection(("127.0.0.1", api.port), timeout=10) as silent,
        contextlib.suppress(ConnectionResetError),
    ):
        assert silent.recv(1) == b""
    assert api.call("GET", "/api/health").status == 200


def test_connections_past_the_bound_are_closed_at_once(api: RunningApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_module, "CONNECTIONS_MAX", 1)
    with socket.create_connection(("127.0.0.1", api.port), timeout=10) as first:
        first.sendall(b"GET /api/health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert first.recv(100).startswith(b"HTTP/1.1 200")
        with socket.create_connection(("127.0.0.1", api.port), timeout=10) as second:
            assert second.recv(1) == b""


def test_a_request_that_never_ends_does_not_hold_up_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_module, "STOP_WAIT_S", 0.1)
    head = b"POST /api/definitions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n"
    with running_api() as api, socket.create_connection(("127.0.0.1", api.port), timeout=10) as slow:
        slow.sendall(head + b"Authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n\r\n")
        assert api.call("GET", "/api/health").status == 200
    # `running_api` fails where the API does not stop.


# -- as a process


def start(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "openclust", "start", "--cluster-key", "t", "--port", str(free_port())]
    return subprocess.run([*command, *arguments], cwd=cwd, capture_output=True, text=True, timeout=30, check=False)


def test_a_port_in_use_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = start("--http-port", str(port), cwd=tmp_path)
    assert done.returncode == 2
    line = done.stderr.splitlines()[-1]
    assert f"cannot listen on 127.0.0.1:{port}: another process has this port" in line
    assert "--http-port" in line


def test_without_the_api_its_library_is_not_loaded() -> None:
    code = "import sys, openclust.cli.broker.start, openclust.shell.server; print('aiohttp' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
