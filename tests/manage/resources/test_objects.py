"""Queues, exchanges, bindings and messages over HTTP, by one broker."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pika
import pytest

from openclust.manage.resources import messages
from tests.support.manage.running_api import Answer, RunningApi, running_api

pytestmark = pytest.mark.sockets

LIMITED = "anna:secret"
"""May do everything to what is called `mine`, and nothing else."""


@pytest.fixture(scope="module")
def api() -> Iterator[RunningApi]:
    with running_api() as running:
        running.call("PUT", "/api/users/anna", {"password": "secret", "tags": "management"})
        mine = {"configure": "^mine", "write": "^mine", "read": "^mine"}
        running.call("PUT", "/api/permissions/%2F/anna", mine)
        yield running


@pytest.fixture(autouse=True)
def emptied(api: RunningApi) -> Iterator[None]:
    """No queue and no exchange of another test is there, and no connection is left of any call."""
    yield
    assert api.get("/api/connections") == []
    assert api.on_loop(lambda server: (len(server.broker.connections), server.broker.open_count())) == (0, 0)
    for queue in api.get("/api/queues"):
        api.call("DELETE", f"/api/queues/%2F/{queue['name']}")
    for exchange in api.get("/api/exchanges"):
        if exchange["name"] and not exchange["name"].startswith("amq."):
            api.call("DELETE", f"/api/exchanges/%2F/{exchange['name']}")


def connected(api: RunningApi) -> pika.BlockingConnection:
    host, port = api.on_loop(lambda server: server.listeners[0].address)
    return pika.BlockingConnection(pika.ConnectionParameters(host, port))


def publish(api: RunningApi, payload: str, queue: str = "mine", **more: Any) -> Answer:
    body = {"properties": {}, "routing_key": queue, "payload": payload, "payload_encoding": "string", **more}
    return api.call("POST", "/api/exchanges/%2F/amq.default/publish", body)


def got(api: RunningApi, ackmode: str = "ack_requeue_true", **more: Any) -> list[dict[str, Any]]:
    body = {"count": 10, "ackmode": ackmode, "encoding": "auto", **more}
    answer = api.call("POST", "/api/queues/%2F/mine/get", body)
    assert answer.status == 200, answer.data
    rows: list[dict[str, Any]] = answer.json
    return rows


def refusal(answer: Answer) -> tuple[int, str, str]:
    return answer.status, answer.json["error"], answer.json["reason"]


# -- queues


def test_a_queue_is_declared_and_deleted(api: RunningApi) -> None:
    body = {"durable": True, "arguments": {"x-max-length": 5}, "node": "elsewhere"}
    assert api.call("PUT", "/api/queues/%2F/mine", body).status == 201
    shown = api.get("/api/queues/%2F/mine")
    assert (shown["durable"], shown["arguments"]) == (True, {"x-max-length": 5})
    assert api.call("PUT", "/api/queues/%2F/mine", body).status == 204
    assert api.call("DELETE", "/api/queues/%2F/mine").status == 204
    assert api.call("GET", "/api/queues/%2F/mine").status == 404
    assert api.call("DELETE", "/api/queues/%2F/mine").status == 404


def test_a_queue_that_is_there_cannot_be_declared_as_another(api: RunningApi) -> None:
    api.call("PUT", "/api/queues/%2F/mine", {"durable": True})
    status, error, reason = refusal(api.call("PUT", "/api/queues/%2F/mine", {"durable": "false"}))
    assert (status, error) == (400, "bad_request")
    assert reason == "inequivalent arg 'durable' for queue 'mine' in vhost '/': received 'false' but current is 'true'"


def test_a_queue_is_not_deleted_while_it_has_messages_or_consumers_if_so_asked(api: RunningApi) -> None:
    api.call("PUT", "/api/queues/%2F/mine", {})
    publish(api, "x")
    assert refusal(api.call("DELETE", "/api/queues/%2F/mine?if-empty=true"))[2].endswith("not empty")
    connection = connected(api)
    connection.channel().basic_consume("mine", lambda *_: None)
    assert refusal(api.call("DELETE", "/api/queues/%2F/mine?if-unused=true"))[2].endswith("in use")
    connection.close()
    assert api.call("DELETE", "/api/queues/%2F/mine?if-unused=true").status == 204


def test_a_queue_is_purged(api: RunningApi) -> None:
    api.call("PUT", "/api/queues/%2F/mine", {})
    publish(api, "x")
    assert api.call("DELETE", "/api/queues/%2F/mine/contents").status == 204
    assert got(api) == []
    assert api.call("DELETE", "/api/queues/%2F/none/contents").status == 404


def test_actions_on_mirrored_queues_are_accepted(api: RunningApi) -> None:
    api.call("PUT", "/api/queues/%2F/mine", {})
    assert api.call("POST", "/api/queues/%2F/mine/actions", {"action": "sync"}).status == 204
    answer = api.call("POST", "/api/queues/%2F/mine/actions", {"action": "nonsense"})
    assert (answer.status, answer.json["reason"]) == (400, ["unknown", "nonsense"])


def test_nobody_else_uses_an_exclusive_queue(api: RunningApi) -> None:
    connection = connected(api)
    connection.channel().queue_declare("mine", exclusive=True)
    for method, path, body in (
        ("PUT", "", {}),
        ("DELETE", "", None),
        ("DELETE", "/contents", None),
        ("POST", "/get", {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}),
    ):
        status, _, reason = refusal(api.call(method, f"/api/queues/%2F/mine{path}", body))
        assert status == 400 and "cannot obtain exclusive access to locked queue 'mine'" in reason
    connection.close()


# -- exchanges


def test_an_exchange_is_declared_and_deleted(api: RunningApi) -> None:
    body = {"type": "topic", "durable": True, "internal": True, "arguments": {"x": 1}}
    assert api.call("PUT", "/api/exchanges/%2F/mine", body).status == 201
    assert api.call("PUT", "/api/exchanges/%2F/mine", body).status == 204
    shown = api.get("/api/exchanges/%2F/mine")
    assert (shown["type"], shown["durable"], shown["internal"]) == ("topic", True, True)
    assert (shown["incoming"], shown["outgoing"]) == ([], [])
    assert refusal(api.call("PUT", "/api/exchanges/%2F/mine", {"type": "fanout"}))[0] == 400
    assert api.call("DELETE", "/api/exchanges/%2F/mine").status == 204
    assert api.call("DELETE", "/api/exchanges/%2F/mine").status == 404


def test_an_exchange_type_that_does_not_exist_is_refused(api: RunningApi) -> None:
    status, _, reason = refusal(api.call("PUT", "/api/exchanges/%2F/mine", {"type": "nonsense"}))
    assert status == 400 and reason.startswith("unknown exchange type 'nonsense'")


def test_an_exchange_that_is_used_is_not_deleted_if_so_asked(api: RunningApi) -> None:
    api.call("PUT", "/api/exchanges/%2F/mine", {})
    api.call("PUT", "/api/queues/%2F/mine", {})
    api.call("POST", "/api/bindings/%2F/e/mine/q/mine", {})
    assert refusal(api.call("DELETE", "/api/exchanges/%2F/mine?if-unused=true"))[2].endswith("in use")


def test_the_default_exchange_is_shown_and_cannot_be_changed(api: RunningApi) -> None:
    assert api.get("/api/exchanges/%2F/amq.default")["name"] == ""
    assert refusal(api.call("PUT", "/api/exchanges/%2F/amq.default", {}))[:2] == (401, "not_authorised")
    assert refusal(api.call("DELETE", "/api/exchanges/%2F/amq.default"))[:2] == (401, "not_authorised")


# -- bindings


@pytest.fixture
def bound(api: RunningApi) -> RunningApi:
    """The exchanges `mine` and `minor`, and the queue `mine`."""
    for exchange in ("mine", "minor"):
        api.call("PUT", f"/api/exchanges/%2F/{exchange}", {"type": "topic"})
    api.call("PUT", "/api/queues/%2F/mine", {})
    return api


def keys(api: RunningApi, path: str) -> list[str]:
    return [row["properties_key"] for row in api.get(path)]


@pytest.mark.parametrize(
    ("body", "key", "location"),
    [
        (None, "~", "mine/~"),
        ({"routing_key": "a.b"}, "a.b", "mine/a.b"),
        ({"routing_key": "a/b c~d%"}, "a%2Fb+c%7Ed%25", "mine/a%252Fb%2Bc%257Ed%2525"),
        ({"routing_key": "~"}, "%7E", "mine/%257E"),
    ],
)
def test_a_binding_is_made_found_by_its_key_and_deleted(bound: RunningApi, body: Any, key: str, location: str) -> None:
    made = bound.call("POST", "/api/bindings/%2F/e/mine/q/mine", body)
    assert (made.status, made.headers["Location"]) == (201, location)
    assert keys(bound, "/api/bindings/%2F/e/mine/q/mine") == [key]
    one = f"/api/bindings/%2F/e/mine/q/{location}"
    assert bound.get(one)["routing_key"] == (body or {}).get("routing_key", "")
    assert bound.call("DELETE", one).status == 204
    assert bound.call("DELETE", one).status == 404
    assert keys(bound, "/api/bindings/%2F/e/mine/q/mine") == []


def test_bindings_that_differ_in_their_arguments_alone_have_keys_of_their_own(bound: RunningApi) -> None:
    path = "/api/bindings/%2F/e/mine/q/mine"
    for arguments in ({"a": 1, "b": [{"c": None}]}, {"b": [{"c": None}], "a": 1}, {"a": 2}):
        assert bound.call("POST", path, {"routing_key": "k", "arguments": arguments}).status == 201
    found = {row["properties_key"]: row["arguments"] for row in bound.get(path)}
    assert sorted(map(str, found.values())) == ["{'a': 1, 'b': [{'c': None}]}", "{'a': 2}"]
    assert all(key.startswith("k~") for key in found)
    for key in found:
        assert bound.call("DELETE", f"{path}/{key}").status == 204
    assert bound.get(path) == []


def test_a_binding_is_found_by_its_key_as_it_stands_in_the_list(bound: RunningApi) -> None:
    path = "/api/bindings/%2F/e/mine/q/mine"
    bound.call("POST", path, {"routing_key": "a.# b", "arguments": {"x": 1}})
    (key,) = keys(bound, path)
    assert key.startswith("a.%23+b~")
    for spelled in (key, quote(key)):
        assert bound.get(f"{path}/{spelled}")["routing_key"] == "a.# b"
    assert bound.call("DELETE", f"{path}/{key}").status == 204


def test_exchanges_are_bound_to_each_other(bound: RunningApi) -> None:
    path = "/api/bindings/%2F/e/mine/e/minor"
    assert bound.call("POST", path, {"routing_key": "k"}).status == 201
    row = {
        "source": "mine",
        "vhost": "/",
        "destination": "minor",
        "destination_type": "exchange",
        "routing_key": "k",
        "arguments": {},
        "properties_key": "k",
    }
    for asked in (path, "/api/exchanges/%2F/mine/bindings/source", "/api/exchanges/%2F/minor/bindings/destination"):
        assert bound.get(asked) == [row]
    assert bound.get("/api/exchanges/%2F/mine/bindings/destination") == []
    assert bound.call("DELETE", f"{path}/k").status == 204
    assert bound.get(path) == []


def test_every_queue_is_bound_to_the_default_exchange(bound: RunningApi) -> None:
    row = bound.get("/api/bindings/%2F/e/amq.default/q/mine/mine")
    assert (row["source"], row["routing_key"], row["properties_key"]) == ("", "mine", "mine")
    for path in ("/api/queues/%2F/mine/bindings", "/api/bindings", "/api/exchanges/%2F/amq.default/bindings/source"):
        assert bound.get(path) == [row]
    assert refusal(bound.call("DELETE", "/api/bindings/%2F/e/amq.default/q/mine/mine"))[0] == 401


def test_a_binding_needs_both_its_ends(bound: RunningApi) -> None:
    assert bound.call("POST", "/api/bindings/%2F/e/mine/q/none", {}).status == 404
    assert bound.call("POST", "/api/bindings/%2F/e/none/q/mine", {}).status == 404
    assert bound.get("/api/bindings/%2F/e/none/q/mine") == []


# -- messages


def test_a_message_is_published_and_got_with_all_its_properties(api: RunningApi) -> None:
    api.call("PUT", "/api/queues/%2F/mine", {"durable": True})
    properties = {
        "content_type": "text/plain",
        "content_encoding": "utf-8",
        "headers": {"a": 1, "b": [1.5, True, None], "c": {"d": "e"}, "f": 2**40},
        "delivery_mode": 2,
        "priority": 3,
        "correlation_id": "c",
        "reply_to": "r",
        "expiration": "100000",
        "message_id": "m",
        "timestamp": 1_700_000_000,
        "type": "t",
        "user_id": "guest",
        "app_id": "a",
        "cluster_id": "cl",
    }
    assert publish(api, "é", properties=properties).json == {"routed": True}
    assert got(api) == [
        {
            "payload_bytes": 2,
            "redelivered": False,
            "exchange": "",
            "routing_key": "mine",
            "message_count": 0,
            "properties": properties,
            "payload": "é",
            "payload_encoding": "string",
        }
    ]


def test_who_publishes_is_told_whether_any_queue_wanted_the_message(api: RunningApi) -> None:
    assert publish(api, "lost").json == {"routed": False}


def test_a_message_that_a_full_queue_rejects_is_not_taken_for_published(api: RunningApi) -> None:
    api.call("PUT", "/api/queues/%2F/mine", {"arguments": {"x-max-length": 1, "x-overflow": "reject-publish"}})
    assert publish(api, "one").status == 200
    assert refusal(publish(api, "two"))[0] == 400
    assert [row["payload"] for row in got(api)] == ["one"]


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"properties": {"user_id": "anna"}}, "406 PRECONDITION_FAILED - user_id property set to 'anna'"),
        ({"properties": {"expiration": "soon"}}, "406 PRECONDITION_FAILED - invalid expiration 'soon'"),
        ({"properties": {"priority": 256}}, "the body is not right"),
        ({"properties": {"headers": {"x" * 300: 1}}}, "AMQP cannot say this"),
        ({"properties": {"headers": {"x": 2**80}}}, "AMQP cannot say this"),
        ({"properties": {"type": "t" * 300}}, "AMQP cannot say this"),
        ({"routing_key": "k" * 300}, "AMQP cannot say this"),
        ({"payload_encoding": "base64", "payload": "####"}, "payload is not base64"),
        ({"payload_encoding": "hex"}, ["unsupported_encoding", "hex"]),
    ],
)
def test_a_message_that_cannot_be_is_refused(api: RunningApi, more: dict[str, Any], reason: str | list[str]) -> None:
    status, error, told = refusal(publish(api, **{"payload": "x", **more}))
    assert (status, error) == (400, "bad_request")
    assert told == reason if isinstance(reason, list) else told.startswith(reason)


def test_a_message_cannot_be_published_where_there_is_no_exchange_or_an_internal_one(api: RunningApi) -> None:
    body = {"properties": {}, "routing_key": "", "payload": "", "payload_encoding": "string"}
    told = refusal(api.call("POST", "/api/exchanges/%2F/none/publish", body))
    assert told == (400, "bad_request", "404 NOT_FOUND - no exchange 'none' in vhost '/'")
    api.call("PUT", "/api/exchanges/%2F/mine", {"internal": True})
    assert refusal(api.call("POST", "/api/exchanges/%2F/mine/publish", body))[2].startswith("403 ACCESS_REFUSED")


@pytest.mark.parametrize(
    ("ackmode", "left"),
    [
        ("ack_requeue_true", ["1", "2", "3"]),
        ("reject_requeue_true", ["1", "2", "3"]),
        ("ack_requeue_false", ["3"]),
        ("reject_requeue_false", ["3"]),
    ],
)
def test_ackmode_says_what_becomes_of_the_messages(api: RunningApi, ackmode: str, left: list[str]) -> None:
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "letters"}
    api.call("PUT", "/api/queues/%2F/mine", {"arguments": arguments})
    api.call("PUT", "/api/queues/%2F/letters", {})
    for payload in "123":
        publish(api, payload)
    assert [row["payload"] for row in got(api, ackmode, count=2)] == ["1", "2"]
    rows = got(api)
    assert [row["payload"] for row in rows] == left
    assert [row["redelivered"] for row in rows[:-1]] == [True] * (len(left) - 1)
    letters = api.get("/api/queues/%2F/letters")["messages"]
    assert letters == (2 if ackmode == "reject_requeue_false" else 0)


def test_payloads_are_text_where_they_can_be_and_cut_if_so_asked(api: RunningApi) -> None:
    api.call("PUT", "/api/queues/%2F/mine", {})
    publish(api, "words")
    publish(api, b64encode(b"\xff\xfe\xfd").decode(), payload_encoding="base64")
    shown = [(row["payload"], row["payload_encoding"], row["payload_bytes"]) for row in got(api, truncate=2)]
    assert shown == [("wo", "string", 5), (b64encode(b"\xff\xfe").decode(), "base64", 3)]
    assert {row["payload_encoding"] for row in got(api, encoding="base64")} == {"base64"}


def test_a_large_message_goes_in_and_out(api: RunningApi) -> None:
    api.call("PUT", "/api/queues/%2F/mine", {})
    payload = "x" * 3_000_000
    assert publish(api, payload).json == {"routed": True}
    assert got(api)[0]["payload"] == payload


def test_a_get_says_how_many_and_what_becomes_of_them(api: RunningApi) -> None:
    api.call("PUT", "/api/queues/%2F/mine", {})
    for body in ({"count": 1}, {"count": 1, "ackmode": "nonsense", "encoding": "auto"}, {}):
        assert api.call("POST", "/api/queues/%2F/mine/get", body).status == 400
    assert got(api, count="1") == []
    answer = api.call(
        "POST", "/api/queues/%2F/mine/get", {"count": "x", "ackmode": "ack_requeue_true", "encoding": "auto"}
    )
    assert (answer.status, answer.json["reason"]) == (400, ["not_integer", "x"])
    whole = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}
    assert api.call("POST", "/api/queues/%2F/none/get", whole).status == 404


# -- permissions


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "queues/%2F/other2", {}),
        ("DELETE", "queues/%2F/other", None),
        ("DELETE", "queues/%2F/other/contents", None),
        ("POST", "queues/%2F/other/get", {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}),
        ("PUT", "exchanges/%2F/other2", {}),
        ("DELETE", "exchanges/%2F/other", None),
        ("POST", "bindings/%2F/e/other/q/mine", {}),
        ("POST", "bindings/%2F/e/mine/q/other", {}),
        ("DELETE", "bindings/%2F/e/other/q/other/~", None),
    ],
)
def test_a_user_may_do_what_it_may_do_as_a_client(api: RunningApi, method: str, path: str, body: Any) -> None:
    for name in ("mine", "other"):
        api.call("PUT", f"/api/queues/%2F/{name}", {})
        api.call("PUT", f"/api/exchanges/%2F/{name}", {})
    api.call("POST", "/api/bindings/%2F/e/other/q/other", {})
    status, error, reason = refusal(api.call(method, f"/api/{path}", body, login=LIMITED))
    assert (status, error) == (401, "not_authorised")
    assert reason.endswith("refused for user 'anna'")
    mine = path.replace("other", "mine")
    api.call("POST", "/api/bindings/%2F/e/mine/q/mine", {})
    assert api.call(method, f"/api/{mine}", body, login=LIMITED).status in (200, 201, 204)


def test_a_user_publishes_where_it_may(api: RunningApi) -> None:
    api.call("PUT", "/api/exchanges/%2F/mine", {})
    body = {"properties": {}, "routing_key": "", "payload": "", "payload_encoding": "string"}
    assert api.call("POST", "/api/exchanges/%2F/mine/publish", body, login=LIMITED).status == 200
    refused = api.call("POST", "/api/exchanges/%2F/amq.topic/publish", body, login=LIMITED)
    assert refusal(refused)[2].startswith("403 ACCESS_REFUSED - write access to 'amq.topic'")


def test_who_may_see_everything_still_needs_permissions_to_change_something(api: RunningApi) -> None:
    api.call("PUT", "/api/users/bob", {"password": "secret", "tags": "administrator"})
    status, error, reason = refusal(api.call("PUT", "/api/queues/%2F/mine", {}, login="bob:secret"))
    assert (status, error, reason) == (401, "not_authorised", "user 'bob' has no permissions in vhost '/'")
    assert api.get("/api/queues/%2F", login="bob:secret") == []


# -- what is in the way


def test_a_publish_that_has_to_wait_too_long_says_for_what(api: RunningApi, monkeypatch: pytest.MonkeyPatch) -> None:
    api.call("PUT", "/api/queues/%2F/mine", {})

    def use(base_bytes: int) -> None:
        def set_base(server: Any) -> None:
            server.broker.memory_accounts.base_bytes = base_bytes
            server.turn_soon()

        api.on_loop(set_base)

    before = api.on_loop(lambda server: server.broker.memory_accounts.base_bytes)
    use(2**62)
    with monkeypatch.context() as patched:
        patched.setattr("openclust.manage.calls.local_client.WAIT_S", 0.2)
        status, error, reason = refusal(publish(api, "x"))
    assert (status, error) == (503, "timeout")
    assert reason.startswith("there was no answer in time, as publishers wait: ")
    use(before)
    assert got(api) == []
    assert publish(api, "y").json == {"routed": True}


def test_only_so_many_calls_hold_messages_at_the_same_time(api: RunningApi, monkeypatch: pytest.MonkeyPatch) -> None:
    api.call("PUT", "/api/queues/%2F/mine", {})
    whole = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}
    with monkeypatch.context() as patched:
        patched.setattr(messages._gets, "_count", 0)
        patched.setattr(messages._large_publishes, "_count", 0)
        assert refusal(api.call("POST", "/api/queues/%2F/mine/get", whole))[:2] == (503, "busy")
        assert refusal(publish(api, "x" * 2_000_000))[:2] == (503, "busy")
        assert publish(api, "small").status == 200
    assert [row["payload"] for row in got(api)] == ["small"]
    assert (messages._gets._taken, messages._large_publishes._taken) == (0, 0)
