"""Changes over HTTP, and that users who change are saved in the users file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from openclust.broker.model.access import Permission
from openclust.broker.server.standalone import Standalone
from openclust.manage.api.routes import ROUTES
from openclust.manage.calls import call
from openclust.manage.definitions import exports
from openclust.shell.users.passwords import matches
from openclust.shell.users.users_file import guest, load_users, save_users
from tests.support.manage.running_api import Answer, RunningApi, running_api
from tests.support.paths import RABBITMQ_DEFINITIONS

pytestmark = pytest.mark.sockets

RABBIT_HASH = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"
QUEUE: dict[str, Any] = {"name": "q", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}


@pytest.fixture
def users_file(tmp_path: Path) -> str:
    path = str(tmp_path / "users.json")
    save_users(path, guest())
    return path


@pytest.fixture
def saving(users_file: str) -> Iterator[RunningApi]:
    """An API of a broker that has a users file."""
    with running_api(users_file) as running:
        yield running


def refused(answer: Answer) -> str:
    assert (answer.status, answer.json["error"]) == (400, "bad_request")
    return str(answer.json["reason"])


# -- users


def test_a_new_user_can_log_in(api: RunningApi) -> None:
    assert api.call("PUT", "/api/users/anna", {"password": "secret", "tags": "monitoring, x"}).status == 201
    assert api.get("/api/whoami", "anna:secret") == {"name": "anna", "tags": ["monitoring", "x"]}


def test_a_user_can_come_with_rabbitmqs_hash(api: RunningApi) -> None:
    body = {"password_hash": RABBIT_HASH, "hashing_algorithm": "rabbit_password_hashing_sha256", "tags": []}
    api.call("PUT", "/api/users/anna", body)
    shown = {user["name"]: user for user in api.get("/api/users")}["anna"]
    assert shown["password_hash"] == RABBIT_HASH
    assert api.on_loop(lambda server: server.broker.users["anna"].password_hash) == f"rabbit_sha256${RABBIT_HASH}"


def test_a_changed_user_keeps_what_is_not_given(api: RunningApi) -> None:
    api.call("PUT", "/api/users/anna", {"password": "secret", "tags": "", "type": "console"})
    api.call("PUT", "/api/permissions/%2F/anna", {"configure": "a", "write": "b", "read": "c"})
    assert api.call("PUT", "/api/users/anna", {"tags": "management"}).status == 204
    user = api.on_loop(lambda server: server.broker.users["anna"])
    assert (user.type, user.permissions) == ("console", {"/": Permission("a", "b", "c")})
    assert matches(user.password_hash, b"secret")


@pytest.mark.parametrize(
    ("path", "body", "reason"),
    [
        ("/api/users/anna", {}, "missing required field `tags`"),
        ("/api/users/anna", {"tags": 1}, "Expected `str | array`, got `int`"),
        ("/api/users/anna", b"{", "the body is not right: Input data was truncated"),
        ("/api/users/anna", {"tags": "", "password": "a", "password_hash": "b"}, "not both"),
        ("/api/users/anna", {"tags": "", "password": "x" * 1025}, "a password has at most 1024 bytes"),
        ("/api/users/anna", {"tags": "", "password_hash": "b"}, "not_base64"),
        ("/api/users/a%0Ab", {"tags": ""}, "a user's name has no control characters"),
        ("/api/permissions/%2F/guest", {"configure": "(", "write": "", "read": ""}, "invalid_regexp"),
        ("/api/permissions/%2F/guest", {}, "missing required field `configure`"),
        ("/api/policies/%2F/p", {"pattern": "("}, "missing required field `definition`"),
        ("/api/policies/%2F/p", {"pattern": "(", "definition": {"expires": 1}}, "is not a regular expression"),
        ("/api/policies/%2F/p", {"pattern": "", "definition": {"expire": 1}}, "did you mean expires?"),
        ("/api/operator-policies/%2F/p", {"pattern": "", "definition": {"dead-letter-exchange": "x"}}, "cannot be set"),
        ("/api/vhosts/" + "x" * 256, {}, "the name of a virtual host has more than 255 bytes"),
    ],
)
def test_a_wrong_body_changes_nothing(api: RunningApi, path: str, body: Any, reason: str) -> None:
    before = api.get("/api/definitions")
    assert reason in refused(api.call("PUT", path, body))
    assert api.get("/api/definitions") == before


def test_a_deleted_user_cannot_log_in(api: RunningApi) -> None:
    api.call("PUT", "/api/users/anna", {"password": "secret", "tags": "management"})
    assert api.call("DELETE", "/api/users/anna").status == 204
    assert api.call("GET", "/api/whoami", login="anna:secret").status == 401
    assert api.call("DELETE", "/api/users/anna").status == 404


@pytest.mark.parametrize("path", ["/api/permissions/%2F/nobody", "/api/permissions/none/guest"])
def test_nobody_is_permitted_who_or_what_is_not_there(api: RunningApi, path: str) -> None:
    """400, as in RabbitMQ."""
    body = {"configure": "", "write": "", "read": "", "exchange": ""}
    assert refused(api.call("PUT", path, body)).startswith("vhost_or_user_not_found: there is no ")
    assert refused(api.call("PUT", path.replace("permissions", "topic-permissions"), body)).startswith("vhost_or_user")


def test_rights_that_were_given_can_be_taken(api: RunningApi) -> None:
    api.call("PUT", "/api/users/anna", {"password": "a", "tags": "management"})
    api.call("PUT", "/api/permissions/%2F/anna", {"configure": "a", "write": "b", "read": "c"})
    assert api.call("DELETE", "/api/permissions/%2F/anna").status == 204
    assert [row["user"] for row in api.get("/api/permissions")] == ["guest"]
    assert api.get("/api/vhosts", "anna:a") == []


@pytest.mark.parametrize("path", ["%2F/anna", "%2F/nobody", "none/guest"])
def test_rights_that_nobody_has_cannot_be_taken(api: RunningApi, path: str) -> None:
    """RabbitMQ says so too."""
    api.call("PUT", "/api/users/anna", {"tags": ""})
    answer = api.call("DELETE", f"/api/permissions/{path}")
    assert (answer.status, answer.json["error"]) == (404, "not_found")


def test_whatever_can_be_put_can_be_deleted() -> None:
    paths = {method: {path for each, path, *_ in ROUTES if each == method} for method in ("PUT", "DELETE")}
    assert paths["PUT"] - paths["DELETE"] == {"/api/cluster-name"}


# -- virtual hosts and policies


def test_who_makes_a_virtual_host_may_use_it(api: RunningApi) -> None:
    assert api.call("PUT", "/api/vhosts/new").status == 201
    assert api.call("PUT", "/api/vhosts/new").status == 204
    permissions = [row for row in api.get("/api/permissions") if row["vhost"] == "new"]
    assert permissions == [{"user": "guest", "vhost": "new", "configure": ".*", "write": ".*", "read": ".*"}]


def test_a_deleted_virtual_host_is_gone(api: RunningApi) -> None:
    api.call("PUT", "/api/vhosts/new")
    assert api.call("DELETE", "/api/vhosts/new").status == 204
    assert [row["name"] for row in api.get("/api/vhosts")] == ["/"]
    assert api.call("DELETE", "/api/vhosts/new").status == 404


@pytest.mark.parametrize("kind", ["policies", "operator-policies"])
def test_policies_come_and_go(api: RunningApi, kind: str) -> None:
    path = f"/api/{kind}/%2F/limits"
    body = {"pattern": "^o", "definition": {"max-length": 5}, "apply-to": "queues", "priority": 7}
    assert [api.call("PUT", path, body).status for _ in range(2)] == [201, 204]
    assert api.get(f"/api/{kind}") == [{"vhost": "/", "name": "limits", **body}]
    assert [api.call("DELETE", path).status for _ in range(2)] == [204, 404]
    assert api.get(f"/api/{kind}/%2f") == []


def test_a_policymaker_sets_policies_where_it_is_let_in(api: RunningApi) -> None:
    body = {"pattern": "", "definition": {"expires": 9}}
    api.call("PUT", "/api/users/p", {"password": "p", "tags": "policymaker"})
    assert api.call("PUT", "/api/policies/%2F/x", body, login="p:p").status == 404
    api.call("PUT", "/api/permissions/%2F/p", {"configure": "", "write": "", "read": ""})
    assert api.call("PUT", "/api/policies/%2F/x", body, login="p:p").status == 201
    assert api.call("PUT", "/api/operator-policies/%2F/x", body, login="p:p").status == 403


# -- definitions


def test_definitions_go_round(api: RunningApi) -> None:
    text = (RABBITMQ_DEFINITIONS).read_bytes()
    answer = api.call("POST", "/api/definitions?report=true", text)
    assert answer.status == 200
    assert answer.json["changed"] > 10
    assert answer.json["ignored"] == []
    definitions = api.get("/api/definitions", "guest:guest")
    with running_api() as other:
        assert other.call("POST", "/api/definitions?report=true", definitions).status == 200
        assert other.get("/api/definitions") == definitions


def test_an_import_by_parts_is_whole(api: RunningApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exports, "ENTRIES_A_TURN", 3)
    queues = [{**QUEUE, "name": f"q{number}"} for number in range(10)]
    assert api.call("POST", "/api/definitions?report=true", {"queues": queues}).json["changed"] == 10
    assert len(api.get("/api/queues")) == 10


def test_problems_are_listed_and_nothing_is_changed(api: RunningApi) -> None:
    answer = api.call("POST", "/api/definitions?report=true", {"queues": [QUEUE, {"name": "x"}, {"name": "y"}]})
    assert refused(answer).endswith("(and 1 more, see problems)")
    assert len(answer.json["problems"]) == 2
    assert answer.json["changed"] == 0
    assert api.get("/api/queues") == []


def test_an_import_can_leave_out_what_has_a_problem(api: RunningApi) -> None:
    document = {"queues": [{"name": "x"}, QUEUE]}
    answer = api.call("POST", "/api/definitions?skip_problems=true", document)
    assert answer.status == 200
    assert answer.json == {
        "changed": 1,
        "unchanged": 0,
        "ignored": [],
        "problems": ["queues[0] 'x': object missing required field `vhost`"],
    }
    assert [row["name"] for row in api.get("/api/queues")] == ["q"]
    assert refused(api.call("POST", "/api/definitions?skip_problems=1", document)) == "skip_problems is true or false"
    assert api.call("POST", "/api/definitions?skip_problems=false", document).status == 400


def test_json_that_is_none_is_told_with_its_place(api: RunningApi) -> None:
    assert refused(api.call("POST", "/api/definitions", b'{"queues":\n]')) == "line 2, column 1: Expecting value"
    assert refused(api.call("POST", "/api/definitions", b"[]")).startswith("wanted a JSON object")
    assert refused(api.call("POST", "/api/definitions", b"[" * 100_000)) == "not JSON in UTF-8"


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "text/plain", "multipart/form-data; boundary=x"])
def test_a_form_of_a_foreign_page_is_refused(api: RunningApi, kind: str) -> None:
    answer = api.call("POST", "/api/definitions?report=true", {"queues": [QUEUE]}, **{"Content-Type": kind})
    assert answer.status == 415
    assert api.get("/api/queues") == []


def test_bodies_are_bounded(api: RunningApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exports, "FILE_BYTES_MAX", 2_000_000)
    assert api.call("PUT", "/api/users/x", b" " * (call.BODY_BYTES_MAX + 1)).status == 413
    assert api.call("POST", "/api/definitions?report=true", b" " * 2_000_001).status == 413
    assert api.call("POST", "/api/definitions?report=true", b" " * 1_999_998 + b"{}").status == 200


def test_a_change_that_the_cluster_does_not_order_is_given_up(api: RunningApi, monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent(Standalone):
        def define(self, change: object, done: object) -> None: ...

    def silence(server: Any) -> None:
        server.broker.cluster = Silent(server.broker)

    monkeypatch.setattr(call, "ANSWER_WAIT_S", 0.05)
    api.on_loop(silence)
    assert api.call("PUT", "/api/vhosts/new").status == 503
    assert api.call("POST", "/api/definitions?report=true", {"queues": [QUEUE]}).status == 503


# -- the users file


def test_users_that_change_are_saved(saving: RunningApi, users_file: str) -> None:
    saving.call("PUT", "/api/users/anna", {"password": "secret", "tags": "monitoring"})
    saving.call("PUT", "/api/permissions/%2F/anna", {"configure": "a", "write": "b", "read": "c"})
    saved = load_users(users_file)["anna"]
    assert (saved.tags, saved.permissions) == (("monitoring",), {"/": Permission("a", "b", "c")})
    assert matches(saved.password_hash, b"secret")
    saving.call("DELETE", "/api/permissions/%2F/anna")
    assert load_users(users_file)["anna"].permissions == {}
    saving.call("DELETE", "/api/users/anna")
    assert sorted(load_users(users_file)) == ["guest"]


def test_imported_users_are_saved_and_others_stay(saving: RunningApi, users_file: str) -> None:
    document = {
        "users": [{"name": "anna", "password_hash": RABBIT_HASH, "tags": []}],
        "permissions": [{"user": "anna", "vhost": "/", "configure": "", "write": "", "read": ".*"}],
    }
    assert saving.call("POST", "/api/definitions?report=true", document).status == 200
    saved = load_users(users_file)
    assert sorted(saved) == ["anna", "guest"]
    assert saved["anna"].permissions == {"/": Permission("^$", "^$", ".*")}


def test_permissions_go_with_their_virtual_host(saving: RunningApi, users_file: str) -> None:
    saving.call("PUT", "/api/vhosts/new")
    assert "new" in load_users(users_file)["guest"].permissions
    saving.call("DELETE", "/api/vhosts/new")
    assert "new" not in load_users(users_file)["guest"].permissions


def test_a_users_file_that_cannot_be_written_is_told(saving: RunningApi, users_file: str) -> None:
    Path(users_file).write_text("{")
    answer = saving.call("PUT", "/api/users/anna", {"tags": ""})
    assert (answer.status, answer.json["error"]) == (500, "not_saved")
    assert "not in the users file" in answer.json["reason"]


def test_no_answer_is_a_traceback(api: RunningApi) -> None:
    """Values of every JSON type in every place of every body."""
    bodies: list[Any] = [None, 1, "x", [], [1], {"tags": {}}, {"definition": []}, {"users": [None, [], {"name": {}}]}]
    for body in bodies:
        for method, path in (
            ("POST", "/api/definitions"),
            ("PUT", "/api/users/x"),
            ("PUT", "/api/policies/%2F/x"),
            ("PUT", "/api/permissions/%2F/guest"),
            ("PUT", "/api/topic-permissions/%2F/guest"),
            ("PUT", "/api/vhosts/x"),
            ("PUT", "/api/vhost-limits/%2F/max-queues"),
            ("PUT", "/api/user-limits/guest/max-channels"),
            ("PUT", "/api/parameters/vhost-limits/%2F/limits"),
            ("PUT", "/api/global-parameters/x"),
            ("PUT", "/api/cluster-name"),
            ("POST", "/api/users/bulk-delete"),
            ("POST", "/api/definitions/%2F"),
        ):
            answer = api.call(method, path, json.dumps(body).encode())
            assert answer.status in (400, 201, 204), (method, path, body, answer.data)
