"""Commands that change something: the calls that they make, and how they tell the outcome."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from openclust.cli.http_client import HttpAnswer
from openclust.cli.main import openclust
from tests.support.cli.fake_client import FakeClient, use


def run(*arguments: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(openclust, arguments, prog_name="openclust", input=stdin)


NOTHING = HttpAnswer(204, None, ())
NEW = HttpAnswer(201, None, ())


@pytest.mark.parametrize(
    ("command", "call", "body", "told"),
    [
        ("queues purge a/b --vhost v", "DELETE /api/queues/v/a%2Fb/contents", None, "Purged a/b."),
        ("queues delete q", "DELETE /api/queues/%2F/q", None, "Deleted q."),
        ("queues delete q --if-empty", "DELETE /api/queues/%2F/q?if-empty=true", None, "Deleted q."),
        (
            "queues declare q --type quorum",
            "PUT /api/queues/%2F/q",
            {"durable": True, "auto_delete": False, "arguments": {"x-queue-type": "quorum"}},
            "There is already q.",
        ),
        ("connections close 1.2.3.4:5", "DELETE /api/connections/1.2.3.4%3A5", None, "Closed 1.2.3.4:5."),
        ("policies clear p --operator", "DELETE /api/operator-policies/%2F/p", None, "Cleared the policy p."),
        (
            'policies set p ^a {"max-length":1} --apply-to queues --priority 2',
            "PUT /api/policies/%2F/p",
            {"pattern": "^a", "definition": {"max-length": 1}, "apply-to": "queues", "priority": 2},
            "Changed the policy p.",
        ),
        ("vhosts add v", "PUT /api/vhosts/v", {}, "There is already v."),
        ("vhosts delete v --yes", "DELETE /api/vhosts/v", None, "Deleted v."),
        (
            "limits set max-queues 5 --vhost /",
            "PUT /api/vhost-limits/%2F/max-queues",
            {"value": 5},
            "Set max-queues of vhost / to 5.",
        ),
        (
            "limits clear max-channels --user anna",
            "DELETE /api/user-limits/anna/max-channels",
            None,
            "Cleared max-channels of user anna.",
        ),
    ],
)
def test_a_change_is_one_call(
    monkeypatch: pytest.MonkeyPatch, command: str, call: str, body: dict[str, Any] | None, told: str
) -> None:
    client = use(monkeypatch, FakeClient(NOTHING))
    result = run(*command.split())
    assert (result.stdout, result.exit_code) == (f"{told}\n", 0)
    assert [" ".join(each) for each in client.asked] == [call]
    assert client.bodies == [body]


def test_what_is_new_is_told_as_new(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, FakeClient(NEW))
    assert run("queues", "declare", "q").stdout == "Declared q.\n"
    assert run("vhosts", "add", "v").stdout == "Added v.\n"
    assert run("policies", "set", "p", "^a", "{}").stdout == "Made the policy p.\n"


@pytest.mark.parametrize(
    ("command", "missing"),
    [
        ("queues purge q", "queue 'q' in virtual host '/'"),
        ("queues delete q", "queue 'q' in virtual host '/'"),
        ("connections close c", "connection 'c'"),
        ("publish x key hello", "exchange 'x' in virtual host '/'"),
        ("vhosts delete v --yes", "virtual host 'v'"),
    ],
)
def test_what_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, command: str, missing: str) -> None:
    use(monkeypatch, FakeClient(HttpAnswer(404, {"reason": "Not Found"}, ())))
    result = run(*command.split())
    assert result.exit_code == 2
    assert result.stderr == f"openclust: error: http://127.0.0.1:1 has no {missing}\n"


def test_a_queue_that_a_condition_keeps_is_a_no(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, FakeClient(HttpAnswer(400, {"reason": "queue 'q' is not empty"}, ())))
    assert run("queues", "delete", "q", "--if-empty").exit_code == 1
    assert run("queues", "delete", "q").exit_code == 2


def test_the_reason_of_a_close_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    client = use(monkeypatch, FakeClient(NOTHING))
    run("connections", "close", "a", "b", "--reason", "new kernel")
    assert client.headers == [{"X-Reason": "new kernel"}] * 2
    assert run("connections", "close", "a", "--reason", "two\nlines").exit_code == 2


def test_deleting_a_virtual_host_needs_a_yes(monkeypatch: pytest.MonkeyPatch) -> None:
    client = use(monkeypatch, FakeClient(NOTHING))
    monkeypatch.setattr("openclust.cli.objects.vhosts.has_terminal", lambda: False)
    assert "add --yes" in run("vhosts", "delete", "v").stderr
    monkeypatch.setattr("openclust.cli.objects.vhosts.has_terminal", lambda: True)
    assert run("vhosts", "delete", "v", stdin=b"n\n").exit_code == 130
    assert client.asked == []
    assert run("vhosts", "delete", "v", stdin=b"y\n").exit_code == 0


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("limits set max-queues 5", "whose limit?"),
        ("limits set max-queues 5 --vhost v --user u", "whose limit?"),
        ("limits set max-queues 5 --user u", "a user has no limit max-queues"),
        ("policies set p ^a [1]", "the definition is no JSON object"),
        ("publish x key", "give PAYLOAD or --file FILE"),
        ("queues move q q", "q would be moved to itself"),
        ("queues move a b --amqp-url amqp://u:p@h", "without a password"),
    ],
)
def test_wrong_usage_is_told(monkeypatch: pytest.MonkeyPatch, command: str, told: str) -> None:
    client = use(monkeypatch, FakeClient(NOTHING))
    result = run(*command.split())
    assert (result.exit_code, client.asked) == (2, [])
    assert told in result.stderr


def test_a_message_is_published_as_text_or_else_as_base64(monkeypatch: pytest.MonkeyPatch) -> None:
    client = use(monkeypatch, FakeClient({"routed": True}))
    result = run("publish", "", "q", "hello", "--headers", '{"a": 1}', "--properties", '{"priority": 3}')
    assert (result.stdout, client.asked) == ("Published.\n", [("POST", "/api/exchanges/%2F/amq.default/publish")])
    assert client.bodies[0] == {
        "routing_key": "q",
        "payload": "hello",
        "payload_encoding": "string",
        "properties": {"delivery_mode": 2, "priority": 3, "headers": {"a": 1}},
    }
    run("publish", "logs", "k", "--file", "-", "--transient", stdin=b"\xff\x00")
    sent = client.bodies[1]
    assert (sent["payload"], sent["payload_encoding"], sent["properties"]) == ("/wA=", "base64", {"delivery_mode": 1})


def test_a_message_that_nobody_wants_is_a_no(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, FakeClient({"routed": False}))
    assert run("publish", "logs", "k", "hello").exit_code == 1


def test_messages_of_a_queue_are_put_back_unless_they_are_to_go(monkeypatch: pytest.MonkeyPatch) -> None:
    message = {"payload": "x\x1b", "payload_bytes": 2, "exchange": "", "routing_key": "q", "redelivered": False}
    client = use(monkeypatch, FakeClient([message]))
    result = run("queues", "get", "q", "--count", "3")
    assert result.stdout.splitlines()[1].split() == ["-", "q", "no", "2", "x\\x1b", "-", "-"]
    run("queues", "get", "q", "--remove", "--truncate", "10")
    assert client.bodies == [
        {"count": 3, "ackmode": "ack_requeue_true", "encoding": "auto"},
        {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto", "truncate": 10},
    ]
    use(monkeypatch, FakeClient([]))
    result = run("queues", "get", "q", "--json")
    assert (result.exit_code, json.loads(result.stdout)) == (1, [])


def test_limits_of_virtual_hosts_and_users_are_one_list(monkeypatch: pytest.MonkeyPatch) -> None:
    of_vhosts = [{"vhost": "/", "value": {"max-queues": 5, "max-connections": 9}}]
    of_users = [{"user": "anna", "value": {"max-channels": 2}}]
    use(monkeypatch, FakeClient(of_vhosts, of_users))
    assert run("limits", "list").stdout.splitlines() == [
        "of     name  limit            most",
        "vhost  /     max-connections  9",
        "vhost  /     max-queues       5",
        "user   anna  max-channels     2",
    ]
    client = use(monkeypatch, FakeClient(of_users))
    assert json.loads(run("limits", "list", "--user", "anna", "--json").stdout) == of_users
    assert client.asked == [("GET", "/api/user-limits/anna")]


# -- health


def test_all_checks_are_made_and_those_the_broker_does_not_know_are_no_failures(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unknown, well = HttpAnswer(404, {}, ()), HttpAnswer(200, {"status": "ok"}, ())
    use(monkeypatch, FakeClient(unknown, well))
    result = run("health")
    assert result.exit_code == 0
    first, second = result.stdout.splitlines()[1:3]
    assert first.split() == ["ready", "unknown", "not", "known", "to", "this", "broker"]
    assert second.split() == ["alarms", "well"]


def test_a_check_that_fails_is_a_no_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    ill = HttpAnswer(503, {"not_ready": [{"check": "root", "reason": "no root"}]}, ())
    use(monkeypatch, FakeClient(ill))
    result = run("health", "ready", "--json")
    assert (json.loads(result.stdout), result.exit_code) == (
        [{"check": "ready", "is_well": False, "reason": "no root"}],
        1,
    )


def test_a_check_by_name_must_be_known(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, FakeClient(HttpAnswer(404, {}, ())))
    assert "has no check alarms" in run("health", "alarms").stderr
